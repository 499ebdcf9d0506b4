package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/ottla-io/ottla/internal/storage/compaction"
)

// errCleaningAborted says that a log was changed while it was being cleaned, so that what was found out about it is not worth
// anything any more.
var errCleaningAborted = errors.New("the cleaning of the log was aborted")

// newCleaned names the files of a segment that takes the place of others once it is complete.
func (l *Log) newCleaned(base, createdMs int64) *segment {
	s := newSegment(l.files, l.dir, base, createdMs)
	mark := cleanedSuffix
	for _, f := range s.fileList() {
		f.mark.Store(&mark)
	}
	return s
}

// fileList are all files of a segment, the records first.
func (s *segment) fileList() []*lazyFile {
	return []*lazyFile{&s.log, &s.offsets.file, &s.times.file, &s.txns.file}
}

// rename gives all files another mark: that of the records first.
func (s *segment) rename(mark string) error {
	for _, f := range s.fileList() {
		if err := f.rename(mark); err != nil {
			return err
		}
	}
	return nil
}

// complete makes a cleaned segment durable, names included.
func (s *segment) complete() error {
	if err := errors.Join(s.seal(), s.sync()); err != nil {
		return err
	}
	return s.files.fsys.SyncDir(s.dir)
}

// remove closes a segment that does not belong to the log, and removes its files.
func (s *segment) remove() error {
	errs := []error{s.close()}
	for _, f := range s.fileList() {
		if err := s.files.fsys.Remove(f.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// replace puts a complete cleaned segment in the place of those it was made of. A crash leaves either the old ones or the new one:
// the new one is durable under the name .swap before the old ones go, and gets its name when they are gone for good. cleanMu is
// held. Errors: errCleaningAborted; those of the disk end the log.
func (l *Log) replace(s *segment, old []*segment) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if !l.consists(old) {
		return errCleaningAborted
	}
	err := s.rename(swapSuffix)
	if err == nil {
		err = l.fsys.SyncDir(l.dir)
	}
	if err == nil {
		err = l.takeOver(s, old)
	}
	if err == nil {
		err = l.fsys.SyncDir(l.dir)
	}
	if err == nil {
		err = s.log.rename("")
	}
	if err == nil {
		err = l.fsys.SyncDir(l.dir) // while there is a .log.swap the other names count as those of an old segment
	}
	if err == nil {
		err = s.rename("")
	}
	if err == nil {
		err = l.fsys.SyncDir(l.dir)
	}
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check(fmt.Errorf("swap segment %s: %w", s.path(logSuffix), err))
}

// consists says that the log still has some segments, one after the other. flushMu is held.
func (l *Log) consists(old []*segment) bool {
	v := l.view()
	i := slices.Index(v.segments, old[0])
	return i >= 0 && i+len(old) < len(v.segments) && slices.Equal(v.segments[i:i+len(old)], old)
}

// takeOver shows readers the new segment, and takes the old ones away.
func (l *Log) takeOver(s *segment, old []*segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.published
	i := slices.Index(v.segments, old[0])
	v.segments = slices.Replace(slices.Clone(v.segments), i, i+len(old), s)
	l.retract(v)
	if err := l.removeSegments(old); err != nil {
		return err
	}
	return l.removeSnapshots(func(o int64) bool {
		return slices.ContainsFunc(old[1:], func(s *segment) bool { return s.base == o })
	})
}

// abortedIn are the index entries of aborted transactions with records in [from, to).
func (l *Log) abortedIn(from, to int64) []compaction.AbortedTxn {
	v := l.view()
	var out []compaction.AbortedTxn
	for _, s := range v.segments[max(0, v.find(from)):] {
		s.txns.mu.RLock()
		done := false
		for _, e := range s.txns.entries {
			if e.last >= from && e.first < to {
				out = append(out, compaction.AbortedTxn{ProducerID: e.producerID, First: e.first, Last: e.last, LastStable: e.lastStable})
			}
			if done = e.lastStable >= to; done {
				break
			}
		}
		s.txns.mu.RUnlock()
		if done {
			break
		}
	}
	return out
}

// lastRecords says where the producers are that the log knows.
func (l *Log) lastRecords() map[int64]compaction.LastRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[int64]compaction.LastRecord, len(l.producers.entries))
	for id, e := range l.producers.entries {
		last := compaction.LastRecord{Offset: -1, Epoch: e.epoch}
		if e.kept > 0 {
			last.Offset = e.batches[e.kept-1].lastOffset
		}
		out[id] = last
	}
	return out
}
