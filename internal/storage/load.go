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
	// Files are shared with other logs; nil: the log has a bound of its own.
	Files *OpenFiles
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
		env: e, fsys: e.FS(), files: o.Files, tp: o.TopicPartition, topicID: o.TopicID, logger: e.Logger(), keepIndexes: o.KeepIndexes,
		onFailure: o.OnFailure, onDirty: o.OnDirty, onRetreat: o.OnRetreat, dir: o.Dir, producers: newProducers(o.Config.ProducerExpiry),
	}
	if l.files == nil {
		l.files = NewOpenFiles(l.fsys, 0)
	}
	l.cfg.Store(&o.Config)
	l.undecided.Store(math.MaxInt64)
	l.cleaned.Store(-1)
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
	names    []string           // of the files, sorted
	reread   bool               // all segments are read, for the leader epochs
}

func (ld *loading) run() error {
	l := ld.l
	var err error
	if err = ld.list(); err != nil {
		return err
	}
	l.epochs = &leaderEpochs{fsys: l.fsys, path: l.path(LeaderEpochFile)}
	if ld.has(LeaderEpochFile) {
		if l.epochs, err = openLeaderEpochs(l.fsys, l.path(LeaderEpochFile)); err != nil {
			l.logger.Warn("The leader epochs are unreadable and are read from the log again", "partition", l.tp, "err", err)
			l.epochs = &leaderEpochs{fsys: l.fsys, path: l.path(LeaderEpochFile), dirty: true}
			ld.reread = true
		}
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
	entries, err := l.finishSwaps()
	if err != nil {
		return err
	}
	bases := map[int64]bool{}
	var indexes []string
	ld.names = make([]string, len(entries))
	for i, e := range entries {
		name := e.Name()
		ld.names[i] = name
		base, isLog := parseOffsetName(name, logSuffix)
		switch {
		case strings.HasSuffix(name, deletedSuffix), strings.HasSuffix(name, truncatedSuffix):
			l.names++
			if err := l.fsys.Remove(l.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) { // the life before may just have done it
				return fmt.Errorf("remove %s: %w", name, err)
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
		ld.segments = append(ld.segments, newSegment(l.files, l.dir, base, ld.now))
	}
	slices.SortFunc(ld.segments, func(a, b *segment) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
	return nil
}

// has says that a file was there when the folder was listed.
func (ld *loading) has(name string) bool {
	_, ok := slices.BinarySearch(ld.names, name)
	return ok
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
		s.found(info.Size())
		s.createdMs = info.ModTime().UnixMilli()
		if !ld.needsRecovery(i) {
			if err := ld.openSound(s); err != nil {
				return err
			}
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

// activate makes the last segment, or a first one, the one that is written to, and finds the end of the log.
func (ld *loading) activate() error {
	l := ld.l
	if len(ld.segments) == 0 {
		return ld.begin()
	}
	s := ld.segments[len(ld.segments)-1]
	if err := ld.findEnd(s); err != nil {
		return err
	}
	if ld.o.StartOffset > ld.end { // the log was deleted up to a point that was not kept
		l.logger.Warn("The log ends below its start offset; it begins anew there", "partition", l.tp, "end", ld.end, "start", ld.o.StartOffset)
		if err := ld.drop(ld.segments, "Deleting a segment below the start offset"); err != nil {
			return err
		}
		return ld.begin()
	}
	s.limitIndexes(ld.o.Config.IndexBytes)
	return nil
}

// findEnd finds the end of the log in its last segment. A stop in order has noted it, with a producer snapshot there: then nothing
// needs to be read.
func (ld *loading) findEnd(s *segment) error {
	p := ld.o.RecoveryPoint
	switch end, replayed := ld.replayed[s]; {
	case replayed:
		ld.end = end
		return nil
	case s.size.Load() == 0:
		ld.end = s.base
		return nil
	case ld.o.Clean && p > s.base && ld.has(offsetName(p, snapshotSuffix)):
		ld.end = p
		return nil
	}
	var err error
	ld.end, err = s.ensure()
	return err
}

// begin makes an empty log. What is left of an older one, of which all segments are gone, says nothing about it.
func (ld *loading) begin() error {
	l := ld.l
	s := newSegment(l.files, l.dir, ld.o.StartOffset, ld.now)
	ld.segments, ld.end = []*segment{s}, ld.o.StartOffset
	l.names++
	l.epochs.clear()
	l.snapshotted = -1
	return errors.Join(l.removeSnapshots(func(int64) bool { return true }), s.create(ld.o.Config.IndexBytes))
}

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

// seal writes what a log in order has at its end. Of a log to which nothing was done since it was opened no file is opened. mu is held.
func (l *Log) seal() error {
	if l.closed || l.failure != nil {
		return l.failure
	}
	v := l.published
	if l.snapshotted != v.end {
		if err := l.writeSnapshot(v.end); err != nil {
			return err
		}
	}
	if s := v.active(); s.known { // else it is as the last life sealed it
		if !l.keepIndexes {
			if err := s.seal(); err != nil {
				return err
			}
		}
		if err := errors.Join(s.offsets.sync(), s.times.sync()); err != nil {
			return err
		}
	}
	l.sealed = true
	if l.names == l.synced {
		return nil
	}
	if err := l.removeSnapshots(func(o int64) bool {
		return o != v.end && !slices.ContainsFunc(v.segments, func(s *segment) bool { return s.base == o })
	}); err != nil {
		return err
	}
	return l.syncNames()
}

// closeFiles closes the log as it is.
func (l *Log) closeFiles() error {
	l.cleanMu.Lock()
	defer l.cleanMu.Unlock()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	if l.cleaning != nil {
		errs = append(errs, l.cleaning.discard())
	}
	for _, s := range l.published.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
