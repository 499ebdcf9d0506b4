package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// segment is a run of batches in a file, with its indexes. Its log's lock guards changes.
type segment struct {
	segmentName
	log     lazyFile
	offsets offsetIndex
	times   timeIndex
	txns    txnIndex

	// suspect is an entry of the offset index that led to a place where no batch began; or the segment was truncated meanwhile.
	suspect atomic.Pointer[indexed]

	// size is how many bytes of the file are batches. Readers of the active segment take the size that the log published.
	size atomic.Int64

	// What appends and retention need to know, once it is known (see ensure). Guarded by the log's lock.
	known          bool
	maxTimestamp   timestampOffset // largest timestamp and the last offset of the batch that brought it; -1 if empty
	firstTimestamp int64           // largest timestamp of the first batch, -1 if it is empty
	sinceIndexed   int             // bytes since the last index entry
	createdMs      int64
}

// newSegment names the files of a segment, which is empty until a size says something else.
func newSegment(files *OpenFiles, dir string, base int64, nowMs int64) *segment {
	s := &segment{
		segmentName: segmentName{files, dir, base}, createdMs: nowMs,
		known: true, maxTimestamp: timestampOffset{-1, base}, firstTimestamp: -1,
	}
	s.log.name, s.log.suffix = &s.segmentName, logSuffix
	s.txns.file.name, s.txns.file.suffix = &s.segmentName, txnIndexSuffix
	s.offsets.entrySize, s.offsets.file.name, s.offsets.file.suffix = offsetEntrySize, &s.segmentName, offsetIndexSuffix
	s.times.entrySize, s.times.file.name, s.times.file.suffix = timeEntrySize, &s.segmentName, timeIndexSuffix
	return s
}

// String is for the log of the node.
func (s *segment) String() string {
	return fmt.Sprintf("LogSegment(baseOffset=%d, size=%d)", s.base, s.size.Load())
}

// found says that the file is there and how long it is. What is in it is looked at when that is needed.
func (s *segment) found(size int64) {
	s.size.Store(size)
	s.offsets.mu.Lock()
	s.offsets.size = size
	s.offsets.mu.Unlock()
	s.known = size == 0
}

// close closes the files; that of the records when the last reader is done.
func (s *segment) close() error {
	return errors.Join(s.log.end(), s.offsets.close(), s.times.close(), s.txns.close())
}

// create makes the files of an empty segment that is written to.
func (s *segment) create(indexBytes int) error {
	s.limitIndexes(indexBytes)
	return errors.Join(s.log.touch(), s.offsets.file.touch(), s.times.file.touch())
}

// limitIndexes says how large indexes may grow in a segment that is written to.
func (s *segment) limitIndexes(bytes int) {
	s.offsets.limit(bytes)
	s.times.limit(bytes)
}

// ensure finds out what was not looked at when the segment was opened. The end of the last batch is returned, -1 if that was not
// looked at now. The log's lock is held. Errors: those of the disk, *DamageError.
func (s *segment) ensure() (end int64, err error) {
	if s.known {
		return -1, nil
	}
	size := s.size.Load()
	from, err := s.indexedUpTo()
	if err != nil {
		return -1, err
	}
	end = s.base
	err = s.scan(from, size, func(h record.Batch, _ int64) bool {
		if t := h.MaxTimestamp(); t > s.maxTimestamp.timestamp {
			s.maxTimestamp = timestampOffset{t, h.LastOffset()}
		}
		end = h.NextOffset()
		return true
	})
	if err != nil {
		return -1, err
	}
	err = s.scan(0, size, func(h record.Batch, _ int64) bool {
		s.firstTimestamp = h.MaxTimestamp()
		return false
	})
	s.sinceIndexed = int(min(size-from, math.MaxInt32))
	s.known = err == nil
	return end, err
}

// indexedUpTo takes the largest timestamp from the time index and says up to where that covers the segment. Indexes that are wrong
// are discarded.
func (s *segment) indexedUpTo() (position int64, err error) {
	t, sound, err := s.times.last()
	if err != nil {
		return 0, err
	}
	e, ok, alsoSound, err := s.offsets.last()
	if err != nil {
		return 0, err
	}
	sound = sound && alsoSound
	if ok && sound {
		if sound, err = s.confirm(e); err != nil {
			return 0, err
		}
	}
	if !sound {
		s.maxTimestamp = timestampOffset{-1, s.base}
		return 0, s.discardIndexes()
	}
	s.maxTimestamp = t
	return e.position, nil
}

// hint gives the position of an index entry, or 0 if there is none or it does not lead to its batch: an index may have been damaged
// long ago, and is suspect then.
func (s *segment) hint(e indexed, ok bool, err error) (int64, error) {
	if err != nil || !ok {
		return 0, err
	}
	right, err := s.confirm(e)
	if err != nil {
		return 0, err
	}
	if !right {
		wrong := e // so that only these cost memory
		s.suspect.Store(&wrong)
		return 0, nil
	}
	return e.position, nil
}

// confirm says whether an index entry leads to its batch, which may be just being appended.
func (s *segment) confirm(e indexed) (right bool, err error) {
	size := s.size.Load()
	if e.position >= size {
		return true, nil
	}
	err = s.scan(e.position, size, func(h record.Batch, _ int64) bool {
		right = h.BaseOffset() >= s.base && h.BaseOffset() <= e.offset
		return false
	})
	var damage *DamageError
	if errors.As(err, &damage) {
		return false, nil
	}
	return right, err
}

