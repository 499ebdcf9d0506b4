package storage

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/record"
)

// compactHistory is a compacted log on a simulated disk beside the batches that were written to it. It is appended to, cleaned,
// read and cut off above the high watermark, while the node is killed or loses its power. At each look a consumer who reads committed
// records has to see the last value of each key.
type compactHistory struct {
	*history
	batches []record.Batch // as they were written; behind the last crash, what it left of them
	high    int64
}

func newCompactHistory(seed uint64, node *config.Node, wrap func(env.Env) env.Env) *compactHistory {
	faults := sim.DiskFaults{Torn: 0.3, Garbled: 0.3}
	if seed%4 == 3 {
		faults.WriteError, faults.ShortWrite, faults.SyncError = 0.001, 0.001, 0.001
	}
	c := &compactHistory{history: newHistory(seed, node, faults, wrap)}
	n := c.w.Workload.IntN
	maps.Copy(c.own, map[string]string{
		"cleanup.policy":            "compact",
		"internal.segment.bytes":    fmt.Sprint(300 + n(3000)),
		"segment.ms":                "1000000",
		"flush.messages":            fmt.Sprint(int64(1) << 62),
		"delete.retention.ms":       fmt.Sprint(n(60_000)),
		"min.cleanable.dirty.ratio": fmt.Sprint(float64(n(6)) / 10),
		"min.compaction.lag.ms":     fmt.Sprint(n(2) * n(30_000)),
		"max.compaction.lag.ms":     fmt.Sprint(1 + n(60_000)),
	})
	threads := 1 + n(2)
	buffer, keys, rate := 61+n(4000), 3+n(60), float64(int64(1)<<62)
	if n(2) == 0 {
		rate = float64(1000 + n(10_000))
	}
	c.adjust = func(o *ManagerOptions) {
		o.Cleaner = CleanerOptions{
			Threads: threads, DedupeBuffer: int64(24 * keys * threads), LoadFactor: 0.9, IOBuffer: 2 * buffer * threads,
			MaxBytesPerSecond: rate, Backoff: time.Second,
		}
	}
	return c
}

// run takes so many steps.
func (c *compactHistory) run(steps int) error {
	c.reopen()
	for range steps {
		if c.broken != nil {
			return c.broken
		}
		c.step()
		c.mourn()
	}
	c.verify()
	return c.broken
}

// mourn looks whether the node has died in a step, and begins its next life then.
func (c *compactHistory) mourn() (died bool) {
	if c.ending {
		c.w.RunUntil(time.Hour, func() bool { return !c.node.Alive() })
	}
	if !c.node.Alive() && c.broken == nil {
		c.afterCrash()
		return true
	}
	return false
}

func (c *compactHistory) step() {
	w := c.w.Workload
	switch p := w.IntN(100); {
	case p < 60:
		c.append()
	case p < 65:
		c.do(func() {
			c.high = c.l.EndOffset()
			c.l.SetHighWatermark(c.high)
		})
	case p < 78:
		c.w.RunFor(time.Duration(w.IntN(8000)) * time.Millisecond)
	case p < 80:
		c.w.RunFor(time.Minute)
		c.w.Count("a minute of cleaning")
	case p < 83:
		c.truncate()
	case p < 87:
		c.do(c.pin)
	case p < 90:
		c.do(c.unpin)
	case p < 93:
		c.verify()
	case p < 94:
		c.stop()
	case p < 95:
		c.node.Kill()
	case p < 96:
		c.node.Crash()
	default:
		c.node.CrashAfter(1 + w.IntN(1+w.IntN(150)))
	}
}

