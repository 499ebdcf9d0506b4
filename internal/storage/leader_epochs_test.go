package storage

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
)

func realFS() env.FS { return real.New(real.Options{}).FS() }

// epochList says of each offset which epoch its record has: the log itself, from start on.
type epochList struct {
	start  int64
	epochs []int32
}

func (l *epochList) end() int64 { return l.start + int64(len(l.epochs)) }

func (l *epochList) at(offset int64) int32 {
	if offset < l.start || len(l.epochs) == 0 {
		return -1
	}
	return l.epochs[min(offset, l.end()-1)-l.start]
}

// endOffsetFor is KIP-279's answer, found by going through the log.
func (l *epochList) endOffsetFor(epoch int32) (int32, int64) {
	if epoch == -1 || len(l.epochs) == 0 || epoch > l.epochs[len(l.epochs)-1] {
		return -1, -1
	}
	found := epoch
	if epoch >= l.epochs[0] {
		for _, e := range l.epochs {
			if e <= epoch {
				found = e
			}
		}
	}
	for i, e := range l.epochs {
		if e > epoch {
			return found, l.start + int64(i)
		}
	}
	return found, l.end()
}

// Random logs with truncations at both ends and restarts, judged by a list of the epochs of all records.
func TestLeaderEpochsAgainstList(t *testing.T) {
	fsys := realFS()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		path := filepath.Join(t.TempDir(), LeaderEpochFile)
		c, err := openLeaderEpochs(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		l := &epochList{}
		epoch := int32(r.IntN(3))
		for i := range 100 {
			switch r.IntN(10) {
			case 0:
				epoch += int32(1 + r.IntN(2))
			case 1:
				to := l.start + int64(r.IntN(len(l.epochs)+1))
				c.truncateEnd(to)
				l.epochs = l.epochs[:to-l.start]
			case 2:
				if n := r.IntN(len(l.epochs) + 1); n < len(l.epochs) {
					l.start, l.epochs = l.start+int64(n), l.epochs[n:]
					c.truncateStart(l.start)
				}
			case 3:
				if err := c.flush(); err != nil {
					t.Fatal(err)
				}
				if c, err = openLeaderEpochs(fsys, path); err != nil {
					t.Fatal(err)
				}
			default:
				changed := c.assign(epoch, l.end())
				if want := epoch != l.at(l.end()-1) || len(l.epochs) == 0; changed != want {
					t.Fatalf("seed %d, step %d: assign says %t, want %t", seed, i, changed, want)
				}
				for range 1 + r.IntN(3) {
					l.epochs = append(l.epochs, epoch)
				}
			}
			compareEpochs(t, seed, i, c, l, epoch)
		}
	}
}

func compareEpochs(t *testing.T, seed uint64, step int, c *leaderEpochs, l *epochList, epoch int32) {
	t.Helper()
	if len(l.epochs) > 0 && c.latest() != l.epochs[len(l.epochs)-1] {
		t.Fatalf("seed %d, step %d: latest %d", seed, step, c.latest())
	}
	if len(l.epochs) == 0 {
		return // the epochs of a log that was emptied are kept by Kafka too, until it is written to
	}
	for e := int32(-2); e <= epoch+1; e++ {
		got, gotEnd := c.endOffsetFor(e, l.end())
		if want, wantEnd := l.endOffsetFor(e); got != want || gotEnd != wantEnd {
			t.Fatalf("seed %d, step %d: end of epoch %d is %d@%d, want %d@%d; %v in %v", seed, step, e, gotEnd, got, wantEnd, want, c.entries, l)
		}
	}
	for o := l.start - 1; o <= l.end(); o++ {
		if got, want := c.at(o), l.at(o); got != want {
			t.Fatalf("seed %d, step %d: epoch at %d is %d, want %d; %v", seed, step, o, got, want, c.entries)
		}
	}
}

// Entries that contradict a new one go.
func TestConflictingEpochs(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch int32
		start int64
		want  []epochStart
	}{
		{"newer", 6, 40, []epochStart{{1, 0}, {3, 10}, {5, 20}, {6, 40}}},
		{"newer, at the start of the last", 6, 20, []epochStart{{1, 0}, {3, 10}, {6, 20}}},
		{"newer, below the start of two", 6, 10, []epochStart{{1, 0}, {6, 10}}},
		{"the last again", 5, 20, []epochStart{{1, 0}, {3, 10}, {5, 20}}},
		{"the last, later", 5, 25, []epochStart{{1, 0}, {3, 10}, {5, 20}}},
		{"the last, earlier", 5, 15, []epochStart{{1, 0}, {3, 10}, {5, 15}}},
		{"older than the last", 4, 30, []epochStart{{1, 0}, {3, 10}, {4, 30}}},
		{"older than all", 0, 30, []epochStart{{0, 30}}},
		{"before all", 9, 0, []epochStart{{9, 0}}},
		{"no epoch", -1, 30, []epochStart{{1, 0}, {3, 10}, {5, 20}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &leaderEpochs{entries: []epochStart{{1, 0}, {3, 10}, {5, 20}}}
			before := slices.Clone(e.entries)
			changed := e.assign(c.epoch, c.start)
			if !slices.Equal(e.entries, c.want) || changed == slices.Equal(before, c.want) {
				t.Errorf("%v, changed %t; want %v", e.entries, changed, c.want)
			}
		})
	}
}

func TestLeaderEpochFile(t *testing.T) {
	fsys := realFS()
	path := filepath.Join(t.TempDir(), LeaderEpochFile)
	e, err := openLeaderEpochs(fsys, path)
	if err != nil || e.latest() != -1 {
		t.Fatalf("without a file: %d, %v", e.latest(), err)
	}
	if err := e.flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Stat(path); err == nil {
		t.Error("a file was written although nothing changed")
	}
	e.assign(2, 0)
	e.assign(4, 17)
	if err := e.flush(); err != nil {
		t.Fatal(err)
	}
	if data, err := env.ReadFile(fsys, path); err != nil || string(data) != "0\n2\n2 0\n4 17\n" {
		t.Errorf("%q, %v", data, err)
	}
	for _, text := range []string{"0\n1\n-1 0\n", "0\n1\n1 -5\n", "0\n1\nx 5\n", "0\n1\n1\n", "0\n2\n1 0\n", "1\n0\n"} {
		if err := env.WriteFileAtomic(fsys, path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := openLeaderEpochs(fsys, path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
