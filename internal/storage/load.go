package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// LogOptions say what log to open and what is known of its last life.
type LogOptions struct {
	Dir            string // must exist
	TopicPartition TopicPartition
	TopicID        uuid.UUID // zero: not known
	Config         LogConfig
	// Clean says that the log was shut down in order: everything in it is as it was meant. Else everything from RecoveryPoint on is
	// read and checked, and what is not whole is cut off.
	Clean         bool
	RecoveryPoint int64
	StartOffset   int64 // of the checkpoint; 0 if there is none
	// Gapless says that every offset has a record, as in a log that was never compacted and has one writer. Where one segment does
	// not end where the next begins, files were lost in a crash: what lies behind goes, or, where the gap lies below CoveredTo, what
	// lies before. Everything below CoveredTo is kept elsewhere too.
	Gapless   bool
	CoveredTo int64
	// KeepIndexes: see Log.
	KeepIndexes bool
	// OnFailure is told once of an error of the disk, under the log's lock; OnDirty that FlushEpochs has something to do.
	OnFailure func(error)
	OnDirty   func(*Log)
	// OnRetreat is called before a truncation returns that has cut the log below the recovery point that was noted last, or below its
	// start: both have to be noted again.
	OnRetreat func() error
}

// OpenLog opens the log in a folder, which may be empty. Errors are those of the disk, and *DamageError where a log that counts as
// sound is not.
func OpenLog(e env.Env, o LogOptions) (*Log, error) {
	l := &Log{
		env: e, fsys: e.FS(), tp: o.TopicPartition, topicID: o.TopicID, logger: e.Logger(), keepIndexes: o.KeepIndexes,
		onFailure: o.OnFailure, onDirty: o.OnDirty, onRetreat: o.OnRetreat, dir: o.Dir, producers: newProducers(o.Config.ProducerExpiry),
	}
	l.cfg.Store(&o.Config)
	l.undecided.Store(math.MaxInt64)
	l.noted.Store(o.RecoveryPoint)
	l.lastFlush = e.Now().UnixMilli()
	ld := loading{l: l, o: o, now: l.lastFlush, replayed: map[*segment]int64{}}
	if err := ld.run(); err != nil {
		_ = ld.abandon()
		return nil, fmt.Errorf("load log of %s in %s: %w", o.TopicPartition, o.Dir, err)
	}
	return l, nil
}

// loading is a log being opened.
type loading struct {
	l        *Log
	o        LogOptions
	now      int64
	segments []*segment
	end      int64
	replayed map[*segment]int64 // where the recovered segments end
}

func (ld *loading) run() error {
	l := ld.l
	var err error
	if err = ld.list(); err != nil {
		return err
	}
	if l.epochs, err = openLeaderEpochs(l.fsys, l.path(LeaderEpochFile)); err != nil {
		l.logger.Warn("The leader epochs are unreadable and are read from the log again", "partition", l.tp, "err", err)
		l.epochs = &leaderEpochs{fsys: l.fsys, path: l.path(LeaderEpochFile), dirty: true}
		ld.o.Clean, ld.o.RecoveryPoint = false, 0
	}
	l.start.Store(ld.o.StartOffset)
	if err := ld.loadSegments(); err != nil {
		return err
	}
	if err := ld.activate(); err != nil {
		return err
	}
	l.start.Store(max(ld.o.StartOffset, ld.segments[0].base))
	l.epochs.truncateEnd(ld.end)
	l.epochs.truncateStart(l.start.Load())
	l.high.Store(l.start.Load())
	l.recoveryPoint.Store(min(ld.o.RecoveryPoint, ld.end))
	if ld.o.Clean {
		l.recoveryPoint.Store(ld.end)
	}
	l.publish(view{segments: ld.segments, size: ld.segments[len(ld.segments)-1].size.Load(), end: ld.end})
	if err := l.removeSnapshots(func(o int64) bool { return o > ld.end }); err != nil {
		return err
	}
	return l.reloadProducers(ld.end)
}

