package compaction

import (
	"cmp"
	"slices"

	"github.com/ottla-io/ottla/internal/record"
)

// AbortedTxn is an entry of a transaction index: the transaction began at First, its marker is at Last, and afterwards everything
// below LastStable was decided.
type AbortedTxn struct {
	ProducerID, First, Last, LastStable int64
}

// Transactions follows the transactions of a log that is read from one end to the other. It says which batches were aborted, and
// which markers have nothing left that they decide.
type Transactions struct {
	committed map[int64]struct{}    // producers with batches of a transaction that is not known as aborted
	aborted   map[int64]*abortedTxn // transactions that have begun
	ahead     []AbortedTxn          // those to come, by their beginning

	// Kept is told of each aborted transaction that still has batches, when its marker is read: the index of what is written needs
	// it. It may be nil.
	Kept func(AbortedTxn) error
}

type abortedTxn struct {
	AbortedTxn
	seen bool // one of its batches was read
}

// NewTransactions begins at the first batch.
func NewTransactions() *Transactions {
	return &Transactions{committed: map[int64]struct{}{}, aborted: map[int64]*abortedTxn{}}
}

// Expect tells of the aborted transactions of what is read next. They may have been told of before.
func (t *Transactions) Expect(txns []AbortedTxn) {
	t.ahead = append(t.ahead, txns...)
	slices.SortStableFunc(t.ahead, func(a, b AbortedTxn) int { return cmp.Compare(a.First, b.First) })
}

// begin takes note of the transactions that begin up to offset.
func (t *Transactions) begin(offset int64) {
	n := 0
	for n < len(t.ahead) && t.ahead[n].First <= offset {
		if a := t.ahead[n]; t.aborted[a.ProducerID] == nil {
			t.aborted[a.ProducerID] = &abortedTxn{AbortedTxn: a}
		}
		n++
	}
	t.ahead = t.ahead[n:]
}

// Batch takes note of a batch of records and says whether its transaction was aborted.
func (t *Transactions) Batch(b record.Batch) (aborted bool) {
	t.begin(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborted[b.ProducerID()]; a != nil {
		a.seen = true
		return true
	}
	t.committed[b.ProducerID()] = struct{}{}
	return false
}

// Control takes note of a control batch and says whether it may go, since nothing is left of what it decides. Errors: an *record.Error
// if it is none; those of Kept.
func (t *Transactions) Control(b record.Batch, dec *record.Decompressor) (done bool, err error) {
	t.begin(b.LastOffset())
	var r record.Record
	it := b.Iter(dec)
	if !it.Next(&r) {
		return true, it.Err() // it was emptied before
	}
	kind, err := record.ParseControlKey(r.Key)
	if err != nil {
		return false, err
	}
	id := b.ProducerID()
	switch kind {
	case record.Abort:
		a := t.aborted[id]
		delete(t.aborted, id)
		if a == nil || !a.seen {
			return true, nil
		}
		if t.Kept != nil {
			err = t.Kept(a.AbortedTxn)
		}
		return false, err
	case record.Commit:
		_, seen := t.committed[id]
		delete(t.committed, id)
		return !seen, nil
	case record.LeaderChange, record.SnapshotHeader, record.SnapshotFooter, record.KRaftVersion, record.KRaftVoters:
	}
	return false, nil
}
