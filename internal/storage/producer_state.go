package storage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// Origin says who wrote a batch.
type Origin int8

// Who may write.
const (
	FromClient Origin = iota
	FromCoordinator
)

// Producer is what a log knows of an idempotent producer.
type Producer struct {
	ID               int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64 // ms
	CoordinatorEpoch int32
	TxnStart         int64 // -1: none
}

// batchesKept is how many of a producer's last batches are known, so that a client that sends them again is told where they are.
const batchesKept = 5

// producedBatch is where a batch of a producer is in the log.
type producedBatch struct {
	lastSequence int32
	offsetDelta  int32
	lastOffset   int64
	timestamp    int64
}

func (b producedBatch) firstSequence() int32 {
	return record.DecrementSequence(b.lastSequence, b.offsetDelta)
}
func (b producedBatch) firstOffset() int64 { return b.lastOffset - int64(b.offsetDelta) }

// producerEntry is the state of one producer.
type producerEntry struct {
	id               int64
	epoch            int16
	coordinatorEpoch int32
	lastTimestamp    int64
	txnStart         int64 // -1: no transaction
	kept             int
	batches          [batchesKept]producedBatch // oldest first
}

func (e *producerEntry) lastSequence() int32 {
	if e.kept == 0 {
		return record.NoSequence
	}
	return e.batches[e.kept-1].lastSequence
}

func (e *producerEntry) add(b producedBatch) {
	if e.kept == batchesKept {
		copy(e.batches[:], e.batches[1:])
		e.kept--
	}
	e.batches[e.kept] = b
	e.kept++
}

// setEpoch begins an epoch; sequences begin anew with it.
func (e *producerEntry) setEpoch(epoch int16) {
	if e.epoch != epoch {
		e.epoch, e.kept = epoch, 0
	}
}

// endedTxn is a transaction whose marker is in the log.
type endedTxn struct {
	producerID          int64
	firstOffset, marker int64
	aborted             bool
}

// producers is what a log knows of its idempotent producers and of transactions. The log's lock guards it.
type producers struct {
	expiry  time.Duration
	entries map[int64]*producerEntry
	// open holds the first offsets of open transactions, ended those whose marker is not below the high watermark yet. Both rise.
	open  []int64
	ended []endedTxn
}

func newProducers(expiry time.Duration) *producers { return &producers{expiry: expiry} }

// check says whether a leader may append a batch: one that is there already is returned, with ok true. marker is what the batch
// says if it is the end of a transaction. A producer that is not known may begin with any sequence, one that is known with the
// next, and a new epoch with 0. Errors: InvalidProducerEpoch, OutOfOrderSequenceNumber, InvalidTxnState,
// TransactionCoordinatorFenced.
func (p *producers) check(b record.Batch, o AppendOptions, marker *record.EndTxn) (dup producedBatch, ok bool, err error) {
	if !b.HasProducerID() {
		return dup, false, nil
	}
	e := p.entries[b.ProducerID()]
	switch {
	case e == nil:
		return dup, false, nil
	case marker != nil:
		return dup, false, e.checkMarker(b.ProducerEpoch(), *marker, o.TransactionVersion)
	case b.IsControl():
		return dup, false, nil
	}
	if o.Origin == FromClient {
		if dup, ok := e.find(b); ok {
			return dup, true, nil
		}
	}
	return dup, false, e.checkData(b, o.Origin)
}

func (e *producerEntry) checkData(b record.Batch, origin Origin) error {
	if b.ProducerEpoch() < e.epoch {
		return e.oldEpoch(b.ProducerEpoch())
	}
	if origin == FromClient {
		if err := e.checkSequence(b); err != nil {
			return err
		}
	}
	if e.txnStart >= 0 && !b.IsTransactional() {
		return fmt.Errorf("expected a transactional write of producer %d, whose transaction began at offset %d: %w", e.id, e.txnStart, kerr.InvalidTxnState)
	}
	return nil
}

func (e *producerEntry) oldEpoch(epoch int16) error {
	return fmt.Errorf("epoch %d of producer %d, whose last seen epoch is %d: %w", epoch, e.id, e.epoch, kerr.InvalidProducerEpoch)
}

// checkMarker judges the end of a transaction. From transaction version 2 on it has a newer epoch than the transaction; the same
// epoch is then a marker that is sent again, or an epoch that cannot grow (KIP-890, KIP-1228).
func (e *producerEntry) checkMarker(epoch int16, m record.EndTxn, transactionVersion int16) error {
	sameIsFine := transactionVersion < 2 || e.txnStart < 0 || epoch == math.MaxInt16
	if epoch < e.epoch || epoch == e.epoch && !sameIsFine {
		return e.oldEpoch(epoch)
	}
	if m.CoordinatorEpoch < e.coordinatorEpoch {
		return fmt.Errorf("marker for producer %d of a coordinator with epoch %d, the last seen epoch is %d: %w", e.id, m.CoordinatorEpoch, e.coordinatorEpoch, kerr.TransactionCoordinatorFenced)
	}
	return nil
}

