package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 64 << 20: 400, 128 << 20: 200, 256 << 20: 100, 512 << 20: 50, 8 << 30: 50} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MB live: %d %%, want %d", live>>20, got, want)
		}
	}
}

var kept []byte

// The collector learns of a heap that grew, and of one that shrank.
func TestBoundGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	boundGarbage()
	percent := func() int {
		p := debug.SetGCPercent(mostGarbage)
		debug.SetGCPercent(p)
		return p
	}
	becomes := func(is func(int) bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
			runtime.GC()
			if p := percent(); is(p) {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%d %%", p)
			}
		}
	}
	kept = make([]byte, 256<<20)
	becomes(func(p int) bool { return p >= 60 && p <= 100 })
	kept = nil
	becomes(func(p int) bool { return p == mostGarbage })
}
