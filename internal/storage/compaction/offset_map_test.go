package compaction

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The map says of every key what a Go map says, until it is full.
func TestOffsetMapAgainstMap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		slots := 1 + r.IntN(200)
		m := NewOffsetMap(int64(slots*bytesPerSlot+r.IntN(bytesPerSlot)), 0.9, int64(r.IntN(400)))
		want := map[string]int64{}
		bound := int(float64(slots) * 0.9)
		for offset := range int64(300) {
			key := fmt.Sprint(r.IntN(250))
			if len(m.table) <= len(want) && want[key] == 0 {
				break // there were more records than announced
			}
			if ok := m.Put([]byte(key), offset); ok != (len(want) < bound) {
				t.Fatalf("seed %d: key %d of %d was taken: %t", seed, len(want), bound, ok)
			} else if !ok {
				break
			}
			want[key] = offset
			if m.Latest() != offset {
				t.Fatalf("seed %d: the latest offset is %d, not %d", seed, m.Latest(), offset)
			}
		}
		for i := range 250 {
			key := fmt.Sprint(i)
			offset, ok := want[key]
			if !ok {
				offset = -1
			}
			if got := m.Get([]byte(key)); got != offset {
				t.Fatalf("seed %d: key %s is at %d, not at %d", seed, key, got, offset)
			}
		}
		if got, want := m.Utilization(), float64(len(want))/float64(slots); got != want {
			t.Fatalf("seed %d: utilization is %v, not %v", seed, got, want)
		}
	}
}

func TestUsable(t *testing.T) {
	for memory, want := range map[int64]bool{0: false, 24: false, 47: false, 48: true, 1 << 40: true} {
		if got := Usable(memory, 0.9); got != want {
			t.Errorf("a map of %d bytes can be used: %t", memory, got)
		}
	}
}
