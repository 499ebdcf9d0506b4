package storage

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// TimestampOffset is a record's place and time.
type TimestampOffset struct {
	Timestamp, Offset int64
	LeaderEpoch       int32
}

// OffsetForTimestamp finds the first record at or after the log's start whose timestamp is at least ms.
func (l *Log) OffsetForTimestamp(ms int64) (found TimestampOffset, ok bool, err error) {
	err = l.steady(func(v view) (err error) {
		found, ok, err = l.offsetForTimestamp(v, ms)
		return err
	})
	return found, ok, err
}

func (l *Log) offsetForTimestamp(v view, ms int64) (TimestampOffset, bool, error) {
	start := l.start.Load()
	for i, s := range v.segments {
		size, end := v.bounds(i)
		largest, err := l.largest(s)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if largest.timestamp < ms || end <= start {
			continue
		}
		found, ok, err := s.firstAt(ms, start, size)
		err = errors.Join(err, l.recheckIndex(s))
		if ok || err != nil {
			return found, ok, err
		}
	}
	return TimestampOffset{}, false, nil
}

// largest is the largest timestamp of a segment, and where it is.
func (l *Log) largest(s *segment) (timestampOffset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := s.ensure()
	return s.maxTimestamp, err
}

// firstAt finds the first record from start on whose time is at least ms.
func (s *segment) firstAt(ms, start, size int64) (TimestampOffset, bool, error) {
	t, ok, err := s.times.lookup(ms)
	if err != nil {
		return TimestampOffset{}, false, err
	}
	from := start
	if ok {
		from = max(from, t.offset)
	}
	position, err := s.hint(s.offsets.lookup(from))
	if err != nil {
		return TimestampOffset{}, false, err
	}
	return s.search(position, size, func(h record.Batch) bool { return h.MaxTimestamp() >= ms && h.LastOffset() >= start },
		func(r *record.Record) bool { return r.Timestamp >= ms && r.Offset >= start })
}

// search finds the first record that fits in a batch that may have one.
func (s *segment) search(position, size int64, mayHave func(header record.Batch) bool, fits func(*record.Record) bool) (TimestampOffset, bool, error) {
	var found TimestampOffset
	ok := false
	f, err := s.log.acquire()
	if err != nil {
		return found, false, err
	}
	defer f.Unpin()
	var inner error
	err = scanFile(f, position, size, func(h record.Batch, p int64) bool {
		if !mayHave(h) {
			return true
		}
		found, ok, inner = searchBatch(f, p, h.Length(), fits)
		return !ok && inner == nil
	})
	return found, ok, errors.Join(err, inner)
}

func searchBatch(f env.File, position int64, size int, fits func(*record.Record) bool) (TimestampOffset, bool, error) {
	b := make([]byte, size)
	if _, err := f.ReadAt(b, position); err != nil {
		return TimestampOffset{}, false, fmt.Errorf("read %s at %d: %w", f.Name(), position, err)
	}
	batch := record.Batch(b)
	dec := record.GetDecompressor()
	defer dec.Release()
	var r record.Record
	it := batch.Iter(dec)
	for it.Next(&r) {
		if fits(&r) {
			return TimestampOffset{r.Timestamp, r.Offset, batch.LeaderEpoch()}, true, nil
		}
	}
	return TimestampOffset{}, false, it.Err()
}

// MaxTimestamp finds the first record with the largest timestamp; false if the log is empty (KIP-734).
func (l *Log) MaxTimestamp() (found TimestampOffset, ok bool, err error) {
	err = l.steady(func(v view) (err error) {
		found, ok, err = l.maxTimestamp(v)
		return err
	})
	return found, ok, err
}

func (l *Log) maxTimestamp(v view) (TimestampOffset, bool, error) {
	best, largest := 0, timestampOffset{timestamp: -1}
	for i, s := range v.segments {
		t, err := l.largest(s)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if t.timestamp > largest.timestamp {
			best, largest = i, t
		}
	}
	if largest.timestamp < 0 {
		return TimestampOffset{}, false, nil
	}
	s := v.segments[best]
	size, _ := v.bounds(best)
	position, err := s.hint(s.offsets.lookup(largest.offset))
	if err != nil {
		return TimestampOffset{}, false, err
	}
	return s.search(position, size, func(h record.Batch) bool { return h.MaxTimestamp() == largest.timestamp },
		func(r *record.Record) bool { return r.Timestamp == largest.timestamp })
}
