package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// model is the naive version of everything: whole copies at each snapshot.
type model struct {
	now       copies
	snapshots map[int64]copies
}

type copies struct {
	m map[string]int
	s map[int]bool
	n int64
}

func (c copies) clone() copies { return copies{maps.Clone(c.m), maps.Clone(c.s), c.n} }

// world is the real version, with a map of maps that come and go.
type world struct {
	r     *Registry
	m     *Map[string, int]
	s     *Set[int]
	n     *Counter
	inner *Map[int, *Map[int, int]]
}

func newWorld() *world {
	r := NewRegistry()
	return &world{
		r: r, m: NewOrderedMap[string, int](r), s: NewOrderedSet[int](r), n: NewCounter(r),
		inner: NewOrderedMap[int, *Map[int, int]](r),
	}
}

// TestAgainstCopiedMaps runs random histories of changes, snapshots, deletions and reverts.
func TestAgainstCopiedMaps(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runHistory(t, seed) })
	}
}

func runHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld()
	mod := model{copies{map[string]int{}, map[int]bool{}, 0}, map[int64]copies{}}
	innerNow := map[int]map[int]int{}
	innerAt := map[int64]map[int]map[int]int{}
	cloneInner := func(in map[int]map[int]int) map[int]map[int]int {
		out := map[int]map[int]int{}
		for k, v := range in {
			out[k] = maps.Clone(v)
		}
		return out
	}
	next := int64(0)
	keys := 1 + rng.IntN(300) // few keys: much overwriting; many: several levels of tree
	for range 1500 {
		switch rng.IntN(16) {
		case 0, 1: // take a snapshot, sometimes twice
			w.r.Snapshot(next)
			if _, ok := mod.snapshots[next]; !ok { // a second one of the same offset does nothing
				mod.snapshots[next] = mod.now.clone()
				innerAt[next] = cloneInner(innerNow)
			}
			next += int64(rng.IntN(3))
		case 2: // forget old ones
			if offs := w.r.Offsets(); len(offs) > 0 {
				upTo := offs[rng.IntN(len(offs))]
				w.r.DeleteUpTo(upTo)
				maps.DeleteFunc(mod.snapshots, func(o int64, _ copies) bool { return o < upTo })
				maps.DeleteFunc(innerAt, func(o int64, _ map[int]map[int]int) bool { return o < upTo })
			}
		case 3:
			if offs := w.r.Offsets(); len(offs) > 0 && rng.IntN(3) == 0 {
				to := offs[rng.IntN(len(offs))]
				w.r.Restore(to)
				mod.now = mod.snapshots[to].clone()
				innerNow = cloneInner(innerAt[to])
			}
			if offs := w.r.Offsets(); len(offs) > 0 && rng.IntN(3) == 0 {
				to := offs[rng.IntN(len(offs))]
				w.r.RevertTo(to)
				mod.now = mod.snapshots[to].clone()
				innerNow = cloneInner(innerAt[to])
				maps.DeleteFunc(mod.snapshots, func(o int64, _ copies) bool { return o > to })
				maps.DeleteFunc(innerAt, func(o int64, _ map[int]map[int]int) bool { return o > to })
				next = to
			}
		case 4, 5, 6, 7:
			k, v := fmt.Sprint("k", rng.IntN(keys)), rng.IntN(1000)
			w.m.Put(k, v)
			mod.now.m[k] = v
		case 8, 9:
			k := fmt.Sprint("k", rng.IntN(keys))
			got, ok := w.m.Delete(k)
			want, wantOK := mod.now.m[k]
			delete(mod.now.m, k)
			if got != want || ok != wantOK {
				t.Fatalf("Delete(%s) = %d, %t; want %d, %t", k, got, ok, want, wantOK)
			}
		case 10:
			k := rng.IntN(keys)
			if added := w.s.Add(k); added == mod.now.s[k] {
				t.Fatalf("Add(%d) = %t", k, added)
			}
			mod.now.s[k] = true
		case 11:
			k := rng.IntN(keys)
			if deleted := w.s.Delete(k); deleted != mod.now.s[k] {
				t.Fatalf("Delete(%d) = %t", k, deleted)
			}
			delete(mod.now.s, k)
		case 12:
			d := int64(rng.IntN(9) - 4)
			w.n.Add(d)
			mod.now.n += d
		case 13, 14:
			k, ik, v := rng.IntN(5), rng.IntN(20), rng.IntN(100)
			in, ok := w.inner.Get(k)
			if !ok {
				in = NewOrderedMap[int, int](w.r)
				w.inner.Put(k, in)
				innerNow[k] = map[int]int{}
			}
			in.Put(ik, v)
			innerNow[k][ik] = v
		case 15:
			k := rng.IntN(5)
			w.inner.Delete(k)
			delete(innerNow, k)
		}
		if rng.IntN(20) == 0 {
			compare(t, w, Latest, mod.now, innerNow)
			for o, want := range mod.snapshots {
				compare(t, w, o, want, innerAt[o])
			}
			if got, want := w.r.Offsets(), slices.Sorted(maps.Keys(mod.snapshots)); !slices.Equal(got, want) {
				t.Fatalf("snapshots %v, want %v", got, want)
			}
		}
	}
}

