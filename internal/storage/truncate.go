package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
)

// TruncateTo removes everything at and above offset. A batch that reaches above it goes as a whole. What was removed stays removed
// after a crash: else it might come back among what is appended next.
func (l *Log) TruncateTo(offset int64) error {
	return l.retreat(func(v view) error {
		switch {
		case offset >= v.end:
			// There may be an epoch at the end in which this replica led and wrote nothing. It is not the leader's.
			l.epochs.truncateEnd(offset)
			return l.epochs.flush()
		case offset <= v.segments[0].base:
			return l.restartAt(offset)
		}
		l.logger.Info(fmt.Sprintf("Truncating %s to offset %d", l.tp, offset))
		return l.truncate(v, offset)
	})
}

// retreat runs a truncation. A recovery point that was noted above the new end would vouch for what is appended next, and a start
// hide it.
func (l *Log) retreat(truncate func(v view) error) error {
	l.cleanMu.Lock()
	defer l.cleanMu.Unlock()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	if l.failure != nil || l.closed {
		defer l.mu.Unlock()
		return l.unusable()
	}
	l.cuts++
	start := l.start.Load()
	err := l.check(truncate(l.published))
	stale := l.recoveryPoint.Load() < l.noted.Load() || l.start.Load() < start
	if end := l.published.end; end < l.cleaned.Load() {
		l.cleaned.Store(end)
		stale = true
	}
	l.mu.Unlock()
	if err == nil && stale && l.onRetreat != nil {
		err = l.onRetreat()
	}
	return err
}

func (l *Log) truncate(v view, offset int64) error {
	keep := v.find(offset)
	if v.segments[keep].base == offset {
		keep-- // it would be empty
	}
	s := v.segments[keep]
	size, _ := v.bounds(keep)
	position, end, found, err := s.locate(offset, size)
	if err != nil {
		return err
	}
	if !found {
		position, end = size, offset
	}
	l.start.Store(min(l.start.Load(), end))
	l.high.Store(min(l.high.Load(), end))
	l.recoveryPoint.Store(min(l.recoveryPoint.Load(), end))
	l.retract(view{segments: slices.Clone(v.segments[:keep+1]), size: position, end: end})
	if err := l.removeLast(v.segments[keep+1:], end); err != nil {
		return err
	}
	if found {
		if err := l.cut(s, position, end); err != nil {
			return err
		}
	}
	s.limitIndexes(l.cfg.Load().IndexBytes)
	l.epochs.truncateEnd(end)
	if err := l.epochs.flush(); err != nil {
		return err
	}
	return l.reloadProducers(end)
}

// removeLast removes segments at the end of the log and the producer snapshots behind end, one after the other: whatever a crash
// leaves of them has no gap.
func (l *Log) removeLast(segments []*segment, end int64) error {
	for _, s := range slices.Backward(segments) {
		if err := errors.Join(l.removeSegments([]*segment{s}), l.syncNames()); err != nil {
			return err
		}
	}
	return errors.Join(l.removeSnapshots(func(o int64) bool { return o > end }), l.syncNames())
}

// syncNames makes the names in the folder durable. mu is held.
func (l *Log) syncNames() error {
	if l.names == l.synced {
		return nil
	}
	if err := l.fsys.SyncDir(l.dir); err != nil {
		return fmt.Errorf("sync folder %s: %w", l.dir, err)
	}
	l.synced = l.names
	return nil
}

// cut shortens a segment to its first size bytes, behind which the batch with the offset base began.
func (l *Log) cut(s *segment, size, base int64) error {
	copied, err := s.cutFile(size)
	if err != nil {
		return err
	}
	if copied {
		l.names++
		if err := l.syncNames(); err != nil {
			return err
		}
	}
	s.size.Store(size)
	if err := errors.Join(s.offsets.truncate(base), s.times.truncate(base), s.txns.truncate(base)); err != nil {
		return err
	}
	s.found(size)
	if size == 0 {
		s.firstTimestamp, s.sinceIndexed, s.maxTimestamp = -1, 0, timestampOffset{-1, s.base}
		return nil
	}
	_, err = s.ensure()
	return err
}

