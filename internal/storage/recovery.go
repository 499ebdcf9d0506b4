package storage

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// openSound opens a segment that is durable. Nothing of it is read but aborted transactions. Its indexes are made again if they are
// missing.
func (ld *loading) openSound(s *segment) error {
	why := ""
	switch {
	case ld.reread:
		why = "Reading a segment again"
	case !ld.has(offsetName(s.base, offsetIndexSuffix)) || !ld.has(offsetName(s.base, timeIndexSuffix)):
		why = "Could not find an index file of a segment; rebuilding its indexes"
	case ld.has(offsetName(s.base, txnIndexSuffix)):
		err := s.txns.load()
		var damage *DamageError
		if err != nil && !errors.As(err, &damage) {
			return err
		}
		if err != nil {
			why = "A transaction index is damaged; rebuilding the indexes of its segment"
		}
	}
	if why == "" {
		return nil
	}
	ld.l.logger.Warn(why, "file", s.path(logSuffix))
	return ld.rebuild(s)
}

// rebuild makes the indexes of a durable segment again, as far as it can be read. Damage stays where it is: who reads it is told.
func (ld *loading) rebuild(s *segment) error {
	valid, err := ld.reindex(s)
	var damage *DamageError
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	switch {
	case err == nil:
	case s == ld.segments[len(ld.segments)-1]:
		return err // nobody knows where the log ends
	default:
		ld.l.logger.Error("A segment that counts as sound is damaged", "file", damage.File, "position", damage.Position, "problem", damage.Problem, "size", s.size.Load(), "readable", valid)
	}
	s.known = true
	ld.l.unsynced = append(ld.l.unsynced, s)
	return errors.Join(s.times.maybeAdd(s.maxTimestamp, true), s.offsets.trim(), s.times.trim())
}

// reindex reads a segment into new indexes, up to the first batch that is not sound.
func (ld *loading) reindex(s *segment) (valid int64, err error) {
	if err := s.resetIndexes(ld.o.Config.IndexBytes); err != nil {
		return 0, err
	}
	if err := ld.preloadProducers(s); err != nil {
		return 0, err
	}
	f, err := s.log.acquire()
	if err != nil {
		return 0, err
	}
	defer f.Unpin()
	return ld.replay(s, f, s.size.Load())
}

// dropAfter removes the segments behind one that was cut: what they hold does not follow on it.
func (ld *loading) dropAfter(i int) error {
	dropped := ld.segments[i+1:]
	ld.segments = ld.segments[:i+1]
	return ld.drop(dropped, "Deleting a segment because what is before it was cut or is missing")
}

// dropUpTo removes the segments up to one behind which something is missing: they were about to be removed too.
func (ld *loading) dropUpTo(i int) error {
	dropped := ld.segments[:i+1]
	ld.segments = ld.segments[i+1:]
	return ld.drop(dropped, "Deleting a segment because what is behind it is missing, and all of it is kept elsewhere")
}

// drop removes files at once.
func (ld *loading) drop(segments []*segment, why string) error {
	l := ld.l
	for _, s := range segments {
		l.logger.Warn(why, "file", s.path(logSuffix))
		l.names++
		l.unsynced = slices.DeleteFunc(l.unsynced, func(u *segment) bool { return u == s })
		if err := errors.Join(s.close(), s.markDeleted(), s.removeMarked()); err != nil {
			return err
		}
	}
	return nil
}

// recover reads a whole segment, cuts off what is not sound, and makes its indexes again. cut says that something was cut off.
func (ld *loading) recover(i int) (cut bool, err error) {
	l, s := ld.l, ld.segments[i]
	fileSize := s.size.Load()
	l.epochs.truncateEnd(s.base)
	valid, err := ld.reindex(s)
	var damage *DamageError
	if err != nil && !errors.As(err, &damage) {
		return false, err
	}
	if valid < fileSize {
		cut = true
		l.logger.Warn(fmt.Sprintf("Found invalid messages in log segment %s at byte offset %d: discarding the %d bytes from there on", s.path(logSuffix), valid, fileSize-valid), "problem", err)
		if err := ld.dropBehindCut(i); err != nil {
			return false, err
		}
		if err := s.log.use(func(f *openFile) error { return f.Truncate(valid) }); err != nil {
			return false, fmt.Errorf("truncate %s: %w", s.path(logSuffix), err)
		}
	}
	s.size.Store(valid)
	s.known = true
	l.unsynced = append(l.unsynced, s)
	return cut, s.seal()
}

// dropBehindCut removes the segments behind one that is about to be cut, for good: if they came back they would not look as if
// anything were missing before them.
func (ld *loading) dropBehindCut(i int) error {
	if i == len(ld.segments)-1 || ld.o.Gapless && ld.segments[i+1].base <= ld.o.CoveredTo {
		return nil
	}
	return errors.Join(ld.dropAfter(i), ld.l.syncNames())
}

func (s *segment) resetIndexes(indexBytes int) error {
	s.firstTimestamp, s.sinceIndexed, s.maxTimestamp = -1, 0, timestampOffset{-1, s.base}
	s.limitIndexes(indexBytes)
	return errors.Join(s.offsets.reset(), s.times.resetEntries(), s.txns.reset())
}

// replay reads the batches of a segment into its indexes, the leader epochs and the producer state, up to the first that is not
// sound, and returns where that begins.
func (ld *loading) replay(s *segment, f env.File, size int64) (int64, error) {
	last := s.base - 1
	valid := int64(0)
	var inner error
	buf := env.NewBuffer(64 << 10)
	defer func() { buf.Release() }()
	err := scanFile(f, 0, size, func(h record.Batch, p int64) bool {
		n := h.Length()
		if n > len(buf.B) {
			buf.Release()
			buf = env.NewBuffer(n)
		}
		b := record.Batch(buf.B[:n])
		if _, err := f.ReadAt(b, p); err != nil && !errors.Is(err, io.EOF) {
			inner = err
			return false
		}
		if problem := unsound(b, last); problem != "" {
			inner = &DamageError{f.Name(), p, problem}
			return false
		}
		if inner = ld.replayBatch(s, b, p); inner != nil {
			return false
		}
		last, valid = b.LastOffset(), p+int64(n)
		return true
	})
	if inner != nil {
		err = inner
	}
	ld.replayed[s] = last + 1
	return valid, err
}

// unsound says what is wrong with a batch that follows on the offset last.
func unsound(b record.Batch, last int64) string {
	switch {
	case b.CheckCRC() != nil:
		return "a batch whose CRC is wrong"
	case b.BaseOffset() <= last || b.LastOffset() < b.BaseOffset():
		return fmt.Sprintf("a batch with offsets %d to %d behind offset %d", b.BaseOffset(), b.LastOffset(), last)
	}
	return ""
}

func (ld *loading) replayBatch(s *segment, b record.Batch, position int64) error {
	l := ld.l
	if err := s.note(b, position, ld.o.Config.IndexInterval); err != nil {
		return err
	}
	if b.LeaderEpoch() >= 0 && b.LeaderEpoch() > l.epochs.latest() {
		l.epochs.assign(b.LeaderEpoch(), b.BaseOffset())
	}
	marker, err := markerOf(b)
	if err != nil {
		return &DamageError{s.path(logSuffix), position, err.Error()}
	}
	l.producers.update(b, marker)
	if n := len(l.producers.ended); marker != nil && n > 0 {
		if t := l.producers.ended[n-1]; t.aborted && t.marker == b.LastOffset() {
			return s.txns.append(abortedTxn{t.producerID, t.firstOffset, t.marker, l.producers.stableAfter(t)})
		}
	}
	return nil
}
