package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// segment is a run of batches in a file, with its indexes. Its log's lock guards changes.
type segment struct {
	fsys    env.FS
	dir     string
	base    int64
	offsets *offsetIndex
	times   *timeIndex
	txns    *txnIndex

	// size is how many bytes of the file are batches. Readers of the active segment take the size that the log published.
	size atomic.Int64

	// Of the appends, guarded by the log's lock.
	maxTimestamp   timestampOffset // largest timestamp and the last offset of the batch that brought it; -1 if empty
	firstTimestamp int64           // largest timestamp of the first batch, -1 if it is empty or not known
	sinceIndexed   int             // bytes since the last index entry
	createdMs      int64

	mu    sync.Mutex
	file  *sharedFile // opened when it is needed
	ended bool
}

// sharedFile is an open file that is closed when neither its segment nor a reader needs it any more.
type sharedFile struct {
	env.File
	owners atomic.Int32
}

// Unpin is how a reader gives it up.
func (f *sharedFile) Unpin() { _ = f.release() }

func (f *sharedFile) release() error {
	if f.owners.Add(-1) == 0 {
		return f.Close()
	}
	return nil
}

func newSegment(fsys env.FS, dir string, base int64, nowMs int64) *segment {
	path := func(suffix string) string { return filepath.Join(dir, offsetName(base, suffix)) }
	s := &segment{
		fsys: fsys, dir: dir, base: base,
		offsets: newOffsetIndex(fsys, path(offsetIndexSuffix), base),
		times:   newTimeIndex(fsys, path(timeIndexSuffix), base),
		txns:    &txnIndex{fsys: fsys, path: path(txnIndexSuffix)},

		maxTimestamp: timestampOffset{-1, base}, firstTimestamp: -1, createdMs: nowMs,
	}
	return s
}

func (s *segment) path(suffix string) string {
	return filepath.Join(s.dir, offsetName(s.base, suffix))
}

// handle opens the file when it is first needed.
func (s *segment) handle() (*sharedFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handleLocked()
}

func (s *segment) handleLocked() (*sharedFile, error) {
	if s.file == nil {
		if s.ended {
			return nil, fmt.Errorf("segment %s: %w", s.path(logSuffix), fs.ErrClosed)
		}
		f, err := s.fsys.Open(s.path(logSuffix), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open segment %s: %w", s.path(logSuffix), err)
		}
		s.file = &sharedFile{File: f}
		s.file.owners.Store(1)
	}
	return s.file, nil
}

// pin keeps what is in the file now readable until Unpin.
func (s *segment) pin() (*sharedFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.handleLocked()
	if err == nil {
		f.owners.Add(1)
	}
	return f, err
}

// close closes the files; that of the records when the last reader is done.
func (s *segment) close() error {
	s.mu.Lock()
	var err error
	s.ended = true
	if s.file != nil {
		err, s.file = s.file.release(), nil
	}
	s.mu.Unlock()
	return errors.Join(err, s.offsets.close(), s.times.close(), s.txns.close())
}

// create makes the files of an empty segment that is written to.
func (s *segment) create(indexBytes int) error {
	if _, err := s.handle(); err != nil {
		return err
	}
	return errors.Join(s.offsets.preallocate(indexBytes), s.times.preallocate(indexBytes))
}

// append writes whole batches behind the last and notes index entries. The batches lie in b with their offsets set.
func (s *segment) append(b []byte, indexInterval int) error {
	f, err := s.handle()
	if err != nil {
		return err
	}
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
		if !s.offsets.full(0) {
			if err := s.offsets.add(last, position); err != nil {
				return err
			}
		}
		if err := s.times.maybeAdd(s.maxTimestamp, false); err != nil {
			return err
		}
		s.sinceIndexed = 0
	}
	s.sinceIndexed += b.Length()
	return nil
}

// lastTimeEntry tries to note the largest timestamp in the time index: at a roll and at a close.
func (s *segment) lastTimeEntry() error { return s.times.maybeAdd(s.maxTimestamp, true) }

// seal makes the files what those of a segment are that is not written to any more.
func (s *segment) seal() error {
	return errors.Join(s.lastTimeEntry(), s.offsets.trim(), s.times.trim())
}

// sync makes everything durable but the names of the files.
func (s *segment) sync() error {
	f, err := s.handle()
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync segment %s: %w", s.path(logSuffix), err)
	}
	return errors.Join(s.offsets.sync(), s.times.sync(), s.txns.sync())
}

// headerBuffers hold batch headers that are read one by one.
var headerBuffers = sync.Pool{New: func() any { b := make([]byte, record.BatchHeaderSize); return &b }}

// scan calls fn with the header of each batch from a position that is the start of one up to end, until it returns false.
// Errors: *DamageError where no batch can be.
func (s *segment) scan(position, end int64, fn func(header record.Batch, position int64) bool) error {
	f, err := s.handle()
	if err != nil {
		return err
	}
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
	from, err := s.offsets.lookup(offset)
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
		if err := s.fsys.Rename(path, path+deletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("mark %s as deleted: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// removeMarked removes the files of a deleted segment.
func (s *segment) removeMarked() error {
	var errs []error
	for _, suffix := range []string{logSuffix, offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if err := s.fsys.Remove(s.path(suffix) + deletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
