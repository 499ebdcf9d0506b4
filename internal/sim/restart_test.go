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

// A broker that was killed and comes back has its folders, so its former life is over: it takes part again long before that life's session has
// run out, which is three seconds here.
func TestKilledBrokersAreBackAtOnce(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		r, err := newClusterRun(seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		r.RunFor(2 * time.Second)
		for _, m := range r.Brokers() {
			before := r.Now()
			m.machine.Kill()
			r.Restart(m)
			if !r.RunUntil(time.Minute, func() bool { return r.allRun() }) {
				t.Fatalf("seed %d: %s does not run: %s", seed, m.name, r.unsettled())
			}
			if took := r.Now() - before; took > time.Second {
				r.Report(t.Output(), 50)
				t.Fatalf("seed %d: %s took part again after %s", seed, m.name, took)
			}
			if !r.RunUntil(time.Minute, r.whole) {
				t.Fatalf("seed %d: not whole after %s was killed: %s", seed, m.name, r.unsettled())
			}
			r.RunFor(time.Second)
		}
		if err := r.settle(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
