package raft

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// CreateSnapshot begins a snapshot of what is committed below id.EndOffset; lastAppendTime is that of the last record in
// it, in milliseconds. It is nil without an error if the snapshot exists, or the log begins later. Any goroutine.
func (q *Quorum) CreateSnapshot(id SnapshotID, lastAppendTime int64) (*SnapshotWriter, error) {
	if start := q.disk.StartOffset(); id.EndOffset < start {
		q.log.Info(fmt.Sprintf("Cannot create a snapshot with an id (%s) less than the log start offset (%d)", id, start))
		return nil, nil
	}
	if q.disk.hasSnapshot(id) {
		return nil, nil
	}
	if hw := q.HighWatermark(); id.EndOffset > hw {
		return nil, fmt.Errorf("create snapshot %s: the high watermark is only %d: %w", id, hw, kerr.InvalidRequest)
	}
	if err := q.checkSnapshotEnd(id); err != nil {
		return nil, fmt.Errorf("create snapshot %s: %w", id, err)
	}
	level, voters := q.history.at(id.EndOffset)
	var random [8]byte
	q.env.Rand().Read(random[:])
	return newSnapshotWriter(q.env.FS(), q.disk.dir, id, SnapshotHead{lastAppendTime, level, voters}, snapshotOptions{
		suffix: hex.EncodeToString(random[:]), maxBatch: q.cfg.MaxBatchBytes,
		clock: func() int64 { return q.env.Now().UnixMilli() },
		onFrozen: func(id SnapshotID) {
			q.disk.addSnapshot(id)
			q.post(snapshotFrozen{id})
		},
	})
}

// checkSnapshotEnd: a snapshot ends where a batch ends, and its epoch is that of the record before.
func (q *Quorum) checkSnapshotEnd(id SnapshotID) error {
	if where, at := q.disk.validate(id.EndOffset, id.Epoch); where != valid {
		return fmt.Errorf("no record of that epoch ends there, but epoch %d at offset %d", at.epoch, at.offset)
	}
	if id.EndOffset == q.disk.EndOffset() {
		return nil
	}
	region, err := q.disk.Read(id.EndOffset, 1)
	if err != nil {
		return err
	}
	defer region.Release()
	b, err := region.Bytes()
	if err != nil {
		return err
	}
	errStop := errors.New("seen")
	err = eachBatch(b, func(b record.Batch) error {
		if b.BaseOffset() != id.EndOffset {
			return fmt.Errorf("that is inside the batch at offset %d", b.BaseOffset())
		}
		return errStop
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

type snapshotFrozen struct{ id SnapshotID }

func (snapshotFrozen) event() string { return "snapshot-frozen" }

func (q *Quorum) onSnapshotFrozen(ev snapshotFrozen) {
	q.log.Info(fmt.Sprintf("Snapshot %s is complete", ev.id))
	q.onClean()
}

type clean struct{}

func (clean) event() string { return "clean" }

// onClean forgets what is older than the settings allow: while there are two snapshots, and log and snapshots together
// are too large or the oldest is too old, the log begins at the second-oldest. The time for the next look is when the
// oldest will be too old.
func (q *Quorum) onClean() {
	if q.cleaner != nil {
		q.cleaner.Stop()
		q.cleaner = nil
	}
	for !q.failed {
		q.disk.mu.Lock()
		snapshots := append([]SnapshotID(nil), q.disk.snapshots...)
		q.disk.mu.Unlock()
		if len(snapshots) < 2 || snapshots[1].EndOffset > q.highWatermark {
			return
		}
		reason, wait, err := q.tooMuch(snapshots)
		if err != nil {
			q.log.Error("clean metadata log", "err", err)
			return
		}
		if reason == "" {
			if wait > 0 {
				q.cleaner = q.queue.After(wait, "clean", func() { q.Handle(clean{}) })
			}
			return
		}
		q.deleteBefore(snapshots[1], reason)
	}
}

// tooMuch says why the oldest of several snapshots should go, or when it will.
func (q *Quorum) tooMuch(snapshots []SnapshotID) (reason string, wait time.Duration, err error) {
	if q.cfg.RetentionBytes >= 0 {
		total := q.disk.Size()
		for _, id := range snapshots {
			fi, err := q.env.FS().Stat(SnapshotPath(q.disk.dir, id))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return "", 0, err
			}
			total += fi.Size()
		}
		if total > q.cfg.RetentionBytes {
			return fmt.Sprintf("log size retention, %d > %d", total, q.cfg.RetentionBytes), 0, nil
		}
	}
	if q.cfg.Retention < 0 {
		return "", 0, nil
	}
	r, err := OpenSnapshot(q.env.FS(), q.disk.dir, snapshots[0])
	if err != nil {
		return "", 0, err
	}
	age := q.env.Now().Sub(time.UnixMilli(r.LastContainedLogTime()))
	if err := r.Close(); err != nil {
		return "", 0, err
	}
	if age > q.cfg.Retention {
		return fmt.Sprintf("log retention time, the snapshot %s is %d ms old", snapshots[0], age.Milliseconds()), 0, nil
	}
	return "", q.cfg.Retention - age + time.Millisecond, nil
}

// deleteBefore lets the log begin at a snapshot.
func (q *Quorum) deleteBefore(id SnapshotID, reason string) {
	if id.EndOffset > q.disk.StartOffset() {
		if err := q.disk.AdvanceStart(id.EndOffset); err != nil {
			q.fault(fmt.Errorf("delete metadata log before offset %d: %w", id.EndOffset, err))
			return
		}
	}
	old := q.disk.forgetSnapshotsBefore(id)
	if err := q.disk.markDeleted(old); err != nil {
		q.fault(err)
		return
	}
	q.noteWasVoter(id.EndOffset)
	q.history.prune(id.EndOffset)
	for _, o := range old {
		q.log.Info(fmt.Sprintf("Marking snapshot %s for deletion because of %s; the log starts at %d", o, reason, q.disk.StartOffset()))
	}
	q.queue.After(q.cfg.DeleteDelay, "delete-snapshots", func() {
		if err := q.disk.removeDeleted(old); err != nil {
			q.log.Error("delete snapshots", "err", err)
		}
	})
}

func (q *Quorum) dropFetchedSnapshot(f *follower) {
	if f.snapshot != nil {
		if err := errors.Join(f.snapshot.file.Close(), q.env.FS().Remove(f.snapshot.name)); err != nil {
			q.log.Warn("drop snapshot that was being fetched", "file", filepath.Base(f.snapshot.name), "err", err)
		}
		f.snapshot = nil
	}
}
