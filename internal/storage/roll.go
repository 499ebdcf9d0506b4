package storage

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/ottla-io/ottla/internal/record"
)

// maybeRoll begins a new segment if b does not belong into the active one. mu is held.
func (l *Log) maybeRoll(b record.Batch, nowMs int64, cfg *LogConfig) error {
	v := l.published
	s := v.active()
	if err := l.ensureActive(v); err != nil {
		return err
	}
	size := s.size.Load()
	full := size > int64(cfg.SegmentBytes)-int64(len(b))
	switch {
	case b.LastOffset()-s.base > math.MaxInt32:
	case size == 0:
		return nil
	case full, l.tooOld(s, b, nowMs, cfg):
	default:
		if indexFull, err := s.indexFull(); err != nil || !indexFull {
			return err
		}
	}
	// A leader whose log was compacted may leave out more offsets than a segment can hold.
	return l.roll(max(v.end, b.BaseOffset()), nowMs, cfg)
}

// ensureActive looks at the segment that is written to before the first append of this life: it ends where the log does.
func (l *Log) ensureActive(v view) error {
	s := v.active()
	if s.known {
		return nil
	}
	end, err := s.ensure()
	switch {
	case err != nil:
		return err
	case end > v.end:
		return &DamageError{s.path(logSuffix), s.size.Load(), fmt.Sprintf("its batches end at offset %d, the log ends at %d", end, v.end)}
	case end < v.end && end > s.base: // as after a truncation behind the last batch
		l.logger.Warn("The last segment ends below the end of the log", "file", s.path(logSuffix), "end", end, "logEnd", v.end)
	}
	return nil
}

// tooOld says that a segment has been waiting for so long that it ends: by the clock of the records if they have times, else by ours.
func (l *Log) tooOld(s *segment, b record.Batch, nowMs int64, cfg *LogConfig) bool {
	limit := cfg.SegmentMs - l.jitter(s, cfg)
	if s.firstTimestamp >= 0 {
		return b.MaxTimestamp()-s.firstTimestamp > limit
	}
	return nowMs-s.createdMs > limit
}

// jitter spreads the rolls of many logs; it is the same for a segment each time it is asked for.
func (l *Log) jitter(s *segment, cfg *LogConfig) int64 {
	bound := min(cfg.SegmentJitterMs, cfg.SegmentMs)
	if bound <= 0 {
		return 0
	}
	h := uint64(s.base) + uint64(s.createdMs)*0x9e3779b97f4a7c15
	for _, c := range l.tp.Topic {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return int64((h + uint64(l.tp.Partition)) % uint64(bound))
}

// roll seals the active segment and begins one at base. mu is held.
func (l *Log) roll(base, nowMs int64, cfg *LogConfig) error {
	v := l.published
	old := v.active()
	if old.base == base {
		return fmt.Errorf("roll segment %s: it is empty", old.path(logSuffix))
	}
	if err := old.seal(); err != nil {
		return err
	}
	l.unsynced = append(l.unsynced, old)
	if err := l.writeSnapshot(base); err != nil {
		return err
	}
	next := newSegment(l.files, l.dir, base, nowMs)
	l.names++
	if err := next.create(cfg.IndexBytes); err != nil {
		return err
	}
	v.segments, v.size = append(slices.Clip(v.segments), next), 0
	l.publish(v)
	l.logger.Info(fmt.Sprintf("Rolled new log segment at offset %d of %s", base, l.tp))
	if !l.keepIndexes { // the metadata log is flushed by raft
		l.env.Go("flush-log", func() {
			if err := l.flushTo(base); err != nil {
				l.logger.Error("Flush of a rolled segment failed", "partition", l.tp, "err", err)
			}
		})
	}
	return nil
}

// writeSnapshot writes the producer state at an offset. It becomes durable with the segment before it; if it does not, the state
// is read from the log again.
func (l *Log) writeSnapshot(offset int64) error {
	path := l.path(offsetName(offset, snapshotSuffix))
	f, err := l.fsys.Open(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("create producer snapshot %s: %w", path, err)
	}
	l.names++
	if _, err := f.WriteAt(l.producers.encodeSnapshot(), 0); err != nil {
		return errors.Join(fmt.Errorf("write producer snapshot %s: %w", path, err), f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync producer snapshot %s: %w", path, err), f.Close())
	}
	l.snapshotted = offset
	return f.Close()
}

// Flush makes everything durable that is in the log now. An error is final.
func (l *Log) Flush() error { return l.flushTo(math.MaxInt64) }

// flushTo makes everything below offset durable, without keeping appends waiting.
func (l *Log) flushTo(offset int64) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	if l.failure != nil || l.closed {
		err := l.failure
		l.mu.Unlock()
		return err
	}
	job := l.flushJob(offset)
	l.mu.Unlock()
	err := job.run()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return l.check(err)
	}
	l.flushed(job)
	return l.check(l.epochs.flush())
}

// flushLocked is Flush for who holds mu.
func (l *Log) flushLocked(nowMs int64) error {
	job := l.flushJob(math.MaxInt64)
	if err := job.run(); err != nil {
		return err
	}
	l.flushed(job)
	l.lastFlush = nowMs
	return l.epochs.flush()
}

// flushing is a flush under way.
type flushing struct {
	l      *Log
	sealed []*segment
	active *segment // nil if it is not to be synced
	names  uint64   // changes of names that will be durable
	dir    string   // the folder to be synced; empty if that is not needed
	upTo   int64
}

// flushJob says what has to be synced so that everything below offset is durable. mu is held.
func (l *Log) flushJob(offset int64) flushing {
	v := l.published
	j := flushing{l: l, names: l.names, upTo: min(offset, v.end)}
	if l.names != l.synced {
		j.dir = l.dir
	}
	for _, s := range l.unsynced {
		if s.base < offset {
			j.sealed = append(j.sealed, s)
		}
	}
	if a := v.active(); a.base < j.upTo && l.recoveryPoint.Load() < j.upTo {
		j.active = a
	}
	l.lastFlush = l.env.Now().UnixMilli()
	return j
}

func (j flushing) run() error {
	for _, s := range j.sealed {
		if err := s.sync(); err != nil {
			return err
		}
	}
	if j.active != nil {
		if err := j.active.syncRecords(); err != nil {
			return err
		}
	}
	if j.dir != "" {
		if err := j.l.fsys.SyncDir(j.dir); err != nil {
			return fmt.Errorf("sync folder %s: %w", j.dir, err)
		}
	}
	return nil
}

// flushed takes note of what is durable now. mu is held.
func (l *Log) flushed(j flushing) {
	l.unsynced = slices.DeleteFunc(l.unsynced, func(s *segment) bool { return slices.Contains(j.sealed, s) })
	l.synced = max(l.synced, j.names)
	if j.upTo > l.recoveryPoint.Load() {
		l.recoveryPoint.Store(j.upTo)
	}
}
