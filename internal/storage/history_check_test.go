package storage

import (
	"bytes"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/record"
)

// checkAll compares everything that the log says with the slice of batches.
func (h *history) checkAll() {
	if h.broken != nil {
		return
	}
	h.do(func() {
		got, err := h.readAll()
		if err != nil {
			h.fail("read: %w", err)
			return
		}
		if e, n := h.l.EndOffset(), len(h.content); e < h.end && (n == 0 && e >= h.start || n > 0 && e >= h.content[n-1].NextOffset()) {
			h.end, h.start = e, min(h.start, e) // behind the last batch lay offsets without records
		}
		if s, e := h.l.StartOffset(), h.l.EndOffset(); s > h.start || e != h.end || s > e {
			h.fail("the log reaches from %d to %d, not from %d to %d", s, e, h.start, h.end)
		}
		h.start = h.l.StartOffset() // a start that was not noted may come back
		want := h.present()
		if len(got) != len(want) {
			h.fail("the log has %s, not %s", summary(got), summary(want))
			return
		}
		for i, b := range want {
			if !bytes.Equal(got[i], b) {
				h.fail("the batch at %d is another one", b.BaseOffset())
				return
			}
		}
		h.checkEpochs(want)
		if !h.gaps {
			h.checkProducers(want)
			h.checkCommitted(want)
		}
	})
}

// present are the batches that are not deleted.
func (h *history) present() []record.Batch {
	first := h.l.view().segments[0].base
	return slices.DeleteFunc(slices.Clone(h.content), func(b record.Batch) bool { return b.LastOffset() < first })
}

// checkEpochs compares the leader epochs with those of the batches.
func (h *history) checkEpochs(batches []record.Batch) {
	last, lastOffset := int32(-1), int64(-1)
	for _, b := range batches {
		if b.LastOffset() < max(h.start, h.asked) {
			continue
		}
		if got := h.l.EpochAt(b.LastOffset()); got != b.LeaderEpoch() {
			h.fail("the leader epoch at %d is said to be %d, it is %d", b.LastOffset(), got, b.LeaderEpoch())
		}
		if b.LeaderEpoch() != last && last >= 0 {
			if e, end := h.l.EndOffsetForEpoch(last); e != last || end != b.BaseOffset() {
				h.fail("epoch %d is said to end at %d (epoch %d), it ends at %d; the last offset is %d", last, end, e, b.BaseOffset(), lastOffset)
			}
		}
		last, lastOffset = b.LeaderEpoch(), b.LastOffset()
	}
	if got := h.l.LatestEpoch(); last >= 0 && got != last {
		h.fail("the latest epoch is said to be %d, it is %d", got, last)
	}
}

// checkProducers compares the producer state with what the batches say. What only deleted batches say may be forgotten.
func (h *history) checkProducers(batches []record.Batch) {
	rest := newProducers(time.Hour * 24 * 365)
	for _, b := range batches {
		m, _ := markerOf(b)
		rest.update(b, m)
	}
	all := h.naive.all()
	for _, p := range h.l.Producers() {
		same := func(q Producer) bool {
			return p == q || q.TxnStart < h.start && p.ID == q.ID && p.Epoch == q.Epoch && p.LastSequence == q.LastSequence
		}
		if !slices.ContainsFunc(all, same) && !slices.ContainsFunc(rest.all(), same) {
			h.fail("the state of producer %d is %+v; all that was written says %+v, all that is left %+v", p.ID, p, all, rest.all())
		}
	}
	for id, e := range rest.entries {
		if e.kept > 0 && e.batches[e.kept-1].lastOffset >= h.start && !slices.ContainsFunc(h.l.Producers(), func(p Producer) bool { return p.ID == id }) {
			h.fail("producer %d is forgotten, its last batch is at %d", id, e.batches[e.kept-1].lastOffset)
		}
	}
}

