package sim

import (
	"testing"
	"time"
)

// A broker that ends in order hands its partitions over: nobody waits longer for an acknowledgement than for a new look at the metadata.
func TestOrderlyRestartsHoldNobodyUp(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		r, err := newClusterRun(seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		r.RunFor(2 * time.Second)
		for _, m := range r.Brokers() {
			for _, w := range r.writers {
				w.longest = 0
			}
			if err := r.StopInOrder(m); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			r.RunFor(time.Second)
			r.Restart(m)
			if !r.RunUntil(time.Minute, func() bool { return r.allRun() && r.whole() }) {
				t.Fatalf("seed %d: not whole after a restart: %s", seed, r.unsettled())
			}
			for _, w := range r.writers {
				if w.longest > time.Second {
					r.Report(t.Output(), 50)
					t.Fatalf("seed %d: while %s was restarted %s waited %s for an acknowledgement", seed, m.name, w.name, w.longest)
				}
			}
			r.RunFor(time.Second)
		}
		if err := r.settle(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
