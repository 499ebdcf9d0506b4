package storage

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// Slice is a region of a log's file. It stays as it is until Release, whatever happens to the log.
type Slice struct {
	File env.File
	Pos  int64
	Len  int
	// Next is an offset above those of all records in the region.
	Next int64
	Pin  Pin
}

// Pin keeps a region in place.
type Pin interface{ Unpin() }

// Release gives the region up.
func (s Slice) Release() {
	if s.Pin != nil {
		s.Pin.Unpin()
	}
}

// Bytes reads the region.
func (s Slice) Bytes() ([]byte, error) {
	b := make([]byte, s.Len)
	if s.Len > 0 {
		if _, err := s.File.ReadAt(b, s.Pos); err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", s.File.Name(), s.Pos, err)
		}
	}
	return b, nil
}

// Read finds whole batches from the one with offset on: up to maxBytes, but at least one if minOne, and none that has offsets at or
// above upTo. The region is empty if there is nothing of that kind. Errors: OffsetOutOfRange; a *DamageError; those of the disk.
func (l *Log) Read(offset int64, maxBytes int, minOne bool, upTo int64) (Slice, error) {
	for {
		v := l.view()
		s, err := l.read(v, reading{offset, maxBytes, minOne, min(upTo, v.end)})
		if l.view().generation == v.generation {
			return s, l.explain(err)
		}
		s.Release() // something was taken away while we looked
	}
}

// reading is what one read asks for.
type reading struct {
	offset   int64
	maxBytes int
	minOne   bool
	upTo     int64
}

func (l *Log) read(v view, r reading) (Slice, error) {
	if r.offset < v.segments[0].base || r.offset > v.end {
		return Slice{}, fmt.Errorf("offset %d of %s, whose log has offsets from %d to %d: %w", r.offset, l.tp, v.segments[0].base, v.end, kerr.OffsetOutOfRange)
	}
	for i := v.find(r.offset); i < len(v.segments) && r.offset < r.upTo; i++ {
		s := v.segments[i]
		size, end := v.bounds(i)
		position, found, err := l.locate(s, r.offset, size)
		if err != nil {
			return Slice{}, err
		}
		if !found {
			continue
		}
		out, err := l.slice(v, s, position, size, end, r)
		if err2 := l.recheckIndex(s); err2 != nil {
			out.Release()
			return Slice{}, errors.Join(err, err2)
		}
		return out, err
	}
	return Slice{Next: r.offset}, nil // compaction has removed everything from offset on
}

// locate finds the batch that a read begins with; readers that go on where they ended need no index.
func (l *Log) locate(s *segment, offset, size int64) (int64, bool, error) {
	if position, ok := l.remembered(s, offset); ok && position < size {
		return position, true, nil
	}
	position, _, found, err := s.locate(offset, size)
	return position, found, err
}

// recheckIndex looks again, while nothing changes, at an entry of an offset index that did not lead to its batch. If it is wrong
// indeed the log does without the indexes of the segment, which is read from its beginning, until they are made again at the next
// start.
func (l *Log) recheckIndex(s *segment) error {
	if s.suspect.Load() == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := s.suspect.Swap(nil)
	if e == nil {
		return nil
	}
	now, ok, err := s.offsets.lookup(e.offset)
	if err != nil || !ok || now != *e {
		return err
	}
	if right, err := s.confirm(now); err != nil || right {
		return err
	}
	l.logger.Warn("An index is damaged: it is not used, and made again at the next start", "file", s.path(offsetIndexSuffix), "offset", e.offset)
	return s.discardIndexes()
}

func (l *Log) remembered(s *segment, offset int64) (int64, bool) {
	l.pub.Lock()
	defer l.pub.Unlock()
	for i := range l.recent {
		if p := &l.recent[i]; p.segment == s && p.offset == offset {
			return p.position, true
		}
	}
	return 0, false
}

// remember notes where a reader that goes on will begin.
func (l *Log) remember(v view, p place) {
	l.pub.Lock()
	defer l.pub.Unlock()
	if l.published.generation != v.generation {
		return
	}
	for i := range l.recent {
		if l.recent[i] == p {
			return
		}
	}
	l.recent[l.nextPlace] = p
	l.nextPlace = (l.nextPlace + 1) % len(l.recent)
}

// slice pins the batches from position on.
func (l *Log) slice(v view, s *segment, position, size, segmentEnd int64, r reading) (Slice, error) {
	file, err := s.log.acquire()
	if err != nil {
		return Slice{}, err
	}
	end, next, err := s.extent(position, size, segmentEnd, r)
	if err != nil || end == position {
		file.Unpin()
		return Slice{Next: r.offset}, err
	}
	l.remember(v, place{next, s, end})
	return Slice{File: file.File, Pos: position, Len: int(end - position), Next: next, Pin: file}, nil
}

// extent finds where the batches of a read end, the first of which begins at position, and the offset behind them. segmentEnd is
// the offset behind the first size bytes of the segment.
func (s *segment) extent(position, size, segmentEnd int64, r reading) (end, next int64, err error) {
	limit := position + int64(r.maxBytes)
	bounded := r.upTo < segmentEnd
	if !bounded && limit >= size {
		return size, segmentEnd, nil
	}
	from, err := s.skip(position, limit, size, bounded, r.upTo)
	if err != nil {
		return 0, 0, err
	}
	end, next = from, r.offset
	err = s.scan(from, size, func(h record.Batch, p int64) bool {
		behind := p + int64(h.Length())
		fits := behind <= limit || r.minOne && p == position
		if !fits || bounded && h.BaseOffset() >= r.upTo {
			if p > position {
				next = h.BaseOffset()
			}
			return false
		}
		end, next = behind, h.NextOffset()
		return true
	})
	return end, next, err
}

// skip finds a position, the start of a batch, from which the end of a read is not far.
func (s *segment) skip(position, limit, size int64, bounded bool, upTo int64) (int64, error) {
	from := size
	if limit < size {
		p, err := s.hint(s.offsets.before(limit))
		if err != nil {
			return 0, err
		}
		from = p
	}
	if bounded {
		p, err := s.hint(s.offsets.lookup(upTo - 1))
		if err != nil {
			return 0, err
		}
		from = min(from, p)
	}
	return max(position, from), nil
}

// AbortedTxns are the aborted transactions with records in [from, to), in the order of the index.
func (l *Log) AbortedTxns(from, to int64) []AbortedTxn {
	v := l.view()
	var out []AbortedTxn
	for _, s := range v.segments[max(0, v.find(from)):] {
		var done bool
		if out, done = s.txns.collect(out, from, to); done {
			break
		}
	}
	return out
}