// discardIndexes does without the indexes, which are wrong. The log's lock is held.
func (s *segment) discardIndexes() error {
	return errors.Join(s.offsets.discard(), s.times.discard())
}

// append writes whole batches behind the last and notes index entries. The batches lie in b with their offsets set.
func (s *segment) append(b []byte, indexInterval int) error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer f.Unpin()
	at := s.size.Load()
	if _, err := f.WriteAt(b, at); err != nil {
		return fmt.Errorf("write segment %s at %d: %w", s.path(logSuffix), at, err)
	}
	for rest := record.Batch(b); len(rest) > 0; {
		n := rest.Length()
		if err := s.note(rest[:n], at, indexInterval); err != nil {
			return err
		}
		rest, at = rest[n:], at+int64(n)
	}
	s.size.Store(at)
	return nil
}

// note takes a batch at a position into account: largest timestamp, index entries. Only the header of b is looked at.
func (s *segment) note(b record.Batch, position int64, indexInterval int) error {
	last := b.LastOffset()
	if position == 0 {
		s.firstTimestamp = b.MaxTimestamp()
	}
	if t := b.MaxTimestamp(); t > s.maxTimestamp.timestamp {
		s.maxTimestamp = timestampOffset{t, last}
	}
	if s.sinceIndexed > indexInterval {
		if err := s.offsets.maybeAdd(last, position); err != nil {
			return err
		}
		if err := s.times.maybeAdd(s.maxTimestamp, false); err != nil {
			return err
		}
		s.sinceIndexed = 0
	}
	s.sinceIndexed += b.Length()
	return nil
}

// indexFull says that an index has no room for another entry.
func (s *segment) indexFull() (bool, error) {
	offsets, err1 := s.offsets.full()
	times, err2 := s.times.full()
	return offsets || times, errors.Join(err1, err2)
}

// seal makes the files what those of a segment are that is not written to any more. The largest timestamp is noted.
func (s *segment) seal() error {
	if _, err := s.ensure(); err != nil {
		return err
	}
	return errors.Join(s.times.maybeAdd(s.maxTimestamp, true), s.offsets.trim(), s.times.trim())
}

// sync makes everything durable but the names of the files.
func (s *segment) sync() error {
	return errors.Join(s.syncRecords(), s.offsets.sync(), s.times.sync())
}

// syncRecords makes durable what cannot be made again.
func (s *segment) syncRecords() error {
	if err := s.log.use((*openFile).Sync); err != nil {
		return fmt.Errorf("sync segment %s: %w", s.path(logSuffix), err)
	}
	return s.txns.sync()
}

// headerBuffers hold batch headers that are read one by one.
var headerBuffers = sync.Pool{New: func() any { b := make([]byte, record.BatchHeaderSize); return &b }}

// scan calls fn with the header of each batch from a position that is the start of one up to end, until it returns false.
// Errors: *DamageError where no batch can be.
func (s *segment) scan(position, end int64, fn func(header record.Batch, position int64) bool) error {
	f, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer f.Unpin()
	return scanFile(f, position, end, fn)
}

func scanFile(f env.File, position, end int64, fn func(header record.Batch, position int64) bool) error {
	buf := headerBuffers.Get().(*[]byte)
	defer headerBuffers.Put(buf)
	h := *buf
	for position < end {
		if end-position < record.BatchHeaderSize {
			return &DamageError{f.Name(), position, "the file ends inside a batch"}
		}
		if _, err := f.ReadAt(h, position); err != nil {
			if errors.Is(err, io.EOF) {
				return &DamageError{f.Name(), position, "the file ends inside a batch"}
			}
			return fmt.Errorf("read segment %s at %d: %w", f.Name(), position, err)
		}
		n, err := record.NextSize(h)
		if err != nil {
			return &DamageError{f.Name(), position, err.Error()}
		}
		if int64(n) > end-position {
			return &DamageError{f.Name(), position, "the file ends inside a batch"}
		}
		if !fn(h, position) {
			return nil
		}
		position += int64(n)
	}
	return nil
}

// DamageError says that the bytes of a file are not what was written.
type DamageError struct {
	File     string
	Position int64
	Problem  string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at position %d: %s", e.File, e.Position, e.Problem)
}

// locate finds the batch that holds offset, or the first one behind it, in the first size bytes.
func (s *segment) locate(offset, size int64) (position int64, base int64, found bool, err error) {
	from, err := s.hint(s.offsets.lookup(offset))
	if err != nil {
		return 0, 0, false, err
	}
	err = s.scan(from, size, func(h record.Batch, p int64) bool {
		if h.LastOffset() < offset {
			return true
		}
		position, base, found = p, h.BaseOffset(), true
		return false
	})
	return position, base, found, err
}

// markDeleted gives the files another suffix, as those of a deleted segment have.
func (s *segment) markDeleted() error {
	var errs []error
	for _, suffix := range []string{logSuffix, offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix} {
		path := s.path(suffix)
		if err := s.files.fsys.Rename(path, path+deletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("mark %s as deleted: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// removeMarked removes the files of a deleted segment.
func (s *segment) removeMarked() error {
	var errs []error
	for _, suffix := range []string{logSuffix, offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if err := s.files.fsys.Remove(s.path(suffix) + deletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
