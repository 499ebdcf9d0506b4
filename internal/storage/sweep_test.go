package storage

import (
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
)

// A sweep cuts the power at each operation on the disk of one and the same short life, and looks at what is left. What a crash leaves
// of what was not synced is drawn anew for each seed, and often the power fails again while the log is being opened.

// newSweep is a history whose only crash in its first life comes when crash operations are over.
func newSweep(seed uint64, node *config.Node, wrap func(env.Env) env.Env) *history {
	h := newHistory(seed, node, sim.DiskFaults{Torn: 0.3, Garbled: 0.3}, wrap)
	h.calm, h.openCrashes = true, 0
	return h
}

// sweep lives until a crash at an operation, or through so many steps, and a little longer in the next life. It says whether there
// was a crash.
func (h *history) sweep(operation, steps int) (crashed bool, err error) {
	h.reopen()
	h.openCrashes = 0.5
	h.node.CrashAfter(operation)
	for range steps {
		h.step()
		if crashed = h.mourn(); crashed || h.broken != nil || h.gaps {
			break
		}
	}
	for range 5 {
		if h.broken != nil || h.gaps {
			break
		}
		h.step()
		h.mourn()
	}
	return crashed, h.broken
}

// newCompactSweep is the same for a log that is being compacted.
func newCompactSweep(seed uint64, node *config.Node, wrap func(env.Env) env.Env) *compactHistory {
	c := newCompactHistory(seed, node, wrap)
	c.node.Disk().SetFaults(sim.DiskFaults{Torn: 0.3, Garbled: 0.3})
	c.openCrashes = 0
	c.own["segment.index.bytes"] = "10000" // so that small segments become one
	adjust := c.adjust
	c.adjust = func(o *ManagerOptions) {
		adjust(o)
		o.Cleaner.Threads, o.Cleaner.MaxBytesPerSecond, o.Cleaner.Backoff = 1, 1e9, 10*time.Second
	}
	return c
}

// sweep fills a log and has it compacted, the third time until a crash at an operation.
func (c *compactHistory) sweep(operation int) (crashed bool, err error) {
	c.reopen()
	for range 2 {
		c.fill()
		c.w.RunFor(time.Minute)
	}
	c.fill()
	c.openCrashes = 0.5
	c.node.CrashAfter(operation)
	c.w.RunFor(time.Minute)
	c.node.CrashAfter(0)
	crashed = c.mourn()
	for range 5 {
		c.append()
	}
	c.w.RunFor(time.Minute)
	c.verify()
	return crashed, c.broken
}

func (c *compactHistory) fill() {
	for range 20 {
		c.append()
	}
	c.do(func() {
		c.high = c.end
		c.l.SetHighWatermark(c.high)
	})
}

// stride is 1, but in a short run.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

func TestCrashAtEachOperation(t *testing.T) {
	node := nodeSettings(t)
	for seed := range seeds(2) {
		for operation, crashed := 1, true; crashed; operation += stride() {
			h := newSweep(seed, node, func(e env.Env) env.Env { return e })
			var err error
			if crashed, err = h.sweep(operation, 40); err != nil {
				h.w.Report(t.Output(), 60)
				t.Fatalf("crash at operation %d: %v", operation, err)
			}
			if operation == 1 && !crashed {
				t.Fatal("nothing was done")
			}
		}
	}
}

func TestCrashAtEachOperationOfACompaction(t *testing.T) {
	node := nodeSettings(t)
	for seed := range seeds(2) {
		for operation, crashed := 1, true; crashed; operation += stride() {
			c := newCompactSweep(seed, node, func(e env.Env) env.Env { return e })
			var err error
			if crashed, err = c.sweep(operation); err != nil {
				c.w.Report(t.Output(), 60)
				t.Fatalf("crash at operation %d: %v", operation, err)
			}
		}
	}
}
