package storage

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// around runs a step of which a crash may leave the state before or, if that is not nil, the one after.
func (h *history) around(after []record.Batch, fn func()) {
	h.pending = after
	if h.do(fn) && !h.ending {
		h.pending = nil
	}
}

func (h *history) appendAsLeader() {
	b, o := h.draw()
	epoch := h.epoch
	if h.w.Workload.Chance(0.1) {
		epoch++
	}
	after := slices.Clone(b)
	after.SetBaseOffset(h.end)
	after.SetLeaderEpoch(epoch)
	h.around(append(slices.Clone(h.content), after), func() {
		before := h.l.EndOffset()
		info, err := h.l.AppendAsLeader(b, epoch, o)
		if errors.Is(err, kerr.RecordListTooLarge) && len(b) > h.l.cfg.Load().SegmentBytes {
			return
		}
		if h.refused("append", err) {
			return
		}
		if info.Duplicate || info.BaseOffset != before || h.l.EndOffset() != after.NextOffset() {
			h.fail("append at %d: %+v, now the end is %d", before, info, h.l.EndOffset())
		}
		h.appended(after)
		switch unflushed, bound := h.end-h.l.recoveryPoint.Load(), h.l.cfg.Load().FlushMessages; {
		case unflushed >= bound:
			h.fail("%d records are not flushed", unflushed)
		case unflushed == 0:
			h.durable()
		}
	})
}

// draw makes a batch as a client or a coordinator sends it.
func (h *history) draw() (record.Batch, AppendOptions) {
	w := h.w.Workload
	b := record.NewBuilder(0, record.None)
	o := AppendOptions{ProduceVersion: 9}
	now := h.node.Now().UnixMilli()
	if id := int64(w.IntN(6)); id > 0 {
		e := h.naive.entries[id]
		if e == nil {
			e = &producerEntry{epoch: 0, txnStart: -1}
		}
		if e.txnStart >= 0 && w.Chance(0.4) {
			b.AppendEndTxn(now, id, e.epoch, record.EndTxn{Commit: w.Chance(0.5), CoordinatorEpoch: max(0, e.coordinatorEpoch)})
			batch, _ := b.Build()
			return batch, AppendOptions{Origin: FromCoordinator, TransactionVersion: 1}
		}
		sequence := int32(0)
		if e.kept > 0 {
			sequence = record.IncrementSequence(e.lastSequence(), 1)
		}
		b.SetProducer(id, e.epoch, sequence)
		if e.txnStart >= 0 || w.Chance(0.3) {
			b.SetTransactional()
		}
	}
	value := make([]byte, w.IntN(1+w.IntN(400)))
	w.Read(value)
	for range 1 + w.IntN(4) {
		b.Append(now-int64(w.IntN(1+w.IntN(60_000))), nil, value)
	}
	batch, _ := b.Build()
	return batch, o
}

func (h *history) appendAsFollower() {
	w := h.w.Workload
	var batches []record.Batch
	var all []byte
	offset, epoch := h.end, h.epoch
	for range 1 + w.IntN(3) {
		if w.Chance(0.1) {
			epoch++
		}
		if w.Chance(0.05) { // the leader's log was compacted
			offset += 1 + below(w, 1<<uint(w.IntN(33)))
		}
		value := make([]byte, w.IntN(300))
		w.Read(value)
		b := record.NewBuilder(offset, record.None)
		b.SetLeaderEpoch(epoch)
		for range 1 + w.IntN(3) {
			b.Append(h.node.Now().UnixMilli()-int64(w.IntN(1000)), nil, value)
		}
		batch, _ := b.Build()
		batches, all, offset = append(batches, batch), append(all, batch...), batch.NextOffset()
	}
	h.around(append(slices.Clone(h.content), batches...), func() {
		if h.refused("append as follower", h.l.AppendAsFollower(all)) {
			return
		}
		h.appended(batches...)
	})
}

