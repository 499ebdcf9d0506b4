package raft

import (
	"testing"
	"time"
)

// forgetful is a log that keeps only its last batch, for runs that are about memory.
type forgetful struct{ *memorySegments }

func (f forgetful) AppendAsLeader(b []byte, epoch int32) error {
	err := f.memorySegments.AppendAsLeader(b, epoch)
	f.batches, f.synced = f.batches[len(f.batches)-1:], 0
	return err
}

// An idle single voter does nothing at all: no timer, no event. What is appended to it costs one event, one write and one
// sync, and leaves nothing behind in memory.
func TestIdle(t *testing.T) {
	w, n, cfg := standalone(t)
	m := &memorySegments{}
	q := mustOpen(t, n, cfg, forgetful{m})
	l := &witness{node: 1}
	q.Register(l)
	q.Start()
	w.RunFor(time.Second)
	before := w.Events()
	w.RunFor(24 * time.Hour)
	if got := w.Events() - before; got != 0 {
		t.Errorf("%d events in an idle day, the last of them:\n%v", got, w.LastEvents(5))
	}

	// A NoOp record every half a second, as the controller appends them, for a day.
	const appends = 2 * 24 * 3600
	m.writes, m.syncs = 0, 0
	before = w.Events()
	for range appends {
		if _, err := q.PrepareAppend(1, noOps(1)); err != nil {
			t.Fatal(err)
		}
		q.SchedulePreparedAppend()
		w.RunFor(500 * time.Millisecond)
		l.lines = nil
	}
	if got := w.Events() - before; got != appends || m.writes != appends || m.syncs != appends {
		t.Errorf("%d appends took %d events, %d writes, %d syncs", appends, got, m.writes, m.syncs)
	}
	if len(q.timers) != 0 || cap(q.tail) > 4 || len(q.waiting) != 0 || len(q.prepare.batches) != 0 || len(q.history.levels) > 2 || len(q.history.voters) > 2 {
		t.Errorf("after a day there are %d timers, a tail of %d, %d waiting fetches, %d levels, %d voter sets",
			len(q.timers), cap(q.tail), len(q.waiting), len(q.history.levels), len(q.history.voters))
	}
}

// A NoOp record on an idle voter costs few allocations.
func BenchmarkAppendNoOp(b *testing.B) {
	t := &testing.T{}
	w, n, cfg := standalone(t)
	m := &memorySegments{}
	q := mustOpen(t, n, cfg, forgetful{m})
	q.Start()
	w.RunFor(time.Second)
	records := noOps(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.PrepareAppend(1, records); err != nil {
			b.Fatal(err)
		}
		q.SchedulePreparedAppend()
		w.RunFor(time.Millisecond)
	}
}
