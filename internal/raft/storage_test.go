package raft

import (
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env/sim"
)

// A single voter on a real log: what was committed before a crash is there after it, whatever the disk lost.
func TestCrashesOfASingleVoter(t *testing.T) {
	for seed := range uint64(60) {
		w, n, cfg := standaloneIn(t, sim.NewWorld(seed, sim.Options{Disk: sim.DiskFaults{Torn: 0.3, Garbled: 0.3}}))
		committed := int64(0) // records acknowledged
		for life := range 5 {
			seen := &witness{node: 1}
			var q *Quorum
			n.Do("start", func() {
				var err error
				if q, err = Open(n, cfg); err != nil {
					t.Fatalf("seed %d life %d: %v", seed, life, err)
				}
				q.Register(seen)
				q.Start()
			})
			if !w.RunUntil(5*time.Second, func() bool {
				return q != nil && q.LeaderAndEpoch().LeaderID == 1 && q.HighWatermark() >= q.LogEndOffset()
			}) {
				w.Report(t.Output(), 60)
				t.Fatalf("seed %d life %d: no leader", seed, life)
			}
			w.RunFor(10 * time.Millisecond)
			if got := int64(seen.records); got < committed {
				t.Fatalf("seed %d life %d: %d records are left of %d that were committed", seed, life, got, committed)
			}
			if w.Workload.Chance(0.5) {
				n.CrashAfter(w.Workload.IntN(60))
			}
			for range 10 {
				node := n
				n.Do("append", func() {
					if _, err := q.PrepareAppend(q.LeaderAndEpoch().Epoch, noOps(3)); err == nil {
						q.SchedulePreparedAppend()
					}
				})
				w.RunFor(time.Millisecond)
				if node.Alive() {
					w.RunFor(time.Millisecond)
				}
			}
			committed = int64(seen.records)
			if n.Alive() {
				n.Crash()
			}
			n = n.Restart()
		}
	}
}
