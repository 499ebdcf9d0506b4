package coordinator_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/coordinator/memlog"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// counter is the smallest coordinator: a sum, and what open transactions would add to it.
type counter struct {
	sh       *coordinator.Shard
	sum      int
	open     map[int64]int
	events   []string
	unloaded bool
}

func (c *counter) Replay(offset, producer int64, _ int16, _, value []byte) error {
	if len(value) != 1 {
		return errors.New("not a number")
	}
	if producer >= 0 {
		c.open[producer] += int(value[0])
		return nil
	}
	c.sum += int(value[0])
	c.events = append(c.events, fmt.Sprintf("%d@%d", value[0], offset))
	return nil
}

func (c *counter) ReplayEndTxn(producer int64, _ int16, commit bool) error {
	if commit {
		c.sum += c.open[producer]
	}
	delete(c.open, producer)
	return nil
}

func (c *counter) Loaded()   { c.events = append(c.events, "loaded") }
func (c *counter) Unloaded() { c.unloaded = true }

type rig struct {
	world *sim.World
	logs  *memlog.Logs
	rt    *coordinator.Runtime[*counter]
	last  *counter
}

func newRig() *rig {
	r := &rig{world: sim.NewWorld(1, sim.Options{}), logs: &memlog.Logs{}}
	cfg := coordinator.Config{Name: "Counter", Topic: "sums", CommitTimeout: time.Second, LoadBufferSize: 100}
	r.rt = coordinator.NewRuntime(r.world.NewNode("n"), cfg, r.logs, func(sh *coordinator.Shard) *counter {
		r.last = &counter{sh: sh, open: map[int64]int{}}
		return r.last
	})
	return r
}

func (r *rig) settle() { r.world.RunFor(time.Millisecond) }

