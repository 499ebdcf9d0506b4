package storage

import (
	"errors"
	"io/fs"

	"github.com/ottla-io/ottla/internal/env"
)

// indexCheck compares the indexes of a segment with its batches.
type indexCheck struct {
	*logCheck
	s      *segment
	sc     *segmentCheck
	remade bool // whatever is in them, the next start makes them again
	active bool
}

// entries reads the entries of an index up to preallocated space, and where that begins; ok is false if there is nothing to look at.
func (l *indexCheck) entries(x *index) (data []byte, ok bool) {
	path := x.file.path()
	data, err := env.ReadFile(l.fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		if len(l.sc.batches) > 0 {
			l.left(path, -1, "is missing")
		}
		return nil, false
	}
	if l.failed(path, err) {
		return nil, false
	}
	l.done.Bytes += int64(len(data))
	used := len(data)
	for used > 0 && data[used-1] == 0 {
		used--
	}
	whole := (used + x.entrySize - 1) / x.entrySize * x.entrySize
	if whole > len(data) {
		l.wrong(path, int64(whole-x.entrySize), "ends inside an entry")
		return data[:whole-x.entrySize], true
	}
	if len(data) > whole+x.entrySize && !(l.active && l.remade) { // the last entry may be one of zeros
		l.wrong(path, int64(whole), "has %d bytes of preallocated space behind its entries, as if it were still written to", len(data)-whole)
	}
	return data[:whole], true
}

// wrong is something that is wrong with an index.
func (l *indexCheck) wrong(path string, position int64, format string, args ...any) {
	if l.remade {
		l.left(path, position, format, args...)
		return
	}
	l.found(path, position, format, args...)
}

// offsets checks that each entry leads to its batch.
func (l *indexCheck) offsets() {
	data, ok := l.entries(&l.s.offsets.index)
	if !ok {
		return
	}
	path := l.s.offsets.file.path()
	last := indexed{l.s.base - 1, -1}
	for at := 0; at < len(data); at += offsetEntrySize {
		e := l.s.offsets.parse(data[at:])
		position := int64(at)
		b := l.sc.at(e.position)
		switch {
		case e.offset <= last.offset || e.position <= last.position:
			l.wrong(path, position, "offset %d at position %d behind offset %d at position %d", e.offset, e.position, last.offset, last.position)
			return
		case e.position >= l.sc.size:
			l.wrong(path, position, "leads to position %d, where the segment has ended", e.position)
			return
		case b == nil:
			l.wrong(path, position, "leads to position %d, where no batch begins", e.position)
		case e.offset < b.base:
			l.wrong(path, position, "leads from offset %d to the batch at %d", e.offset, b.base)
		}
		last = e
	}
}

// times checks that each entry names the batch with that timestamp, and that none before it has a later one.
func (l *indexCheck) times() {
	data, ok := l.entries(&l.s.times.index)
	if !ok {
		return
	}
	path := l.s.times.file.path()
	last := timestampOffset{-1, l.s.base - 1}
	for at := 0; at < len(data); at += timeEntrySize {
		t := l.s.times.parse(data[at:])
		position := int64(at)
		b := l.sc.holding(t.offset)
		switch {
		case t.timestamp <= last.timestamp || t.offset < last.offset:
			l.wrong(path, position, "time %d at offset %d behind time %d at offset %d", t.timestamp, t.offset, last.timestamp, last.offset)
			return
		case b == nil:
			l.wrong(path, position, "leads to offset %d, which the segment does not have", t.offset)
			return
		case b.base <= t.offset && b.timestamp != t.timestamp: // else compaction has taken the batch
			l.wrong(path, position, "time %d leads to offset %d, whose batch has time %d", t.timestamp, t.offset, b.timestamp)
		}
		last = t
	}
	if last.timestamp < l.sc.largest && !(l.active && l.remade) {
		l.wrong(path, int64(len(data)), "ends at time %d, the segment has a batch of %d", last.timestamp, l.sc.largest)
	}
}

// txns checks that each entry names the marker of a transaction that was aborted.
func (l *indexCheck) txns() {
	path := l.s.txns.file.path()
	if !l.exists(path) {
		return
	}
	var damage *DamageError
	switch err := l.s.txns.load(); {
	case errors.As(err, &damage):
		l.wrong(path, damage.Position, "%s", damage.Problem)
		return
	case l.failed(path, err):
		return
	}
	for i, e := range l.s.txns.entries {
		b := l.sc.holding(e.last)
		if b == nil || b.last != e.last || b.aborts != e.producerID {
			l.wrong(path, int64(i*txnEntrySize), "names offset %d, where producer %d has aborted nothing", e.last, e.producerID)
		}
	}
}