func (h *history) flush() {
	h.around(nil, func() {
		if !h.refused("flush", h.l.Flush()) {
			h.durable()
		}
	})
}

// durable says that no crash can take anything from now on.
func (h *history) durable() {
	h.flushed, h.branches, h.pending, h.restarted = len(h.content), nil, nil, false
}

// truncate cuts off a part of what is not flushed, or any part.
func (h *history) truncate() {
	w := h.w.Workload
	n := len(h.content)
	if n == 0 {
		return
	}
	keep := n - 1 - w.IntN(1+w.IntN(min(n, 1+w.IntN(30))))
	offset := h.content[keep].BaseOffset() + int64(w.IntN(int(h.content[keep].LastOffsetDelta())+1))
	h.branches = append(h.branches, slices.Clone(h.content))
	if offset <= h.l.view().segments[0].base {
		keep, h.restarted = 0, true // nothing is left, and what was deleted before is forgotten
	}
	h.flushed = min(h.flushed, keep)
	h.around(h.content[:keep:keep], func() {
		if h.refused("truncate", h.l.TruncateTo(offset)) {
			return
		}
		if got := h.l.EndOffset(); got > offset || keep > 0 && got < h.content[keep-1].NextOffset() {
			h.fail("truncated to %d, and it ends at %d", offset, got)
		}
		h.settle(h.content[:keep], h.l.EndOffset())
	})
}

// settle makes a prefix the content.
func (h *history) settle(content []record.Batch, end int64) {
	all := slices.Clone(content)
	h.content, h.naive = nil, newProducers(time.Hour*24*365)
	h.appended(all...)
	h.end, h.start = end, min(h.start, end)
	h.asked = min(h.asked, end)
	h.flushed = min(h.flushed, len(h.content))
	h.epoch++ // as the leader that asked for it has one
}

// restart empties the log.
func (h *history) restart() {
	offset := max(0, h.end+int64(h.w.Workload.IntN(40))-20)
	h.branches = append(h.branches, slices.Clone(h.content))
	h.restarted, h.flushed = true, 0
	h.around([]record.Batch{}, func() {
		if h.refused("truncate fully", h.l.TruncateFullyAndStartAt(offset)) {
			return
		}
		h.settle(nil, offset)
		h.start = offset
		if s, e := h.l.StartOffset(), h.l.EndOffset(); s != offset || e != offset {
			h.fail("emptied at %d, and it reaches from %d to %d", offset, s, e)
		}
	})
}

func (h *history) advanceStart() {
	offset := h.start + below(h.w.Workload, h.end-h.start+1)
	h.start, h.asked = offset, max(h.asked, offset)
	h.around(nil, func() {
		h.l.SetHighWatermark(h.end)
		if h.refused("advance start", h.l.AdvanceStart(offset)) {
			return
		}
		if h.refused("delete segments", h.l.DeleteOldSegments(h.node.Now().UnixMilli())) {
			return
		}
		if got := h.l.StartOffset(); got != offset {
			h.fail("start moved to %d, it is %d", offset, got)
		}
	})
}

// pin keeps a region, as the answer to a fetch does that is being sent.
func (h *history) pin() {
	offset := h.start + below(h.w.Workload, h.end-h.start+1)
	s, err := h.l.Read(offset, 2000, true, h.end)
	if err != nil || s.Len == 0 {
		s.Release()
		return
	}
	b, err := s.Bytes()
	if err != nil {
		h.fail("read a region: %w", err)
	}
	h.pins = append(h.pins, pinned{s, b})
}

func (h *history) unpin() {
	if len(h.pins) == 0 {
		return
	}
	i := h.w.Workload.IntN(len(h.pins))
	p := h.pins[i]
	h.pins = slices.Delete(h.pins, i, i+1)
	if b, err := p.slice.Bytes(); err != nil || !bytes.Equal(b, p.want) {
		h.fail("a region that was kept has other bytes: %d of them, %w", len(b), err)
	}
	p.slice.Release()
}
