package compaction

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/record"
)

// LastRecord is where a producer that the log knows wrote last.
type LastRecord struct {
	Offset int64 // of its last record; -1 if it has only ended a transaction in its epoch
	Epoch  int16
}

// Stats count what a pass has read and written.
type Stats struct {
	MessagesRead, MessagesWritten int64
	BytesRead, BytesWritten       int64
	InvalidMessages               int64 // without a key
}

// Filter says what is left of batches. All of the fields but Stats are set before the first one.
type Filter struct {
	Map                *OffsetMap
	Transactions       *Transactions
	Now                int64 // ms
	DeleteRetention    int64 // ms, delete.retention.ms
	LastRecords        map[int64]LastRecord
	HighWatermark      int64
	Decompressor       *record.Decompressor
	Stats              Stats
	builder            record.Builder
	retained           []bool
	hasTombstones, all bool // of the retained records; all are retained
}

// Batch appends to dst what is left of b, which may be nothing. What is left of a batch keeps its offsets, producer and sequences.
// Errors: *record.Error if there is no sense in b.
func (f *Filter) Batch(dst []byte, b record.Batch) ([]byte, error) {
	f.Stats.BytesRead += int64(len(b))
	done, err := f.decided(b)
	if err != nil {
		return dst, err
	}
	discard := done
	if b.IsControl() {
		// A marker goes with the same delay as a tombstone: who has read records of the transaction has to find it.
		horizon, ok := b.DeleteHorizon()
		discard = done && ok && horizon <= f.Now
	}
	keepEmpty := f.isLastOfProducer(b) || b.NextOffset() == f.HighWatermark
	if discard && !keepEmpty {
		return dst, nil
	}
	n, err := f.judge(b, discard)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	_, has := b.DeleteHorizon()
	switch newHorizon := !has && (f.hasTombstones || done && b.IsControl()); {
	case n == 0 && !keepEmpty:
		return dst, nil
	case n == 0:
		dst, err = f.empty(dst, b)
	case f.all && !newHorizon:
		dst = append(dst, b...)
	default:
		dst, err = f.rebuild(dst, b, newHorizon)
	}
	f.Stats.MessagesWritten += int64(n)
	f.Stats.BytesWritten += int64(len(dst) - start)
	return dst, err
}

// decided says whether b holds nothing that counts: records of an aborted transaction, or a marker of a transaction that is gone.
func (f *Filter) decided(b record.Batch) (bool, error) {
	if b.IsControl() {
		return f.Transactions.Control(b, f.Decompressor)
	}
	return f.Transactions.Batch(b), nil
}

// isLastOfProducer says that a producer goes on where b ends: its sequence, or if it has none its epoch, must be found when the
// state of producers is read from the log.
func (f *Filter) isLastOfProducer(b record.Batch) bool {
	if !b.HasProducerID() {
		return false
	}
	last, ok := f.LastRecords[b.ProducerID()]
	if !ok {
		return false
	}
	if last.Offset >= 0 {
		return b.LastOffset() == last.Offset
	}
	return b.IsControl() && b.ProducerEpoch() == last.Epoch
}

// judge finds out which records stay, and how many.
func (f *Filter) judge(b record.Batch, discard bool) (n int, err error) {
	f.retained, f.hasTombstones, f.all = f.retained[:0], false, true
	var r record.Record
	it := b.Iter(f.Decompressor)
	for it.Next(&r) {
		f.Stats.MessagesRead++
		keep := !discard && (b.IsControl() || f.keeps(b, &r))
		f.retained = append(f.retained, keep)
		if !keep {
			f.all = false
			continue
		}
		n++
		if r.Value == nil {
			f.hasTombstones = true
		}
	}
	return n, it.Err()
}

// keeps says whether a record stays: if it is the last one of its key, and not a tombstone whose time is over.
func (f *Filter) keeps(b record.Batch, r *record.Record) bool {
	if r.Offset > f.Map.Latest() {
		return true
	}
	if r.Key == nil {
		f.Stats.InvalidMessages++
		return false
	}
	if r.Offset < f.Map.Get(r.Key) {
		return false
	}
	if r.Value != nil {
		return true
	}
	horizon, ok := b.DeleteHorizon()
	return !ok || f.Now < horizon
}

// empty appends a batch without records, which says where a producer is, or where the log was read up to.
func (f *Filter) empty(dst []byte, b record.Batch) ([]byte, error) {
	f.header(b, record.None)
	f.builder.SetMaxTimestamp(b.MaxTimestamp())
	return f.finish(dst, b)
}

// rebuild appends b with the records that stay. newHorizon: tombstones and markers in it get the time after which they may go.
func (f *Filter) rebuild(dst []byte, b record.Batch, newHorizon bool) ([]byte, error) {
	f.header(b, b.Compression())
	horizon, has := b.DeleteHorizon()
	if newHorizon {
		horizon, has = f.Now+f.DeleteRetention, true
	}
	if has {
		f.builder.SetDeleteHorizon(horizon)
	}
	var r record.Record
	it := b.Iter(f.Decompressor)
	for i := 0; it.Next(&r); i++ {
		if f.retained[i] {
			f.builder.AppendAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
		}
	}
	if err := it.Err(); err != nil {
		return dst, err
	}
	return f.finish(dst, b)
}

// header begins a batch with everything of b but its records.
func (f *Filter) header(b record.Batch, codec record.Compression) {
	f.builder.Reset(b.BaseOffset(), codec)
	f.builder.SetLeaderEpoch(b.LeaderEpoch())
	f.builder.SetProducer(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	if b.IsTransactional() {
		f.builder.SetTransactional()
	}
	if b.IsControl() {
		f.builder.SetControl()
	}
	if b.TimestampType() == record.LogAppendTime {
		f.builder.SetLogAppendTime(b.MaxTimestamp())
	}
}

func (f *Filter) finish(dst []byte, b record.Batch) ([]byte, error) {
	f.builder.SetLastOffset(b.LastOffset())
	dst, err := f.builder.AppendTo(dst)
	if err != nil {
		return dst, fmt.Errorf("clean batch at %d: %w", b.BaseOffset(), err)
	}
	return dst, nil
}

// Note adds the keys of a batch from offset from on to the map. full says that the map takes no more: the batch, and what is behind
// it, is left to another pass. Aborted batches and markers have no keys.
func (f *Filter) Note(b record.Batch, from int64) (full bool, messages int64, err error) {
	done, err := f.decided(b)
	switch {
	case err != nil:
		return false, 0, err
	case b.IsControl():
		messages = 1
	case done:
		messages = int64(b.Count())
	default:
		var r record.Record
		it := b.Iter(f.Decompressor)
		for it.Next(&r) {
			if r.Key != nil && r.Offset >= from && !f.Map.Put(r.Key, r.Offset) {
				return true, messages, nil
			}
			messages++
		}
		if err := it.Err(); err != nil {
			return false, messages, err
		}
	}
	if b.LastOffset() >= from {
		f.Map.Passed(b.LastOffset())
	}
	return false, messages, nil
}
