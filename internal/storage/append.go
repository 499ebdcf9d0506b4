package storage

import (
	"errors"
	"fmt"
	"math"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// AppendOptions say how to check batches.
type AppendOptions struct {
	Origin Origin
	// ProduceVersion is the version of the request, for the rules that depend on it; 0 for coordinators.
	ProduceVersion int16
	// TransactionVersion is that of WriteTxnMarkers, for the end of a transaction.
	TransactionVersion int16
}

// AppendInfo is what an append did.
type AppendInfo struct {
	BaseOffset, LastOffset int64
	// AppendTime is the broker's time in ms if the topic's timestamps are the log's, else -1; of a duplicate its largest timestamp.
	AppendTime int64
	// Duplicate says that an idempotent producer sent this before; offsets are those of then.
	Duplicate bool
}

// RecordProblem is what is wrong with one record of a refused batch (KIP-467).
type RecordProblem struct {
	Index   int32
	Message string
}

// RefusedError is a batch that was refused because of its records; it wraps the *record.Error.
type RefusedError struct {
	Cause   *record.Error
	Records []RecordProblem
}

func (e *RefusedError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// AppendAsLeader checks what a client sent for the partition and appends it with the next offsets and the epoch. Headers are changed in
// place; b is not kept. Coordinators append a batch of their own, which is only given its place.
//
// Errors: *RefusedError and *record.Error; MessageTooLarge; OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState;
// TransactionCoordinatorFenced; KafkaStorageError means that the directory failed.
func (l *Log) AppendAsLeader(b []byte, leaderEpoch int32, o AppendOptions) (AppendInfo, error) {
	cfg := l.cfg.Load()
	a := appending{cfg: cfg, origin: o.Origin, now: l.env.Now().UnixMilli(), info: AppendInfo{AppendTime: -1}}
	if err := a.prepare(b, o.ProduceVersion); err != nil {
		return a.info, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil || l.closed {
		return a.info, l.unusable()
	}
	dup, isDup, err := l.producers.check(a.batch, o, a.marker)
	switch {
	case err != nil:
		return a.info, err
	case isDup:
		// Kafka gives the batch's largest timestamp as the time of the append, whatever the topic's timestamps are.
		a.info.BaseOffset, a.info.LastOffset, a.info.AppendTime, a.info.Duplicate = dup.firstOffset(), dup.lastOffset, dup.timestamp, true
		return a.info, nil
	}
	if len(a.batch) > cfg.SegmentBytes {
		return a.info, fmt.Errorf("the record batch has %d bytes, more than segment.bytes = %d: %w", len(a.batch), cfg.SegmentBytes, kerr.RecordListTooLarge)
	}
	end := l.published.end
	if end > math.MaxInt64-int64(a.batch.LastOffsetDelta())-1 {
		return a.info, fmt.Errorf("offsets of %s are used up: %w", l.tp, kerr.KafkaStorageError)
	}
	a.batch.SetBaseOffset(end)
	a.batch.SetLeaderEpoch(leaderEpoch)
	a.info.BaseOffset, a.info.LastOffset = end, a.batch.LastOffset()
	if leaderEpoch > l.epochs.latest() {
		l.assignEpoch(leaderEpoch, end)
	}
	return a.info, l.write(a.batch, a.now, a.marker)
}

// appending is an append before it gets its place.
type appending struct {
	cfg    *LogConfig
	origin Origin
	now    int64 // ms
	batch  record.Batch
	marker *record.EndTxn
	info   AppendInfo
}

// prepare does what needs no lock: checks, timestamps, compression.
func (a *appending) prepare(b []byte, version int16) error {
	if a.origin != FromClient {
		batch, rest, err := record.Next(b)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return fmt.Errorf("%d bytes behind the batch of a coordinator: %w", len(rest), kerr.InvalidRecord)
		}
		a.batch = batch
		if a.marker, err = markerOf(batch); err != nil {
			return err
		}
		return a.checkSize()
	}
	batch, err := record.FromProduce(b, version)
	if err != nil {
		return err
	}
	a.batch = batch
	if err := a.checkSize(); err != nil {
		return err
	}
	if err := batch.CheckCRC(); err != nil {
		return err
	}
	return a.validate()
}

func (a *appending) checkSize() error {
	if len(a.batch) > a.cfg.MaxMessageBytes {
		return fmt.Errorf("the record batch has %d bytes, more than max.message.bytes = %d: %w", len(a.batch), a.cfg.MaxMessageBytes, kerr.MessageTooLarge)
	}
	return nil
}

func (a *appending) validate() error {
	o := record.ValidateOptions{
		Now: a.now, TimestampType: a.cfg.TimestampType, Before: a.cfg.Before, After: a.cfg.After, Compacted: a.cfg.Compact, FromClient: true,
	}
	var dec *record.Decompressor
	if a.batch.Compression() != record.None {
		dec = record.GetDecompressor()
		defer dec.Release()
	}
	info, err := record.Validate(a.batch, o, dec)
	if err != nil {
		return refused(err, o)
	}
	if a.cfg.Recompress && a.cfg.Codec != a.batch.Compression() {
		if err := a.recompress(dec); err != nil {
			return err
		}
	}
	if a.cfg.TimestampType == record.LogAppendTime {
		a.batch.SetLogAppendTime(a.now)
		a.info.AppendTime = a.now
	} else {
		a.batch.SetMaxTimestamp(info.MaxTimestamp)
	}
	return nil
}

func (a *appending) recompress(dec *record.Decompressor) error {
	b, err := record.Recompress(nil, a.batch, a.cfg.Codec, a.cfg.Level, dec)
	if err != nil {
		return err
	}
	a.batch = b
	return a.checkSize()
}

// refused adds the texts for records to an error about a batch.
func refused(err error, o record.ValidateOptions) error {
	var cause *record.Error
	if !errors.As(err, &cause) || len(cause.Records) == 0 {
		return err
	}
	r := &RefusedError{Cause: cause}
	for _, p := range cause.Records {
		r.Records = append(r.Records, RecordProblem{p.Index, p.Message(o)})
	}
	return r
}

// markerOf reads the end of a transaction out of a control batch; nil if it is none.
func markerOf(b record.Batch) (*record.EndTxn, error) {
	if !b.IsControl() || !b.HasProducerID() {
		return nil, nil
	}
	var r record.Record
	it := b.Iter(nil)
	if !it.Next(&r) {
		return nil, it.Err()
	}
	m, ok, err := r.EndTxn()
	if err != nil || !ok {
		return nil, err
	}
	return &m, nil
}

// AppendAsFollower appends batches that have offsets and epochs already, as a leader or the quorum gave them: all, or none if one
// of them cannot be right. Offsets must not lie below the end of the log. b is not kept.
func (l *Log) AppendAsFollower(b []byte) error {
	if err := checkFollowed(b); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil || l.closed {
		return l.unusable()
	}
	if first := record.Batch(b); len(b) > 0 && first.BaseOffset() < l.published.end {
		return fmt.Errorf("batch with base offset %d below the end %d of the log of %s: %w", first.BaseOffset(), l.published.end, l.tp, kerr.OffsetOutOfRange)
	}
	now := l.env.Now().UnixMilli()
	for len(b) > 0 {
		batch := record.Batch(b[:record.Batch(b).Length()])
		marker, err := markerOf(batch)
		if err != nil {
			return err
		}
		if batch.LeaderEpoch() > l.epochs.latest() {
			l.assignEpoch(batch.LeaderEpoch(), batch.BaseOffset())
		}
		if err := l.write(batch, now, marker); err != nil {
			return err
		}
		b = b[len(batch):]
	}
	return nil
}

// checkFollowed looks at what a leader sent: whole batches whose bytes are what was written, with rising offsets.
func checkFollowed(b []byte) error {
	for last := int64(-1); len(b) > 0; {
		batch, rest, err := record.Next(b)
		if err == nil {
			err = batch.CheckCRC()
		}
		if err == nil {
			_, err = markerOf(batch)
		}
		switch {
		case err != nil:
			return err
		case batch.BaseOffset() <= last || batch.LastOffset() < batch.BaseOffset() || batch.LastOffset() == math.MaxInt64:
			return fmt.Errorf("batch with offsets %d to %d behind offset %d: %w", batch.BaseOffset(), batch.LastOffset(), last, kerr.OffsetOutOfRange)
		}
		b, last = rest, batch.LastOffset()
	}
	return nil
}

func (l *Log) unusable() error {
	if l.failure != nil {
		return l.failure
	}
	return fmt.Errorf("the log of %s is closed: %w", l.tp, kerr.NotLeaderOrFollower)
}

// write appends one batch that is all set. mu is held.
func (l *Log) write(b record.Batch, nowMs int64, marker *record.EndTxn) error {
	cfg := l.cfg.Load()
	if err := l.maybeRoll(b, nowMs, cfg); err != nil {
		return l.check(err)
	}
	v := l.published // mu keeps it from changing
	s := v.active()
	if err := s.append(b, cfg.IndexInterval); err != nil {
		return l.check(err)
	}
	l.producers.update(b, marker)
	if marker != nil {
		if err := l.noteAborted(s); err != nil {
			return l.check(err)
		}
	}
	if marker != nil || b.IsTransactional() {
		l.noteUndecided()
	}
	v.size, v.end = s.size.Load(), b.NextOffset()
	l.publish(v)
	if cfg.FlushMessages < math.MaxInt64 && v.end-l.recoveryPoint.Load() >= cfg.FlushMessages {
		return l.check(l.flushLocked(nowMs))
	}
	return nil
}

// noteAborted puts the transaction that has just ended into the index of aborted ones, if it was.
func (l *Log) noteAborted(s *segment) error {
	n := len(l.producers.ended)
	if n == 0 {
		return nil
	}
	t := l.producers.ended[n-1]
	if !t.aborted || t.marker < l.published.end {
		return nil
	}
	return s.txns.append(abortedTxn{t.producerID, t.firstOffset, t.marker, l.producers.stableAfter(t)})
}