func (ld *loading) abandon() error {
	var errs []error
	for _, s := range ld.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// list finds the segments, removes what a life before was about to remove, and finishes swaps that were decided.
func (ld *loading) list() error {
	l := ld.l
	entries, err := l.fsys.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", l.dir, err)
	}
	bases := map[int64]bool{}
	var indexes []string
	for _, e := range entries {
		name := e.Name()
		base, isLog := parseOffsetName(strings.TrimSuffix(name, swapSuffix), logSuffix)
		switch {
		case strings.HasSuffix(name, deletedSuffix), strings.HasSuffix(name, cleanedSuffix), strings.HasSuffix(name, truncatedSuffix):
			l.names++
			if err := l.fsys.Remove(l.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) { // the life before may just have done it
				return fmt.Errorf("remove %s: %w", name, err)
			}
		case strings.HasSuffix(name, swapSuffix):
			l.names++
			if err := l.fsys.Rename(l.path(name), l.path(strings.TrimSuffix(name, swapSuffix))); err != nil {
				return fmt.Errorf("finish swap of %s: %w", name, err)
			}
			if isLog {
				bases[base] = true
			}
		case isLog:
			bases[base] = true
		case isIndexName(name):
			indexes = append(indexes, name)
		}
	}
	for _, name := range indexes {
		base, _ := parseOffsetName(strings.TrimSuffix(name, filepath.Ext(name))+logSuffix, logSuffix)
		if !bases[base] {
			l.logger.Warn("Found an orphaned index file, whose segment does not exist", "file", l.path(name))
			l.names++
			if err := l.fsys.Remove(l.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) { // the life before may just have done it
				return fmt.Errorf("remove orphaned index: %w", err)
			}
		}
	}
	for base := range bases {
		ld.segments = append(ld.segments, newSegment(l.fsys, l.dir, base, ld.now))
	}
	slices.SortFunc(ld.segments, func(a, b *segment) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
	return nil
}

func isIndexName(name string) bool {
	for _, suffix := range []string{offsetIndexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if _, ok := parseOffsetName(name, suffix); ok {
			return true
		}
	}
	return false
}

// loadSegments opens all segments; those that may have been written to since the recovery point are recovered.
func (ld *loading) loadSegments() error {
	l := ld.l
	unflushed := 0
	for i := range ld.segments {
		if ld.needsRecovery(i) {
			unflushed++
		}
	}
	recovered := 0
	for i := 0; i < len(ld.segments); i++ {
		s := ld.segments[i]
		info, err := l.fsys.Stat(s.path(logSuffix))
		if err != nil {
			return err
		}
		s.size.Store(info.Size())
		s.createdMs = info.ModTime().UnixMilli()
		recover := ld.needsRecovery(i)
		if !recover {
			if recover, err = ld.openSound(i); err != nil {
				return err
			}
		}
		if !recover {
			continue
		}
		l.logger.Info(fmt.Sprintf("Recovering unflushed segment %d. %d/%d recovered for %s.", s.base, recovered, unflushed, l.tp))
		recovered++
		cut, err := ld.recover(i)
		if err != nil {
			return err
		}
		if i == len(ld.segments)-1 {
			break
		}
		next := ld.segments[i+1].base
		switch follows := !cut && (next == ld.replayed[s] || !ld.o.Gapless); {
		case follows:
		case ld.o.Gapless && next <= ld.o.CoveredTo:
			if err := ld.dropUpTo(i); err != nil {
				return err
			}
			i = -1
		default:
			return ld.dropAfter(i)
		}
	}
	return ld.dropHollow()
}

// dropHollow removes segments at the end that hold nothing and do not begin where the one before them ends: a crash has taken the
// end of that one, but not the name of the next. The log would seem to reach to offsets whose records are lost. (Where the next one
// holds something, compaction may have made the gap.)
func (ld *loading) dropHollow() error {
	for i := len(ld.segments) - 1; i > 0; i-- {
		s := ld.segments[i]
		end, recovered := ld.replayed[ld.segments[i-1]]
		if !recovered || end == s.base || s.size.Load() > 0 {
			return nil
		}
		if err := ld.dropAfter(i - 1); err != nil {
			return err
		}
	}
	return nil
}

// needsRecovery says whether segment i holds something that may not be what was written.
func (ld *loading) needsRecovery(i int) bool {
	if ld.o.Clean {
		return false
	}
	return i == len(ld.segments)-1 || ld.segments[i+1].base > ld.o.RecoveryPoint
}

// openSound opens a segment that is durable. Its indexes are made again if they are missing or cannot be right.
func (ld *loading) openSound(i int) (recover bool, err error) {
	s := ld.segments[i]
	hasOffsets, err1 := s.offsets.exists()
	hasTimes, err2 := s.times.exists()
	if err := errors.Join(err1, err2); err != nil {
		return false, err
	}
	if !hasOffsets || !hasTimes {
		ld.l.logger.Warn("Could not find an index file of a segment; rebuilding its indexes", "file", s.path(logSuffix))
		return true, nil
	}
	if err := errors.Join(s.offsets.load(s.size.Load()), s.times.load()); err != nil {
		return false, err
	}
	var damage *DamageError
	if s.txns, err = openTxnIndex(ld.l.fsys, s.path(txnIndexSuffix), s.base); errors.As(err, &damage) {
		ld.l.logger.Warn("A transaction index is damaged; rebuilding the indexes of its segment", "file", s.path(txnIndexSuffix), "err", err)
		return true, nil
	} else if err != nil {
		return false, err
	}
	if s.checkLastEntry() != nil || s.readMaxTimestamp() != nil || ld.readFirst(s) != nil {
		ld.l.logger.Warn("A segment is not what it should be; it is read as a whole", "file", s.path(logSuffix))
		return true, nil
	}
	return false, nil
}

// checkLastEntry looks whether the last entry of the offset index leads to the batch that it speaks of.
func (s *segment) checkLastEntry() error {
	if s.offsets.count.Load() == 0 {
		return nil
	}
	position, err := s.offsets.lookup(math.MaxInt64)
	if err != nil {
		return err
	}
	last := s.offsets.last.Load()
	err2 := s.scan(position, s.size.Load(), func(h record.Batch, _ int64) bool {
		if h.LastOffset() != last {
			err = &DamageError{s.offsets.path, position, fmt.Sprintf("an entry of offset %d leads to a batch that ends with %d", last, h.LastOffset())}
		}
		return false
	})
	return errors.Join(err, err2)
}

func (ld *loading) readFirst(s *segment) error {
	return s.scan(0, s.size.Load(), func(h record.Batch, _ int64) bool {
		s.firstTimestamp = h.MaxTimestamp()
		return false
	})
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
	f, err := s.handle()
	if err != nil {
		return false, err
	}
	fileSize := s.size.Load()
	if err := s.resetIndexes(ld.o.Config.IndexBytes); err != nil {
		return false, err
	}
	if err := ld.preloadProducers(i); err != nil {
		return false, err
	}
	if ld.needsRecovery(i) { // and so do all behind it; else only the indexes are made again
		l.epochs.truncateEnd(s.base)
	}
	valid, err := ld.replay(s, f, fileSize)
	var damage *DamageError
	if err != nil && !errors.As(err, &damage) {
		return false, err
	}
	s.size.Store(valid)
	if valid < fileSize {
		cut = true
		l.logger.Warn(fmt.Sprintf("Found invalid messages in log segment %s at byte offset %d: discarding the %d bytes from there on", f.Name(), valid, fileSize-valid), "problem", err)
		if err := ld.dropBehindCut(i); err != nil {
			return false, err
		}
		if err := f.Truncate(valid); err != nil {
			return false, fmt.Errorf("truncate %s: %w", f.Name(), err)
		}
	}
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
	for _, x := range []*index{&s.offsets.index, &s.times.index} {
		x.count.Store(0)
		if err := x.trim(); err != nil {
			return err
		}
	}
	s.offsets.last.Store(s.base)
	s.times.last = timestampOffset{-1, s.base}
	return errors.Join(s.offsets.preallocate(indexBytes), s.times.preallocate(indexBytes), s.txns.reset())
}

// replay reads the batches of a segment into its indexes, the leader epochs and the producer state, up to the first that is not
// sound, and returns where that begins.
func (ld *loading) replay(s *segment, f env.File, size int64) (int64, error) {
	l := ld.l
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
	if l.epochs == nil {
		return valid, errors.New("no leader epochs")
	}
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

// activate makes the last segment, or a first one, the one that is written to, and finds the end of the log.
func (ld *loading) activate() error {
	l := ld.l
	if len(ld.segments) == 0 {
		return ld.begin()
	}
	s := ld.segments[len(ld.segments)-1]
	ld.end = s.base
	from, err := s.offsets.lookup(math.MaxInt64)
	if err != nil {
		return err
	}
	err = s.scan(from, s.size.Load(), func(h record.Batch, _ int64) bool {
		ld.end = h.NextOffset()
		return true
	})
	if err != nil {
		return err
	}
	if ld.o.StartOffset > ld.end { // the log was deleted up to a point that was not kept
		l.logger.Warn("The log ends below its start offset; it begins anew there", "partition", l.tp, "end", ld.end, "start", ld.o.StartOffset)
		if err := ld.drop(ld.segments, "Deleting a segment below the start offset"); err != nil {
			return err
		}
		return ld.begin()
	}
	return s.create(ld.o.Config.IndexBytes)
}

// begin makes an empty log. What is left of an older one, of which all segments are gone, says nothing about it.
func (ld *loading) begin() error {
	l := ld.l
	s := newSegment(l.fsys, l.dir, ld.o.StartOffset, ld.now)
	ld.segments, ld.end = []*segment{s}, ld.o.StartOffset
	l.names++
	l.epochs.clear()
	return errors.Join(l.removeSnapshots(func(int64) bool { return true }), s.create(ld.o.Config.IndexBytes))
}

// preloadProducers brings the producer state to the beginning of a segment that is recovered: its transaction index depends on it.
// The snapshot there may have been lost, and once the segments before it are deleted nothing else knows what it says.
func (ld *loading) preloadProducers(i int) error {
	l, base := ld.l, ld.segments[i].base
	from, err := l.loadProducers(ld.segments, base, base)
	if err == nil && from != base && i > 0 {
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
			from = offsets[i]
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
		f, err := s.handle()
		if err != nil {
			return err
		}
		position, err := s.offsets.lookup(from)
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
		if err := errors.Join(err, inner); err != nil {
			return err
		}
	}
	return nil
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

// Close ends the log in order: everything is flushed, and a producer snapshot at the end spares the next life to read the log.
// An error means that the log must be recovered.
func (l *Log) Close() error {
	if err := l.Flush(); err != nil {
		return errors.Join(err, l.closeFiles())
	}
	l.mu.Lock()
	err := l.seal()
	l.mu.Unlock()
	return errors.Join(err, l.closeFiles())
}

// seal writes what a log in order has at its end. mu is held.
func (l *Log) seal() error {
	if l.closed || l.failure != nil {
		return l.failure
	}
	v := l.published
	if err := l.writeSnapshot(v.end); err != nil {
		return err
	}
	if !l.keepIndexes {
		if err := v.active().seal(); err != nil {
			return err
		}
	}
	if err := errors.Join(v.active().offsets.sync(), v.active().times.sync()); err != nil {
		return err
	}
	if err := l.removeSnapshots(func(o int64) bool {
		return o != v.end && !slices.ContainsFunc(v.segments, func(s *segment) bool { return s.base == o })
	}); err != nil {
		return err
	}
	return l.fsys.SyncDir(l.dir)
}

// closeFiles closes the log as it is.
func (l *Log) closeFiles() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	for _, s := range l.published.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
