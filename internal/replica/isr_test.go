package replica

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
)

// asks remembers what a manager asks the controller for; the test answers.
type asks struct {
	t        *testing.T
	requests []ISRChange
	answers  []func(ISRAnswer, error)
}

// newISRWorld is a world of brokers 1 to 3 whose controller is the test.
func newISRWorld(t *testing.T) (*world, *asks) {
	w := newWorld(t)
	a := &asks{t: t}
	w.Join(Peers{BrokerEpoch: func() int64 { return 101 }, AlterISR: func(c ISRChange, done func(ISRAnswer, error)) {
		a.requests, a.answers = append(a.requests, c), append(a.answers, done)
	}})
	w.replay(brokerRecord(1), brokerRecord(2), brokerRecord(3))
	return w, a
}

// last is the ISR that was asked for last, of n requests so far.
func (a *asks) last(n int) []int32 {
	a.t.Helper()
	if len(a.requests) != n || n == 0 {
		a.t.Fatalf("%d requests for another ISR, expected %d", len(a.requests), n)
	}
	var isr []int32
	for _, b := range a.requests[n-1].ISR {
		isr = append(isr, b.ID)
	}
	return isr
}

func (a *asks) answer(partitionEpoch int32, isr ...int32) {
	a.answers[len(a.answers)-1](ISRAnswer{LeaderEpoch: 0, PartitionEpoch: partitionEpoch, ISR: isr}, nil)
}

func (a *asks) refuse(err error) { a.answers[len(a.answers)-1](ISRAnswer{}, err) }