func compare(t *testing.T, w *world, offset int64, want copies, wantInner map[int]map[int]int) {
	t.Helper()
	m := map[string]int{}
	last := ""
	for k, v := range w.m.AllAt(offset) {
		if k <= last {
			t.Fatalf("at %d: %s after %s", offset, k, last)
		}
		m[k], last = v, k
		if got, ok := w.m.GetAt(k, offset); !ok || got != v {
			t.Fatalf("at %d: GetAt(%s) = %d, %t; want %d", offset, k, got, ok, v)
		}
	}
	s := map[int]bool{}
	for k := range w.s.AllAt(offset) {
		s[k] = true
	}
	inner := map[int]map[int]int{}
	for k, in := range w.inner.AllAt(offset) {
		inner[k] = maps.Collect(in.AllAt(offset))
	}
	if diff := gocmp.Diff(want.m, m); diff != "" {
		t.Fatalf("map at %d (-want +got):\n%s", offset, diff)
	}
	if diff := gocmp.Diff(want.s, s); diff != "" {
		t.Fatalf("set at %d (-want +got):\n%s", offset, diff)
	}
	if diff := gocmp.Diff(wantInner, inner); diff != "" {
		t.Fatalf("inner maps at %d (-want +got):\n%s", offset, diff)
	}
	if got := w.n.GetAt(offset); got != want.n {
		t.Fatalf("counter at %d: %d, want %d", offset, got, want.n)
	}
	if got := w.m.LenAt(offset); got != len(want.m) {
		t.Fatalf("length at %d: %d, want %d", offset, got, len(want.m))
	}
}

// TestLedger is the walk through the third example: put and remove over snapshots, read back, commit, revert.
func TestLedger(t *testing.T) {
	r := NewRegistry()
	m := NewOrderedMap[string, string](r)
	m.Put("a", "1")
	r.Snapshot(10)
	m.Put("a", "2")
	m.Put("b", "1")
	r.Snapshot(11)
	m.Delete("a")
	r.Snapshot(12)
	m.Put("c", "1")

	state := func(offset int64) map[string]string { return maps.Collect(m.AllAt(offset)) }
	for _, c := range []struct {
		offset int64
		want   map[string]string
	}{
		{10, map[string]string{"a": "1"}},
		{11, map[string]string{"a": "2", "b": "1"}},
		{12, map[string]string{"b": "1"}},
		{Latest, map[string]string{"b": "1", "c": "1"}},
	} {
		if diff := gocmp.Diff(c.want, state(c.offset)); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", c.offset, diff)
		}
	}
	r.DeleteUpTo(11)
	r.RevertTo(11)
	if diff := gocmp.Diff(map[string]string{"a": "2", "b": "1"}, state(Latest)); diff != "" {
		t.Errorf("reverted (-want +got):\n%s", diff)
	}
	if got := r.Offsets(); !slices.Equal(got, []int64{11}) {
		t.Errorf("snapshots %v, want [11]", got)
	}
}

// TestKeepsOnlyWhatChanged: a snapshot nobody writes after keeps nothing, a released one leaves nothing.
func TestKeepsOnlyWhatChanged(t *testing.T) {
	r := NewRegistry()
	maps := make([]*Map[int, int], 1000)
	for i := range maps {
		maps[i] = NewMap[int, int](r, cmp.Compare[int])
		maps[i].Put(1, 1)
	}
	for o := range int64(100) {
		r.Snapshot(o)
		maps[o].Put(1, 2)
		maps[o].Put(2, 2)
	}
	kept := 0
	for _, m := range maps {
		kept += len(m.history.versions)
	}
	if kept != 100 {
		t.Errorf("%d versions kept, want one for each changed map", kept)
	}
	r.DeleteUpTo(100)
	for i, m := range maps {
		if m.history.versions != nil {
			t.Errorf("map %d still keeps %d versions", i, len(m.history.versions))
		}
	}
}

// TestMisuse: what the caller must not do is told at once.
func TestMisuse(t *testing.T) {
	for name, misuse := range map[string]func(r *Registry, m *Map[int, int]){
		"snapshot goes back":     func(r *Registry, _ *Map[int, int]) { r.Snapshot(4) },
		"read without snapshot":  func(_ *Registry, m *Map[int, int]) { m.GetAt(1, 4) },
		"revert without one":     func(r *Registry, _ *Map[int, int]) { r.RevertTo(4) },
		"iterate without any":    func(_ *Registry, m *Map[int, int]) { m.AllAt(6) },
		"read a deleted version": func(r *Registry, m *Map[int, int]) { r.Snapshot(9); r.DeleteUpTo(9); m.LenAt(5) },
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRegistry()
			m := NewOrderedMap[int, int](r)
			r.Snapshot(5)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(r, m)
		})
	}
}

func BenchmarkPutAfterSnapshot(b *testing.B) {
	r := NewRegistry()
	m := NewOrderedMap[int, int](r)
	for i := range 200_000 {
		m.Put(i, i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Snapshot(int64(i))
		r.DeleteUpTo(int64(i))
		m.Put(i*7919%200_000, i)
	}
}