// checkCommitted reads as a consumer does that wants committed records only.
func (h *history) checkCommitted(batches []record.Batch) {
	h.l.SetHighWatermark(h.end)
	stable := h.l.LastStableOffset()
	want := h.end
	for _, e := range h.naive.entries {
		if e.txnStart >= 0 {
			want = min(want, max(e.txnStart, h.start))
		}
	}
	if stable != want && !(stable > want && h.firstOpen(batches) == stable) {
		h.fail("the last stable offset is %d, it should be %d", stable, want)
	}
	aborted := h.l.AbortedTxns(h.start, stable)
	slices.SortStableFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	skip := map[int64]bool{}
	for _, b := range batches {
		if b.BaseOffset() >= stable || b.LastOffset() < h.start {
			continue
		}
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			skip[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		switch {
		case b.IsControl():
			delete(skip, b.ProducerID())
		case b.IsTransactional():
			if commit, known := fate(batches, b); known && commit == skip[b.ProducerID()] {
				h.fail("producer %d's batch at %d was committed: %t; a reader skips it: %t", b.ProducerID(), b.BaseOffset(), commit, !commit)
			}
		}
	}
}

// firstOpen is where the first transaction begins of which no marker is there, judged by what is left of the log.
func (h *history) firstOpen(batches []record.Batch) int64 {
	for _, b := range batches {
		if _, known := fate(batches, b); b.IsTransactional() && !b.IsControl() && !known {
			return max(b.BaseOffset(), h.start)
		}
	}
	return h.end
}

// fate finds the marker of a transactional batch.
func fate(batches []record.Batch, of record.Batch) (commit, known bool) {
	for _, b := range batches {
		if b.BaseOffset() > of.BaseOffset() && b.ProducerID() == of.ProducerID() && b.IsControl() {
			m, err := markerOf(b)
			return err == nil && m.Commit, err == nil
		}
	}
	return false, false
}

// checkRead reads from anywhere, as much as it likes.
func (h *history) checkRead() {
	w := h.w.Workload
	offset, upTo := h.start+below(w, h.end-h.start+1), h.end
	if w.Chance(0.5) {
		upTo = offset + below(w, h.end-offset+1)
	}
	maxBytes, minOne := w.IntN(1+w.IntN(4000)), w.Chance(0.7)
	s, err := h.l.Read(offset, maxBytes, minOne, upTo)
	if err != nil {
		h.fail("read at %d: %w", offset, err)
		return
	}
	defer s.Release()
	got, err := s.Bytes()
	if err != nil {
		h.fail("read at %d: %w", offset, err)
		return
	}
	i := 0
	for i < len(h.content) && h.content[i].LastOffset() < offset {
		i++
	}
	var want []byte
	next := offset
	for ; i < len(h.content) && h.content[i].BaseOffset() < upTo; i++ {
		b := h.content[i]
		if len(want)+len(b) > maxBytes && (!minOne || len(want) > 0) {
			break
		}
		if len(want) > 0 && slices.ContainsFunc(h.l.view().segments, func(s *segment) bool { return s.base > h.content[i-1].BaseOffset() && s.base <= b.BaseOffset() }) {
			break // regions end with their segments
		}
		want, next = append(want, b...), b.NextOffset()
	}
	if offset >= upTo {
		want = nil
	}
	if !bytes.Equal(got, want) {
		h.fail("read from %d to %d, at most %d bytes, at least one batch %t: %d bytes instead of %d", offset, upTo, maxBytes, minOne, len(got), len(want))
	}
	if len(want) > 0 && s.Next < next {
		h.fail("read from %d says that %d comes next, it is %d", offset, s.Next, next)
	}
}

// checkTimes looks for records by their timestamps.
func (h *history) checkTimes() {
	if len(h.content) == 0 {
		return
	}
	var all []record.Record
	for _, b := range h.content {
		it := b.Iter(nil)
		var r record.Record
		for it.Next(&r) {
			if r.Offset >= h.start {
				all = append(all, record.Record{Offset: r.Offset, Timestamp: r.Timestamp})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	ms := all[h.w.Workload.IntN(len(all))].Timestamp + int64(h.w.Workload.IntN(3)) - 1
	i := slices.IndexFunc(all, func(r record.Record) bool { return r.Timestamp >= ms })
	got, ok, err := h.l.OffsetForTimestamp(ms)
	if err != nil || ok != (i >= 0) || ok && (got.Offset != all[i].Offset || got.Timestamp != all[i].Timestamp) {
		h.fail("the first record from %d on with a timestamp of at least %d is said to be %+v, %t, %v", h.start, ms, got, ok, err)
	}
	last, ok, err := h.l.MaxTimestamp()
	largest := slices.MaxFunc(all, func(a, b record.Record) int { return int(a.Timestamp - b.Timestamp) })
	if err != nil || !ok || last.Offset >= h.start && last.Timestamp != largest.Timestamp || last.Timestamp < largest.Timestamp {
		h.fail("the largest timestamp is said to be %+v, %t, %v; it is %d at %d", last, ok, err, largest.Timestamp, largest.Offset)
	}
}
