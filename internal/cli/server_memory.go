package cli

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// mostGarbage is how much garbage there may be for each hundred bytes that live: while little lives much is thrown away, and with
	// Go's default the collector would run all the time.
	mostGarbage = 400
	// leastGarbage is that of a heap of any size: below it the collector would take the processor for itself.
	leastGarbage = 50
	// garbageRoom is how many bytes of garbage there may be between those two.
	garbageRoom = 256 << 20
)

// garbagePercent is the GOGC for a heap of which so many bytes live.
func garbagePercent(live uint64) int {
	return int(min(mostGarbage, max(leastGarbage, garbageRoom*100/max(live, 1))))
}

// boundGarbage sets the collector to a room for garbage that grows with the heap only as far as garbageRoom, so that what a burst of
// requests leaves does not make the process several times as large as what lives.
func boundGarbage() {
	debug.SetGCPercent(mostGarbage)
	adjustAfterCollection(mostGarbage)
}

// adjustAfterCollection adjusts the collector after each of its runs: an object that nobody holds is gone with the next one.
func adjustAfterCollection(percent int) {
	type sentinel struct{ _ [16]byte }
	runtime.AddCleanup(new(sentinel), func(old int) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		next := garbagePercent(sample[0].Value.Uint64())
		if next != old {
			debug.SetGCPercent(next)
		}
		adjustAfterCollection(next)
	}, percent)
}