// find looks for a batch of the same epoch and sequences.
func (e *producerEntry) find(b record.Batch) (producedBatch, bool) {
	if b.ProducerEpoch() != e.epoch {
		return producedBatch{}, false
	}
	first, last := b.BaseSequence(), b.LastSequence()
	for _, k := range e.batches[:e.kept] {
		if k.lastSequence == last && k.firstSequence() == first {
			return k, true
		}
	}
	return producedBatch{}, false
}

func (e *producerEntry) checkSequence(b record.Batch) error {
	first := b.BaseSequence()
	if b.ProducerEpoch() != e.epoch {
		if first == 0 {
			return nil
		}
		return fmt.Errorf("sequence %d of producer %d begins its new epoch %d (it was %d): %w", first, e.id, b.ProducerEpoch(), e.epoch, kerr.OutOfOrderSequenceNumber)
	}
	if last := e.lastSequence(); int64(first) != int64(last)+1 && (first != 0 || last != math.MaxInt32) {
		return fmt.Errorf("sequence %d of producer %d follows %d: %w", first, e.id, last, kerr.OutOfOrderSequenceNumber)
	}
	return nil
}

// update takes note of a batch that is in the log now. marker is what the batch says if it is the end of a transaction.
func (p *producers) update(b record.Batch, marker *record.EndTxn) {
	if !b.HasProducerID() || b.IsControl() && marker == nil {
		return // the cleaner leaves control batches empty
	}
	if p.entries == nil {
		p.entries = map[int64]*producerEntry{}
	}
	e := p.entries[b.ProducerID()]
	if e == nil {
		e = &producerEntry{id: b.ProducerID(), epoch: b.ProducerEpoch(), coordinatorEpoch: -1, txnStart: -1}
		p.entries[e.id] = e
	}
	if marker != nil {
		p.end(e, b, *marker)
	} else {
		e.setEpoch(b.ProducerEpoch())
		e.add(producedBatch{b.LastSequence(), b.LastOffsetDelta(), b.LastOffset(), b.MaxTimestamp()})
		if b.IsTransactional() && e.txnStart < 0 {
			e.txnStart = b.BaseOffset()
			p.open = append(p.open, e.txnStart)
		}
	}
	e.lastTimestamp = b.MaxTimestamp()
}

// end closes a producer's transaction.
func (p *producers) end(e *producerEntry, b record.Batch, m record.EndTxn) {
	e.setEpoch(b.ProducerEpoch())
	e.coordinatorEpoch = m.CoordinatorEpoch
	if e.txnStart < 0 {
		return
	}
	p.ended = append(p.ended, endedTxn{e.id, e.txnStart, b.LastOffset(), !m.Commit})
	p.close(e)
}

// close takes a producer's transaction off the list of open ones.
func (p *producers) close(e *producerEntry) {
	if i := slices.Index(p.open, e.txnStart); i >= 0 {
		p.open = slices.Delete(p.open, i, i+1)
	}
	e.txnStart = -1
}

// stableAfter is the last stable offset behind the marker of the transaction that was ended last.
func (p *producers) stableAfter(t endedTxn) int64 {
	if len(p.open) > 0 {
		return p.open[0]
	}
	return t.marker + 1
}

// firstUndecided is where the first transaction begins that is open, or whose end may still be lost.
func (p *producers) firstUndecided() (int64, bool) {
	first := int64(math.MaxInt64)
	if len(p.open) > 0 {
		first = p.open[0]
	}
	for _, t := range p.ended {
		first = min(first, t.firstOffset)
	}
	return first, first != math.MaxInt64
}

// onHighWatermark decides the transactions whose markers are committed.
func (p *producers) onHighWatermark(hw int64) {
	p.ended = slices.DeleteFunc(p.ended, func(t endedTxn) bool { return t.marker < hw })
}

// all are the producers, by id.
func (p *producers) all() []Producer {
	out := make([]Producer, 0, len(p.entries))
	for _, e := range p.entries {
		out = append(out, Producer{e.id, e.epoch, e.lastSequence(), e.lastTimestamp, e.coordinatorEpoch, e.txnStart})
	}
	slices.SortFunc(out, func(a, b Producer) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// expire forgets producers that were silent for long and have no transaction open.
func (p *producers) expire(nowMs int64) {
	for id, e := range p.entries {
		if p.expired(e, nowMs) {
			delete(p.entries, id)
		}
	}
}

func (p *producers) expired(e *producerEntry, nowMs int64) bool {
	return e.txnStart < 0 && nowMs-e.lastTimestamp >= p.expiry.Milliseconds()
}

func (p *producers) reset() { p.entries, p.open, p.ended = nil, nil, nil }
