package coordinator

import (
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// Timer calls a function on its shard's queue when a deadline has passed. Moving the deadline later, what every
// heartbeat does, is one store: the running env timer finds out when it fires and sleeps on for the rest.
type Timer struct {
	queue    env.Queue
	now      func() time.Duration
	name     string
	fn       func()
	deadline time.Duration // of the env's monotonic clock; meaningful while set
	set      bool          // a call is wanted
	armed    env.Timer     // nil when no env timer runs
	armedAt  time.Duration // when armed fires; armedAt <= deadline while set
}

// Reset has the function called after d, and no longer at any earlier deadline.
func (t *Timer) Reset(d time.Duration) {
	t.deadline, t.set = t.now()+d, true
	if t.armed != nil && t.armedAt <= t.deadline {
		return
	}
	t.arm(d)
}

// Start is Reset with another function to call.
func (t *Timer) Start(d time.Duration, fn func()) {
	t.fn = fn
	t.Reset(d)
}

// Stop has the function not called.
func (t *Timer) Stop() {
	t.set = false
	t.disarm()
}

// Running says whether a call is to come.
func (t *Timer) Running() bool { return t.set }

func (t *Timer) disarm() {
	if t.armed != nil {
		t.armed.Stop() // it does not run any more, even if it is already queued
		t.armed = nil
	}
}

func (t *Timer) arm(d time.Duration) {
	t.disarm()
	t.armedAt = t.now() + d
	t.armed = t.queue.After(d, t.name, t.fired)
}

func (t *Timer) fired() {
	t.armed = nil
	if !t.set {
		return
	}
	if rest := t.deadline - t.now(); rest > 0 {
		t.arm(rest)
		return
	}
	t.set = false
	t.fn()
}
