package storage

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// preloadProducers brings the producer state to the beginning of a segment that is recovered: its transaction index depends on it.
// The snapshot there may have been lost, and once the segments before it are deleted nothing else knows what it says.
func (ld *loading) preloadProducers(s *segment) error {
	l, base := ld.l, s.base
	from, err := l.loadProducers(ld.segments, base, base)
	if err == nil && from != base && s != ld.segments[0] {
		err = l.writeSnapshot(base)
	}
	return err
}

// reloadProducers brings the producer state to end: from the newest snapshot, and from the log behind that.
func (l *Log) reloadProducers(end int64) error {
	if _, err := l.loadProducers(l.published.segments, end, end); err != nil {
		return err
	}
	l.producers.onHighWatermark(l.high.Load())
	l.noteUndecided()
	return nil
}

// loadProducers brings the producer state to offset end, with the newest snapshot at or below atMost; from is the offset of that one.
func (l *Log) loadProducers(segments []*segment, atMost, end int64) (from int64, err error) {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return 0, err
	}
	l.producers.reset()
	l.snapshotted = -1
	now := l.env.Now().UnixMilli()
	for i := len(offsets) - 1; i >= 0; i-- {
		if offsets[i] > atMost {
			continue
		}
		path := l.path(offsetName(offsets[i], snapshotSuffix))
		data, err := env.ReadFile(l.fsys, path)
		if err == nil {
			err = l.producers.loadSnapshot(data, now)
		}
		if err == nil {
			from, l.snapshotted = offsets[i], offsets[i]
			break
		}
		l.logger.Warn("Deleting an unreadable producer snapshot", "file", path, "err", err)
		l.producers.reset()
		if err := l.fsys.Remove(path); err != nil {
			return 0, fmt.Errorf("remove producer snapshot: %w", err)
		}
	}
	return from, l.replayProducers(segments, from, end)
}

// replayProducers takes note of the batches in [from, end).
func (l *Log) replayProducers(segments []*segment, from, end int64) error {
	for i, s := range segments {
		if s.base >= end || i+1 < len(segments) && segments[i+1].base <= from {
			continue
		}
		if err := l.replaySegment(s, from, end); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replaySegment(s *segment, from, end int64) error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer f.Unpin()
	position, err := s.hint(s.offsets.lookup(from))
	if err != nil {
		return err
	}
	var inner error
	err = scanFile(f, position, s.size.Load(), func(h record.Batch, p int64) bool {
		if h.LastOffset() < from || !h.HasProducerID() {
			return true
		}
		if h.BaseOffset() >= end {
			return false
		}
		inner = l.replayProducer(f, h, p)
		return inner == nil
	})
	return errors.Join(err, inner)
}

func (l *Log) replayProducer(f env.File, h record.Batch, p int64) error {
	var marker *record.EndTxn
	if h.IsControl() {
		b := make(record.Batch, h.Length())
		if _, err := f.ReadAt(b, p); err != nil {
			return fmt.Errorf("read %s at %d: %w", f.Name(), p, err)
		}
		var err error
		if marker, err = markerOf(b); err != nil {
			return &DamageError{f.Name(), p, err.Error()}
		}
	}
	l.producers.update(h, marker)
	return nil
}