// cutFile shortens the file of the records for good. Where somebody reads it, a copy takes its place.
func (s *segment) cutFile(size int64) (copied bool, err error) {
	f := &s.log
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.acquireLocked()
	if err != nil {
		return false, err
	}
	defer o.Unpin()
	if o.refs.Load() == 2 { // the segment's and ours
		if err := o.Truncate(size); err != nil {
			return false, fmt.Errorf("truncate segment %s to %d: %w", o.Name(), size, err)
		}
		if err := o.Sync(); err != nil {
			return false, fmt.Errorf("sync segment %s: %w", o.Name(), err)
		}
		return false, nil
	}
	path, fsys := f.path(), s.files.fsys
	next, err := copyFile(fsys, o, path+truncatedSuffix, size)
	if err != nil {
		return false, fmt.Errorf("copy segment %s: %w", path, err)
	}
	if err := fsys.Rename(path+truncatedSuffix, path); err != nil {
		return false, errors.Join(err, next.Close())
	}
	if err := f.closeLocked(); err != nil {
		return false, errors.Join(err, next.Close())
	}
	f.setLocked(next)
	return true, nil
}

func copyFile(fsys env.FS, from env.File, path string, size int64) (env.File, error) {
	to, err := fsys.Open(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<20)
	for at := int64(0); at < size; {
		n := min(size-at, int64(len(buf)))
		if _, err := from.ReadAt(buf[:n], at); err != nil {
			return nil, errors.Join(err, to.Close())
		}
		if _, err := to.WriteAt(buf[:n], at); err != nil {
			return nil, errors.Join(err, to.Close())
		}
		at += n
	}
	if err := to.Sync(); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

// TruncateFullyAndStartAt removes everything; the log is empty at offset.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	return l.retreat(func(view) error { return l.restartAt(offset) })
}

func (l *Log) restartAt(offset int64) error {
	l.logger.Info(fmt.Sprintf("Truncate and start %s at offset %d", l.tp, offset))
	old := l.published.segments
	s := newSegment(l.files, l.dir, offset, l.env.Now().UnixMilli())
	l.start.Store(offset)
	l.high.Store(offset)
	l.recoveryPoint.Store(min(l.recoveryPoint.Load(), offset))
	l.retract(view{segments: []*segment{s}, end: offset})
	l.epochs.clear()
	l.producers.reset()
	l.snapshotted = -1
	l.noteUndecided()
	if err := l.removeLast(old, -1); err != nil {
		return err
	}
	l.names++
	return errors.Join(s.create(l.cfg.Load().IndexBytes), l.epochs.flush(), l.syncNames())
}

// removeSegments takes segments away at once: files are renamed, and removed after the delay of the settings. mu and flushMu are
// held.
func (l *Log) removeSegments(segments []*segment) error {
	if len(segments) == 0 {
		return nil
	}
	l.names++
	for _, s := range segments {
		l.logger.Info(fmt.Sprintf("Deleting segment of %s with base offset %d and size %d", l.tp, s.base, s.size.Load()))
		if err := errors.Join(s.close(), s.markDeleted()); err != nil {
			return err
		}
		l.unsynced = slices.DeleteFunc(l.unsynced, func(u *segment) bool { return u == s })
	}
	segments = slices.Clone(segments)
	l.env.AfterFunc(l.cfg.Load().DeleteDelay, func() {
		for _, s := range segments {
			if err := s.removeMarked(); err != nil {
				l.logger.Warn("Files of a deleted segment stay", "partition", l.tp, "err", err)
			}
		}
	})
	return nil
}

// removeSnapshots removes producer snapshots at offsets that fit.
func (l *Log) removeSnapshots(fits func(offset int64) bool) error {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return err
	}
	for _, o := range offsets {
		if !fits(o) {
			continue
		}
		if err := l.fsys.Remove(l.path(offsetName(o, snapshotSuffix))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove producer snapshot: %w", err)
		}
		l.names++
	}
	return nil
}