// create makes topic t, which broker 1 leads, with replicas 1, 2 and 3 and the given ISR.
func createWithISR(w *world, isr ...int32) *Partition {
	w.t.Helper()
	r := partitionRecord(1, 1, 2, 3)
	r.Isr = isr
	w.replay(topicRecord("t", 1), r)
	p, err := w.Partition(TopicPartition{Topic: "t"})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// fetchAs is a fetch of a follower in a life.
func (w *world) fetchAs(replica int32, epoch, offset int64) *fetched {
	f := w.NewFetch()
	f.ReplicaID, f.ReplicaEpoch, f.Version = replica, epoch, 17
	f.MaxBytes, f.Parts = 1<<20, append(f.Parts, part("t", offset))
	return w.read(f)
}

func TestAFollowerThatCatchesUpJoins(t *testing.T) {
	w, asks := newISRWorld(t)
	p := createWithISR(w, 1, 2)
	w.produce("t", AcksLeader, 0, 5)
	w.fetchAs(2, 1, 5)
	p.expectHigh(t, 5)
	w.fetchAs(3, 1, 4) // not yet
	if len(asks.requests) > 0 {
		t.Fatal("a follower below the high watermark was to join")
	}
	w.fetchAs(3, 1, 5)
	want := ISRChange{Partition: p.Name(), TopicID: p.ID, ISR: []BrokerEpoch{{1, 101}, {2, 1}, {3, 1}}}
	if asks.last(1); !reflect.DeepEqual(asks.requests[0], want) {
		t.Errorf("asked for %+v, expected %+v", asks.requests[0], want)
	}

	// Until the answer comes the follower is waited for already, and nothing more is asked for.
	w.produce("t", AcksLeader, 0, 1)
	w.fetchAs(2, 1, 6)
	p.expectHigh(t, 5)
	w.fetchAs(3, 1, 6)
	p.expectHigh(t, 6)
	asks.last(1)

	asks.answer(1, 1, 2, 3)
	if s := p.State(); s.PartitionEpoch != 1 || !slices.Equal(s.ISR, []int32{1, 2, 3}) {
		t.Errorf("after the answer: %+v", s)
	}
	asks.answer(1, 1, 2) // twice is once too often
	if s := p.State(); len(s.ISR) != 3 {
		t.Errorf("after a second answer: %+v", s)
	}
}

func TestWhoMayNotJoin(t *testing.T) {
	for name, change := range map[string]func(*metadata.RegisterBrokerRecord){
		"fenced":           func(r *metadata.RegisterBrokerRecord) { r.Fenced = true },
		"shutting down":    func(r *metadata.RegisterBrokerRecord) { r.InControlledShutdown = true },
		"in another life":  func(r *metadata.RegisterBrokerRecord) { r.BrokerEpoch = 2 },
		"of an older life": func(r *metadata.RegisterBrokerRecord) { r.BrokerEpoch = 0 },
	} {
		w, asks := newISRWorld(t)
		createWithISR(w, 1, 2)
		w.replay(broker3(change))
		w.fetchAs(3, 1, 0)
		if len(asks.requests) > 0 {
			t.Errorf("%s: was to join", name)
		}
	}
}

// A leader that is new in its epoch does not take the high watermark for all that is committed: who joins has to reach the start of its epoch.
func TestNobodyJoinsBelowTheStartOfTheEpoch(t *testing.T) {
	w, asks := newISRWorld(t)
	createWithISR(w, 1, 2)
	w.produce("t", AcksLeader, 0, 5)
	w.replay(change(1, 2), change(1, 1))
	w.fetchAs(3, 1, 3)
	if len(asks.requests) > 0 {
		t.Fatal("a follower below the start of the leader's epoch was to join")
	}
	w.fetchAs(3, 1, 5)
	asks.last(1)
}

func TestFollowersThatLagLeave(t *testing.T) {
	w, asks := newISRWorld(t)
	p := createWithISR(w, 1, 2, 3)
	w.produce("t", AcksLeader, 0, 5)
	w.fetchAs(2, 1, 5)
	w.fetchAs(3, 1, 2)
	p.expectHigh(t, 2)
	w.sim.RunUntil(time.Minute, func() bool { return len(asks.requests) > 0 })
	if now := w.sim.Now(); now < 30*time.Second || now > 45*time.Second+time.Millisecond {
		t.Errorf("asked after %v; expected after replica.lag.time.max.ms, and half of it more at most", now)
	}
	if isr := asks.last(1); !slices.Equal(isr, []int32{1, 2}) {
		t.Errorf("asked for %v", isr)
	}
	p.expectHigh(t, 2) // the follower counts until the controller has said that it does not
	asks.answer(1, 1, 2)
	p.expectHigh(t, 5)
}

// What follows is about a follower outside the ISR which was at the end of the log, and so may join: the high watermark waits for it.
func TestHowLongTheHighWatermarkWaits(t *testing.T) {
	for name, c := range map[string]struct {
		then func(w *world)
		high int64
	}{
		"it is well":   {func(*world) {}, 5},
		"it comes":     {func(w *world) { w.fetchAs(3, 1, 6) }, 6},
		"it is fenced": {func(w *world) { w.replay(broker3(func(r *metadata.RegisterBrokerRecord) { r.Fenced = true })) }, 6},
		"it ends in order": {func(w *world) {
			w.replay(broker3(func(r *metadata.RegisterBrokerRecord) { r.InControlledShutdown = true }))
		}, 6},
		"it has another life": {func(w *world) { w.replay(broker3(func(r *metadata.RegisterBrokerRecord) { r.BrokerEpoch = 2 })) }, 6},
		"it is late":          {func(w *world) { w.sim.RunFor(45*time.Second + time.Millisecond) }, 6},
	} {
		w, asks := newISRWorld(t)
		p := createWithISR(w, 1, 2)
		w.produce("t", AcksLeader, 0, 5)
		w.fetchAs(2, 1, 5)
		w.fetchAs(3, 1, 5)
		asks.refuse(kerr.IneligibleReplica)
		all := w.produce("t", AcksAll, time.Hour, 1)
		w.fetchAs(2, 1, 6)
		p.expectHigh(t, 5)
		c.then(w)
		w.sim.RunFor(time.Millisecond)
		if got := p.HighWatermark(); got != c.high || (all.times > 0) != (c.high == 6) {
			t.Errorf("%s: high watermark %d, acks=all answered %d times; expected %d", name, got, all.times, c.high)
		}
	}
}

func broker3(change func(*metadata.RegisterBrokerRecord)) metadata.Record {
	r := brokerRecord(3).(*metadata.RegisterBrokerRecord)
	change(r)
	return r
}

// A partition at rest keeps followers that are at its end, however long they are silent.
func TestFollowersAtTheEndStay(t *testing.T) {
	w, asks := newISRWorld(t)
	createWithISR(w, 1, 2)
	w.fetchAs(2, 1, 0)
	w.sim.RunFor(time.Hour)
	if len(asks.requests) > 0 {
		t.Errorf("asked for %v", asks.last(1))
	}
}

func TestWhatFollowsOnARefusal(t *testing.T) {
	const (
		waits     = iota // for the metadata
		asksAgain        // at once
		givesUp          // until there is a reason again
	)
	for _, c := range []struct {
		err  error
		then int
	}{
		{kerr.FencedLeaderEpoch, waits},
		{kerr.InvalidUpdateVersion, waits},
		{kerr.InvalidRequest, waits},
		{kerr.NewLeaderElected, waits},
		{kerr.UnknownTopicId, waits},
		{kerr.UnknownTopicOrPartition, waits},
		{kerr.OperationNotAttempted, givesUp},
		{kerr.IneligibleReplica, givesUp},
		{errors.New("no answer"), asksAgain},
		{kerr.NotController, asksAgain},
		{kerr.UnknownServerError, asksAgain},
	} {
		w, asks := newISRWorld(t)
		p := createWithISR(w, 1, 2)
		w.fetchAs(3, 1, 0)
		asks.last(1)
		asks.refuse(c.err)
		now := len(asks.requests)
		w.fetchAs(3, 1, 0)
		later := len(asks.requests)
		w.produce("t", AcksLeader, 0, 1)
		w.fetchAs(2, 1, 1)
		held := p.HighWatermark() == 0
		if got, want := [3]any{now, later, held}, [...][3]any{
			waits: {1, 1, true}, asksAgain: {2, 2, true}, givesUp: {1, 2, true},
		}[c.then]; got != want {
			t.Errorf("%v: asked %d times at once, %d later, holds the high watermark: %v; expected %v", c.err, got[0], got[1], got[2], want)
		}

		// The metadata ends all of it.
		w.replay(change(1, -2, 1, 2))
		before := len(asks.requests)
		w.fetchAs(3, 1, 1)
		if len(asks.requests) != before+1 {
			t.Errorf("%v: after new metadata %d requests instead of %d", c.err, len(asks.requests), before+1)
		}
	}
}

// An answer that comes after the partition has another leader, or none, changes nothing.
func TestLateAnswers(t *testing.T) {
	w, asks := newISRWorld(t)
	p := createWithISR(w, 1, 2)
	w.fetchAs(3, 1, 0)
	asks.last(1)
	w.replay(change(1, 2))
	want := p.State()
	asks.answer(9, 1, 2, 3)
	if got := p.State(); !reflect.DeepEqual(got, want) {
		t.Errorf("after a late answer: %+v, expected %+v", got, want)
	}
}