// append writes records with keys, or the end of a transaction.
func (c *compactHistory) append() {
	b, o := c.draw()
	if b.IsControl() {
		c.appendBatch(b, o)
		return
	}
	w := c.w.Workload
	keyed := record.NewBuilder(0, record.Compression(w.IntN(3)))
	keyed.SetProducer(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	if b.IsTransactional() {
		keyed.SetTransactional()
	}
	for range 1 + w.IntN(4) {
		value := []byte(fmt.Sprint("value ", w.IntN(1_000_000)))
		if w.Chance(0.2) {
			value = nil
		}
		keyed.Append(c.node.Now().UnixMilli(), []byte(fmt.Sprint("key", w.IntN(20))), value)
	}
	batch, err := keyed.Build()
	if err != nil {
		c.fail("build: %w", err)
	}
	c.appendBatch(batch, o)
}

func (c *compactHistory) appendBatch(b record.Batch, o AppendOptions) {
	after := slices.Clone(b)
	after.SetBaseOffset(c.end)
	after.SetLeaderEpoch(c.epoch)
	c.pending = []record.Batch{after}
	done := c.do(func() {
		info, err := c.l.AppendAsLeader(b, c.epoch, o)
		if c.refused("append", err) {
			return
		}
		if info.BaseOffset != c.end || info.Duplicate {
			c.fail("appended at %d: %+v", c.end, info)
		}
		c.batches = append(c.batches, after)
		c.appended(after)
	})
	if done && !c.ending {
		c.pending = nil
	}
}

// truncate cuts off a part of what is not committed.
func (c *compactHistory) truncate() {
	if c.end <= c.high {
		return
	}
	offset := c.high + below(c.w.Workload, c.end-c.high)
	done := c.do(func() {
		if c.refused("truncate", c.l.TruncateTo(offset)) {
			return
		}
		c.cutOff(c.l.EndOffset())
	})
	if !done || c.ending {
		c.pending = nil
	}
}

// cutOff forgets what lies at or behind offset.
func (c *compactHistory) cutOff(offset int64) {
	n := len(c.batches)
	for n > 0 && c.batches[n-1].BaseOffset() >= offset {
		n--
	}
	c.recount(c.batches[:n], offset)
}

// recount makes some batches those that were written, in a log that ends at end.
func (c *compactHistory) recount(batches []record.Batch, end int64) {
	c.batches = slices.Clone(batches)
	c.naive, c.content = newProducers(time.Hour*24*365), nil
	c.appended(c.batches...)
	c.end, c.high = end, min(c.high, end)
}

// stop ends the life of the node in order.
func (c *compactHistory) stop() {
	c.do(func() {
		for len(c.pins) > 0 {
			c.unpin()
		}
	})
	c.do(func() {
		if err := c.m.Shutdown(5); err != nil && !c.faulty() {
			c.fail("shut down: %w", err)
		}
	})
	if !c.node.Alive() {
		return
	}
	c.node.Crash()
	c.w.Count("clean shutdown")
}

// afterCrash opens the log again. Of what was not flushed some may be lost.
func (c *compactHistory) afterCrash() {
	flushed := int64(0)
	if c.l != nil {
		flushed = c.l.recoverFrom()
	}
	c.reopen()
	c.do(func() {
		got, err := c.readAll()
		if err != nil {
			c.fail("read after a crash: %w", err)
			return
		}
		end := c.l.EndOffset()
		if end < flushed {
			c.fail("the log ends at %d after a crash, up to %d it was flushed", end, flushed)
		}
		// What was flushed may have been cleaned; behind that whole batches may be missing.
		var left []record.Batch
		for _, b := range append(c.batches, c.pending...) {
			if b.BaseOffset() < flushed || slices.ContainsFunc(got, func(g record.Batch) bool { return bytes.Equal(g, b) }) {
				left = append(left, b)
			}
		}
		c.pending = nil
		c.epoch++
		c.recount(left, end)
		c.l.SetHighWatermark(end)
		c.high = end
	})
	c.verify()
}

// verify compares what the log says with what was written.
func (c *compactHistory) verify() {
	if c.broken != nil {
		return
	}
	c.do(func() {
		got, err := c.readAll()
		if c.refused("read", err) {
			return
		}
		c.checkBatches(got)
		c.checkSegments()
		c.checkEpochStarts()
		c.high = c.end
		c.l.SetHighWatermark(c.end)
		stable := c.l.LastStableOffset()
		for _, e := range c.naive.entries {
			if e.txnStart >= 0 && stable > e.txnStart {
				c.fail("the last stable offset is %d, and a transaction is open from %d on", stable, e.txnStart)
			}
		}
		aborted := c.l.AbortedTxns(0, stable)
		if a, b := consumed(got, aborted, stable), decided(c.batches, stable); !maps.Equal(a, b) {
			c.fail("a consumer sees %v up to %d, not %v", a, stable, b)
		}
		c.checkSequences()
		c.checkClean(got)
	})
}

// checkBatches looks whether everything that is left is what was written.
func (c *compactHistory) checkBatches(got []record.Batch) {
	for _, g := range got {
		i := slices.IndexFunc(c.batches, func(b record.Batch) bool { return b.BaseOffset() == g.BaseOffset() })
		if i < 0 {
			c.fail("nobody wrote %v", g)
			return
		}
		b := c.batches[i]
		if g.LastOffset() != b.LastOffset() || g.LeaderEpoch() != b.LeaderEpoch() || g.LastSequence() != b.LastSequence() || g.ProducerEpoch() != b.ProducerEpoch() {
			c.fail("%v became %v", b, g)
		}
		if got := c.l.EpochAt(g.BaseOffset()); got != b.LeaderEpoch() {
			c.fail("the epoch at %d is said to be %d, it is %d", g.BaseOffset(), got, b.LeaderEpoch())
		}
		written := recordsOf(b)
		for offset, r := range recordsOf(g) {
			if w, ok := written[offset]; !ok || r != w {
				c.fail("the record at %d is %q, it was %q", offset, r, w)
			}
		}
	}
}

// checkSegments looks whether each segment ends before the next begins.
func (c *compactHistory) checkSegments() {
	v := c.l.view()
	for i, s := range v.segments {
		size, end := v.bounds(i)
		err := s.scan(0, size, func(b record.Batch, _ int64) bool {
			if b.BaseOffset() < s.base || b.LastOffset() >= end {
				c.fail("segment %d has %v, and ends at %d", s.base, b, end)
			}
			return true
		})
		if err != nil {
			c.fail("scan: %w", err)
		}
	}
}

// checkEpochStarts looks whether leader epochs end where the first batch of the next was written, be it there or not.
func (c *compactHistory) checkEpochStarts() {
	for i := 1; i < len(c.batches); i++ {
		before, b := c.batches[i-1], c.batches[i]
		if before.LeaderEpoch() == b.LeaderEpoch() {
			continue
		}
		if e, end := c.l.EndOffsetForEpoch(before.LeaderEpoch()); e != before.LeaderEpoch() || end != b.BaseOffset() {
			c.fail("epoch %d is said to end at %d (epoch %d), it ends at %d", before.LeaderEpoch(), end, e, b.BaseOffset())
		}
	}
}

// checkSequences looks whether producers may go on where they were.
func (c *compactHistory) checkSequences() {
	for _, p := range c.l.Producers() {
		e := c.naive.entries[p.ID]
		if e == nil || e.lastSequence() != p.LastSequence || e.epoch != p.Epoch {
			c.fail("producer %d is said to be %+v, it is %+v", p.ID, p, e)
		}
	}
	if have := len(c.l.Producers()); have != len(c.naive.entries) {
		c.fail("%d producers are known, there are %d", have, len(c.naive.entries))
	}
}

// checkClean looks whether no key is there twice in what counts as clean.
func (c *compactHistory) checkClean(got []record.Batch) {
	last := map[string]int64{}
	clean := c.l.cleaned.Load()
	for _, b := range got {
		if b.IsControl() || b.LastOffset() >= clean {
			continue
		}
		var r record.Record
		it := b.Iter(nil)
		for it.Next(&r) {
			if before, ok := last[string(r.Key)]; ok {
				c.fail("key %s is there at %d and %d, below %d all is clean", r.Key, before, r.Offset, clean)
			}
			last[string(r.Key)] = r.Offset
		}
	}
	if clean > 0 {
		c.w.Count("something is clean")
	}
}

// recordsOf are the records of a batch as texts, by offset.
func recordsOf(b record.Batch) map[int64]string {
	out := map[int64]string{}
	var r record.Record
	it := b.Iter(nil)
	for it.Next(&r) {
		out[r.Offset] = fmt.Sprintf("%d %s=%s %t", r.Timestamp, r.Key, r.Value, r.Value == nil)
	}
	return out
}

// consumed is what a consumer makes of batches up to the last stable offset: the last value of each key.
func consumed(batches []record.Batch, aborted []AbortedTxn, stable int64) map[string]string {
	out := map[string]string{}
	skip := map[int64]bool{}
	slices.SortStableFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	for _, b := range batches {
		if b.BaseOffset() >= stable {
			break
		}
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			skip[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		switch {
		case b.IsControl():
			if m, err := markerOf(b); err == nil && m != nil && !m.Commit {
				delete(skip, b.ProducerID())
			}
		case !b.IsTransactional() || !skip[b.ProducerID()]:
			apply(out, b)
		}
	}
	return out
}

// decided is what the batches say that were written, with a look ahead to the ends of transactions.
func decided(batches []record.Batch, stable int64) map[string]string {
	out := map[string]string{}
	for _, b := range batches {
		if b.IsControl() || b.BaseOffset() >= stable {
			continue
		}
		if b.IsTransactional() {
			if commit, known := fate(batches, b); known && !commit {
				continue
			}
		}
		apply(out, b)
	}
	return out
}

func apply(values map[string]string, b record.Batch) {
	var r record.Record
	it := b.Iter(nil)
	for it.Next(&r) {
		if r.Value == nil {
			delete(values, string(r.Key))
		} else {
			values[string(r.Key)] = string(r.Value)
		}
	}
}

// compactMarks are what all histories together must have come to.
var compactMarks = []string{"something is clean", "clean shutdown", "crash while opening", "a minute of cleaning", "name lost at a crash", "crash at rename", "crash at syncdir"}

// Whatever a crash takes while a log is compacted, the last value of each key is there, and nothing that was not written.
func TestCompactHistories(t *testing.T) {
	node := nodeSettings(t)
	counts := map[string]int{}
	for seed := range seeds(300) {
		c := newCompactHistory(seed, node, func(e env.Env) env.Env { return e })
		if err := c.run(historySteps); err != nil {
			c.w.Report(t.Output(), 60)
			t.Fatal(err)
		}
		for _, what := range compactMarks {
			counts[what] += c.w.Counted(what)
		}
	}
	for _, what := range compactMarks {
		if counts[what] == 0 {
			t.Errorf("nothing of the kind has happened: %s", what)
		}
	}
}
