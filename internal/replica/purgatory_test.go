package replica

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
)

func TestProduceWaitsForTheFollowers(t *testing.T) {
	for _, minISR := range []string{"1", "2"} {
		w := newWorld(t)
		w.replay(brokerRecord(1), brokerRecord(2), setting("t", "min.insync.replicas", minISR))
		p := w.create("t", 1, 1, 2)
		all := w.produce("t", AcksAll, time.Second, 2)
		one := w.produce("t", AcksLeader, time.Second, 1)
		if all.times != 0 || w.Waiting() != 1 {
			t.Errorf("acks=-1 did not wait")
		}
		one.check(t, nil, 2)
		w.fetch(2, 0, 0, part("t", 0))
		if all.times != 0 || p.HighWatermark() != 0 {
			t.Error("a fetch from 0 on says that the follower has nothing")
		}
		w.fetch(2, 0, 0, part("t", 2))
		all.check(t, nil, 0)
		if p.HighWatermark() != 2 || w.Waiting() != 0 {
			t.Errorf("high watermark %d, %d wait", p.HighWatermark(), w.Waiting())
		}
	}
}

func TestTooFewInSync(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2), setting("t", "min.insync.replicas", "2"))
	p := w.create("t", 1, 1, 2)
	waiting := w.produce("t", AcksAll, time.Second, 1)
	w.replay(change(1, -2, 1)) // the follower falls out of sync
	w.produce("t", AcksAll, time.Second, 1).check(t, kerr.NotEnoughReplicas, -1)
	w.produce("t", AcksLeader, time.Second, 1).check(t, nil, 1)
	if waiting.times != 0 || p.HighWatermark() != 0 {
		t.Errorf("high watermark %d: with too few in sync nothing is committed", p.HighWatermark())
	}
	w.sim.RunFor(2 * time.Second)
	waiting.check(t, kerr.RequestTimedOut, 0)
	if d := waiting.at.Round(time.Millisecond); d != time.Second {
		t.Errorf("timed out at %s", waiting.at)
	}
}

func TestTheWaitOutlivesTheFollower(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	p := w.create("t", 1, 1, 2)
	w.produce("t", AcksAll, time.Second, 1)
	w.fetch(2, 0, 0, part("t", 1))
	waiting := w.produce("t", AcksAll, time.Minute, 1)
	// A follower that was in step a moment ago is waited for although it is not in the ISR: it may be on its way back.
	w.replay(change(1, -2, 1))
	if waiting.times != 0 || p.HighWatermark() != 1 {
		t.Errorf("high watermark %d, answered %d times", p.HighWatermark(), waiting.times)
	}
	w.sim.RunFor(31 * time.Second)
	w.produce("t", AcksLeader, 0, 1)
	waiting.check(t, nil, 1)
	if p.HighWatermark() != 3 {
		t.Errorf("high watermark %d", p.HighWatermark())
	}
}

func TestCommittedAndThenTooFewInSync(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2), setting("t", "min.insync.replicas", "2"))
	p := w.create("t", 1, 1, 2)
	w.produce("t", AcksAll, time.Second, 2)
	w.fetch(2, 0, 0, part("t", 1))
	w.replay(change(1, -2, 1))
	for offset, want := range map[int64]error{1: kerr.NotEnoughReplicasAfterAppend, 2: nil} {
		if over, err := p.reached(offset); over != (want != nil) || !errors.Is(err, want) {
			t.Errorf("a wait for %d: over %t, %v", offset, over, err)
		}
	}
}

func TestAnotherLeaderEndsTheWait(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	w.create("t", 1, 1, 2)
	produce := w.produce("t", AcksAll, time.Second, 1)
	consumer, follower := w.fetch(-1, time.Second, 1, part("t", 0)), w.fetch(2, time.Second, 1, part("t", 1))
	stated := part("t", 0)
	stated.CurrentLeaderEpoch = 0
	fenced := w.fetch(-1, time.Second, 1, stated)
	w.replay(change(1, 2))
	// The follower's fetch has committed the record before.
	produce.check(t, nil, 0)
	consumer.check(t, 0, nil, 1, len(records(1)))
	fenced.check(t, 0, nil, 1, len(records(1)))
	follower.check(t, 0, kerr.NotLeaderOrFollower, -1, 0)

	produce = w.produce("t", AcksAll, time.Second, 1)
	produce.check(t, kerr.NotLeaderOrFollower, -1)
	consumer = w.fetch(-1, time.Second, 1, part("t", 1)) // followers answer consumers
	w.replay(change(1, 1))
	stated = part("t", 1)
	stated.CurrentLeaderEpoch = 2
	fenced = w.fetch(-1, time.Second, 1, stated)
	produce = w.produce("t", AcksAll, time.Second, 1)
	if consumer.times+fenced.times+produce.times != 0 {
		t.Error("something was answered too early")
	}
	w.replay(change(1, 2))
	produce.check(t, kerr.NotLeaderOrFollower, 1) // in the log, and may be lost
	fenced.check(t, 0, kerr.FencedLeaderEpoch, -1, 0)
	w.sim.RunFor(time.Second)
	consumer.check(t, 0, nil, 1, 0)
	if w.Waiting() != 0 {
		t.Errorf("%d wait", w.Waiting())
	}
}