// snapshotOffsets are the offsets of the producer snapshots in the folder, rising.
func (l *Log) snapshotOffsets() ([]int64, error) {
	entries, err := l.fsys.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", l.dir, err)
	}
	var out []int64
	for _, e := range entries {
		if o, ok := parseOffsetName(e.Name(), snapshotSuffix); ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// AdvanceStart moves the start forward. What lies below is not read any more, and is deleted with whole segments. Errors:
// OffsetOutOfRange above the high watermark.
func (l *Log) AdvanceStart(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failure != nil || l.closed:
		return l.unusable()
	case offset > l.high.Load():
		return fmt.Errorf("start of %s at %d, above the high watermark %d: %w", l.tp, offset, l.high.Load(), kerr.OffsetOutOfRange)
	case offset <= l.start.Load():
		return nil
	}
	l.start.Store(offset)
	l.epochs.truncateStart(offset)
	if l.onDirty != nil {
		l.onDirty(l)
	}
	l.logger.Info(fmt.Sprintf("Incremented log start offset of %s to %d due to client delete records request", l.tp, offset))
	return nil
}

// DeleteOldSegments removes the segments whose time is over or that lie below the start, and what the log has too much.
func (l *Log) DeleteOldSegments(nowMs int64) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil || l.closed {
		return nil
	}
	cfg := l.cfg.Load()
	n, reason := l.countDeletable(nowMs, cfg)
	if n == 0 {
		return nil
	}
	v := l.published
	if n == len(v.segments) {
		if err := l.roll(v.end, nowMs, cfg); err != nil {
			return l.check(err)
		}
		v = l.published
	}
	l.logger.Info(fmt.Sprintf("Deleting %d segments of %s due to %s", n, l.tp, reason))
	return l.check(l.dropFirst(v, n))
}

// dropFirst deletes the first n segments; others follow.
func (l *Log) dropFirst(v view, n int) error {
	rest := slices.Clone(v.segments[n:])
	base := rest[0].base
	if base > l.start.Load() {
		l.start.Store(base)
		l.epochs.truncateStart(base)
	}
	l.retract(view{segments: rest, size: v.size, end: v.end})
	if err := l.removeSegments(v.segments[:n]); err != nil {
		return err
	}
	if err := l.removeSnapshots(func(o int64) bool { return o < base }); err != nil {
		return err
	}
	return l.epochs.flush()
}

// countDeletable is how many of the first segments can go, and why. Only what is committed can.
func (l *Log) countDeletable(nowMs int64, cfg *LogConfig) (int, string) {
	v := l.published
	excess := int64(-1)
	if cfg.Delete && cfg.RetentionBytes >= 0 {
		excess = v.bytes() - cfg.RetentionBytes
	}
	reasons := map[string]bool{}
	n := 0
	for i, s := range v.segments {
		size, end := v.bounds(i)
		last := i == len(v.segments)-1
		if end > l.high.Load() || last && size == 0 {
			break
		}
		reason := ""
		switch {
		case end <= l.start.Load() && !last:
			reason = "log start offset breach"
		case cfg.Delete && cfg.RetentionMs >= 0 && l.expired(s, nowMs, cfg):
			reason = "log retention time breach"
		case excess >= size && size > 0:
			reason = "log retention size breach"
		}
		if reason == "" {
			break
		}
		reasons[reason] = true
		excess -= size
		n++
	}
	names := make([]string, 0, len(reasons))
	for r := range reasons {
		names = append(names, r)
	}
	slices.Sort(names)
	return n, fmt.Sprint(names)
}

// expired says that retention.ms is over since the largest timestamp of the records, or since the segment was made if they have none.
func (l *Log) expired(s *segment, nowMs int64, cfg *LogConfig) bool {
	if _, err := s.ensure(); err != nil {
		l.logger.Error("A segment is kept because the time of its records cannot be read", "partition", l.tp, "err", err)
		return false
	}
	t := s.maxTimestamp.timestamp
	if t < 0 {
		t = s.createdMs
	}
	return nowMs-t > cfg.RetentionMs
}
