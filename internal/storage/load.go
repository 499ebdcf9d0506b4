package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/env"
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