func TestDeletionEndsTheWait(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	p := w.create("t", 1, 1, 2)
	produce := w.produce("t", AcksAll, time.Second, 1)
	fetch := w.fetch(-1, time.Second, 1, part("t", 0))
	var low []Deletion
	w.fetch(2, 0, 0, part("t", 1))
	w.DeleteRecords([]Deletion{{Partition: p, Offset: 1}}, time.Second, func(d []Deletion) { low = d })
	second := w.fetch(-1, time.Second, 1, part("t", 1))
	w.replay(removal(1))
	produce.check(t, nil, 0)
	fetch.check(t, 0, nil, 1, len(records(1)))
	second.check(t, 0, kerr.UnknownTopicOrPartition, -1, 0)
	if len(low) != 1 || !errors.Is(low[0].Err, kerr.NotLeaderOrFollower) || low[0].LowWatermark != -1 {
		t.Errorf("deletion: %+v", low)
	}
	w.produce("t", AcksAll, time.Second, 1).check(t, kerr.UnknownTopicOrPartition, -1)
}

func TestDeleteRecordsWaitsForTheFollowers(t *testing.T) {
	w := newWorld(t)
	w.replay(brokerRecord(1), brokerRecord(2))
	p := w.create("t", 1, 1, 2)
	w.produce("t", AcksLeader, 0, 3)
	w.fetch(2, 0, 0, part("t", 3))
	var got []Deletion
	ask := func(offset int64) {
		got = nil
		w.DeleteRecords([]Deletion{{Partition: p, Offset: offset}}, time.Second, func(d []Deletion) { got = d })
	}
	ask(4)
	if len(got) != 1 || !errors.Is(got[0].Err, kerr.OffsetOutOfRange) || got[0].LowWatermark != -1 {
		t.Errorf("beyond the high watermark: %+v", got)
	}
	ask(2)
	if got != nil {
		t.Fatalf("answered before the follower has followed: %+v", got)
	}
	at := part("t", 3)
	at.LogStart = 2
	w.fetch(2, 0, 0, at)
	if len(got) != 1 || got[0].Err != nil || got[0].LowWatermark != 2 {
		t.Errorf("deletion: %+v", got)
	}
	ask(ToHighWatermark)
	w.sim.RunFor(time.Second)
	if len(got) != 1 || !errors.Is(got[0].Err, kerr.RequestTimedOut) || got[0].LowWatermark != -1 {
		t.Errorf("deletion that the follower does not follow: %+v", got)
	}
	gone := metadata.NewUnregisterBrokerRecord()
	gone.BrokerId, gone.BrokerEpoch = 2, 1
	w.replay(gone)
	ask(3)
	if len(got) != 1 || got[0].Err != nil || got[0].LowWatermark != 3 {
		t.Errorf("nobody waits for brokers that are not there: %+v", got)
	}
}

func TestFetchWaits(t *testing.T) {
	w := newWorld(t)
	w.create("t", 1, 1)
	w.create("u", 2, 1)
	size := len(records(1))
	late := w.fetch(-1, 500*time.Millisecond, 1, part("t", 0), part("u", 0))
	w.sim.RunFor(time.Second)
	late.check(t, 0, nil, 0, 0)
	late.check(t, 1, nil, 0, 0)
	if d := late.at.Round(time.Millisecond); d != 500*time.Millisecond {
		t.Errorf("answered at %s", late.at)
	}

	woken := w.fetch(-1, 500*time.Millisecond, 1, part("t", 0), part("u", 0))
	w.sim.RunFor(100 * time.Millisecond)
	w.produce("u", AcksLeader, 0, 1)
	if woken.at != w.sim.Now() {
		t.Errorf("answered at %s, not at once", woken.at)
	}
	woken.check(t, 0, nil, 0, 0)
	woken.check(t, 1, nil, 1, size)

	both := w.fetch(-1, 500*time.Millisecond, 2*size, part("t", 0), part("u", 1))
	w.produce("u", AcksLeader, 0, 1)
	if both.times != 0 {
		t.Error("half of min bytes was enough")
	}
	w.produce("t", AcksLeader, 0, 1)
	both.check(t, 0, nil, 1, size)
	both.check(t, 1, nil, 2, size)

	w.fetch(-1, time.Second, 1, part("t", 7)).check(t, 0, kerr.OffsetOutOfRange, -1, 0)
	w.fetch(-1, 0, 1, part("t", 1)).check(t, 0, nil, 1, 0)
	w.fetch(-1, time.Second, 1).checkEmpty(t)
	if w.Waiting() != 0 {
		t.Errorf("%d wait", w.Waiting())
	}
}

func (o *fetched) checkEmpty(t *testing.T) {
	t.Helper()
	if o.times != 1 || len(o.results) != 0 {
		t.Errorf("a fetch of nothing was answered %d times with %d results", o.times, len(o.results))
	}
}

func TestManyWait(t *testing.T) {
	w := newWorld(t)
	w.create("t", 1, 1)
	before := runtime.NumGoroutine()
	events := w.sim.Events()
	all := make([]*fetched, 1000)
	for i := range all {
		all[i] = w.fetch(-1, 30*time.Second, 1, part("t", 0))
	}
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d goroutines for 1,000 waiting fetches", n)
	}
	w.sim.RunFor(20 * time.Second)
	if n := w.sim.Events() - events; n > 30 { // the housekeeping of the logs
		t.Errorf("%d events while nothing happens", n)
	}
	if w.Waiting() != len(all) {
		t.Errorf("%d wait", w.Waiting())
	}
	w.produce("t", AcksLeader, 0, 1)
	for _, f := range all {
		f.check(t, 0, nil, 1, len(records(1)))
	}
	if w.Waiting() != 0 {
		t.Errorf("%d wait", w.Waiting())
	}
}