// add writes a number and notes the answer.
func (r *rig) add(n byte, answers *[]string) {
	note := func(err error) { *answers = append(*answers, fmt.Sprintf("%d %s", n, kerr.Name(kerr.Code(err)))) }
	r.rt.Do(0, "add", func(c *counter) { c.sh.Write([]coordinator.Record{{Value: []byte{n}}}, note) }, note)
	r.settle()
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestAnswersWait: in order, each for its own records, and not for ever.
func TestAnswersWait(t *testing.T) {
	r := newRig()
	var got []string
	r.add(9, &got)
	r.rt.Load(0, 0)
	r.settle()
	at := r.logs.Partition(0)
	r.add(1, &got)
	at.Hold()
	r.add(2, &got)
	r.add(3, &got)
	expect(t, "before the commit", got, []string{"9 NOT_COORDINATOR", "1 NONE"})
	expect(t, "state is ahead of the commit", r.last.sum, 6)
	at.Commit()
	r.settle()
	expect(t, "after the commit", got[2:], []string{"2 NONE", "3 NONE"})

	at.Hold()
	r.add(4, &got)
	r.world.RunFor(600 * time.Millisecond)
	r.add(5, &got)
	r.world.RunFor(500 * time.Millisecond)
	expect(t, "after the first deadline", got[4:], []string{"4 COORDINATOR_NOT_AVAILABLE"})
	r.world.RunFor(500 * time.Millisecond)
	expect(t, "after the second", got[5:], []string{"5 COORDINATOR_NOT_AVAILABLE"})
	expect(t, "what was written stays", r.last.sum, 15)
}

// TestRefusedAppend changes nothing and says why in the coordinator's words.
func TestRefusedAppend(t *testing.T) {
	r := newRig()
	r.rt.Load(0, 0)
	r.settle()
	for _, c := range []struct{ log, client error }{
		{kerr.NotLeaderOrFollower, kerr.NotCoordinator},
		{fmt.Errorf("append: %w", kerr.FencedLeaderEpoch), kerr.NotCoordinator},
		{kerr.KafkaStorageError, kerr.NotCoordinator},
		{kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable},
		{kerr.UnknownTopicOrPartition, kerr.CoordinatorNotAvailable},
		{kerr.MessageTooLarge, kerr.UnknownServerError},
		{errors.New("something else"), kerr.UnknownServerError},
	} {
		var got []string
		r.logs.Partition(0).Refuse(c.log)
		r.add(1, &got)
		expect(t, c.log.Error(), got, []string{"1 " + c.client.Error()})
	}
	expect(t, "sum", r.last.sum, 0)
	expect(t, "end", r.logs.Partition(0).EndOffset(), 0)
}

// TestDeposed: everybody who waits is told, once, and what comes later is refused.
func TestDeposed(t *testing.T) {
	r := newRig()
	r.rt.Load(0, 3)
	r.settle()
	var got []string
	r.logs.Partition(0).Hold()
	r.add(1, &got)
	first := r.last
	r.rt.Unload(0, 3) // the epoch in which it leads: old news
	r.settle()
	expect(t, "unloaded by old news", first.unloaded, false)
	r.rt.Load(0, 5)
	r.settle()
	expect(t, "answers", got, []string{"1 NOT_COORDINATOR"})
	expect(t, "unloaded", first.unloaded, true)
	expect(t, "loaded again", r.last.events, []string{"1@0", "loaded"})
	r.logs.Partition(0).Commit()
	r.settle()
	expect(t, "no second answer", got, []string{"1 NOT_COORDINATOR"})
	done := false
	r.rt.Close(func() { done = true })
	r.settle()
	r.add(2, &got)
	expect(t, "closed", fmt.Sprint(done, r.last.unloaded, got[1:]), "true true [2 NOT_COORDINATOR]")
	r.rt.Load(0, 6)
	expect(t, "partitions after the end", r.rt.Partitions(), []int32{})
}

// TestLoad replays plain records and transactions, in chunks that are smaller than a batch.
func TestLoad(t *testing.T) {
	r := newRig()
	b := record.NewBuilder(0, record.None)
	at := r.logs.Partition(0)
	load := func(fill func()) {
		b.Reset(at.EndOffset(), record.None)
		fill()
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := at.Load(append(record.Batch(nil), batch...)); err != nil {
			t.Fatal(err)
		}
	}
	one := func(n byte) func() { return func() { b.Append(1, nil, []byte{n}) } }
	txn := func(producer int64, n byte) func() {
		return func() { b.SetProducer(producer, 0, 0); b.SetTransactional(); b.Append(1, nil, []byte{n}) }
	}
	end := func(producer int64, commit bool) func() {
		return func() { b.AppendEndTxn(1, producer, 0, record.EndTxn{Commit: commit}) }
	}
	load(one(1))
	load(txn(7, 10))
	load(txn(8, 20))
	load(func() { one(2)(); one(3)() })
	load(end(7, true))
	load(end(8, false))
	load(txn(9, 40))
	load(func() { one(4)(); b.SetLastOffset(20) }) // the end of a batch was compacted away
	r.rt.Load(0, 0)
	r.settle()
	expect(t, "sum", r.last.sum, 1+2+3+4+10)
	expect(t, "open", r.last.open, map[int64]int{9: 40})
	expect(t, "events", r.last.events, []string{"1@0", "2@3", "3@4", "4@8", "loaded"})
	var got []string
	r.add(5, &got)
	expect(t, "next offset", fmt.Sprint(r.last.events[5:], got), "[5@21] [5 NONE]")
	written := at.Batches()
	expect(t, "base sequence", written[len(written)-1].BaseSequence(), 0)
}

// TestLoadFails: an unreadable partition refuses, a new election tries again.
func TestLoadFails(t *testing.T) {
	r := newRig()
	b := record.NewBuilder(0, record.None)
	b.Append(1, nil, binary.BigEndian.AppendUint32(nil, 1))
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.logs.Partition(0).Load(batch); err != nil {
		t.Fatal(err)
	}
	r.rt.Load(0, 1)
	r.settle()
	var got []string
	r.add(1, &got)
	expect(t, "answer", got, []string{"1 NOT_COORDINATOR"})
	if !strings.Contains(strings.Join(r.world.LastEvents(20), "\n"), "Failed to load metadata") {
		t.Error("nothing in the log about it")
	}
	first := r.last
	r.rt.Load(0, 2)
	r.settle()
	if r.last == first {
		t.Error("a new election did not load")
	}
}

// TestTimer: moving a deadline back and forth, on the shard's queue.
func TestTimer(t *testing.T) {
	r := newRig()
	r.rt.Load(0, 0)
	r.settle()
	var fired []time.Duration
	var timer *coordinator.Timer
	start := r.world.Now()
	r.rt.Do(0, "timer", func(c *counter) {
		timer = c.sh.NewTimer("test", func() { fired = append(fired, (r.world.Now() - start).Round(100*time.Millisecond)) })
		timer.Reset(time.Second)
	}, func(error) {})
	at := func(d time.Duration, fn func()) {
		r.world.RunFor(d - (r.world.Now() - start))
		r.rt.Do(0, "timer", func(*counter) { fn() }, func(error) {})
		r.settle()
	}
	at(500*time.Millisecond, func() { timer.Reset(time.Second) })             // later: at 1.5 s
	at(1200*time.Millisecond, func() { timer.Reset(100 * time.Millisecond) }) // sooner: at 1.3 s
	at(2*time.Second, func() { timer.Reset(time.Second) })
	at(2500*time.Millisecond, func() { timer.Stop() })
	at(4*time.Second, func() { timer.Start(time.Second, func() { fired = append(fired, -1) }) })
	at(6*time.Second, func() {})
	expect(t, "fired", fired, []time.Duration{1300 * time.Millisecond, -1})
}
