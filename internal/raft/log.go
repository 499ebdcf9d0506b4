package raft

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// segments is the log of segments below: storage.Log. Offsets are those of the log.
type segments interface {
	StartOffset() int64
	EndOffset() int64
	// LatestEpoch is the epoch of the last record; -1 if there is none.
	LatestEpoch() int32
	// EndOffsetForEpoch gives the largest epoch up to epoch that has records, and where its records end; -1, -1 if there
	// is none.
	EndOffsetForEpoch(epoch int32) (int32, int64)
	// AppendAsLeader appends one batch that has its offset and epoch; AppendAsFollower several.
	AppendAsLeader(b []byte, epoch int32) error
	AppendAsFollower(b []byte) error
	Flush() error
	// Read gives whole batches from the one that holds offset on: at least one, up to maxBytes. It is empty at the end.
	Read(offset int64, maxBytes int) (Region, error)
	TruncateTo(offset int64) error
	TruncateFullyAndStartAt(offset int64) error
	// AdvanceStart moves the start; segments that lie wholly below it are deleted.
	AdvanceStart(offset int64) error
	Size() int64 // bytes
	Close() error
}

// Region is a run of bytes in a file, or in memory, until Release.
type Region struct {
	Part    env.Part
	Release func()
}

// Bytes reads a region.
func (r Region) Bytes() ([]byte, error) {
	if r.Part.File == nil {
		return r.Part.Bytes, nil
	}
	b := make([]byte, r.Part.Length)
	if _, err := r.Part.File.ReadAt(b, r.Part.Offset); err != nil {
		return nil, err
	}
	return b, nil
}

// position is an end of a log: the offset behind its last record, and that record's epoch.
type position struct {
	epoch  int32
	offset int64
}

// atLeast compares as elections do: epoch first.
func (p position) atLeast(q position) bool {
	return p.epoch > q.epoch || p.epoch == q.epoch && p.offset >= q.offset
}

// metadataLog is the log with its snapshots. The quorum's queue changes it; reading is for any goroutine.
type metadataLog struct {
	segments
	fsys env.FS
	dir  string

	mu        sync.Mutex
	snapshots []SnapshotID // rising
}

// loadSnapshots lists the snapshots in the folder and removes what is left of unfinished and deleted ones, and those
// below the start of the log.
func (l *metadataLog) loadSnapshots() (removed []string, err error) {
	entries, err := l.fsys.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	start := l.StartOffset()
	for _, e := range entries {
		name := e.Name()
		id, ok := ParseSnapshotName(name)
		unneeded := ok && id.EndOffset < start || strings.HasSuffix(name, snapshotSuffix+partSuffix) || strings.HasSuffix(name, snapshotSuffix+deletedSuffix)
		switch {
		case unneeded:
			if err := l.fsys.Remove(filepath.Join(l.dir, name)); err != nil {
				return removed, fmt.Errorf("remove old snapshot: %w", err)
			}
			removed = append(removed, name)
		case ok:
			l.snapshots = append(l.snapshots, id)
		}
	}
	slices.SortFunc(l.snapshots, compareSnapshots)
	if n := len(l.snapshots); start > 0 && (n == 0 || l.snapshots[n-1].EndOffset < start) {
		return removed, fmt.Errorf("the log in %s starts at offset %d and there is no snapshot from there on", l.dir, start)
	}
	return removed, nil
}

func compareSnapshots(a, b SnapshotID) int {
	switch {
	case a == b:
		return 0
	case a.less(b):
		return -1
	}
	return 1
}

// committed is an offset below which everything is known to be committed, without asking anybody: snapshots hold nothing
// else.
func (l *metadataLog) committed() int64 {
	id, _ := l.latestSnapshot()
	return id.EndOffset
}

// latestSnapshot is the newest snapshot.
func (l *metadataLog) latestSnapshot() (SnapshotID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.snapshots); n > 0 {
		return l.snapshots[n-1], true
	}
	return SnapshotID{}, false
}

func (l *metadataLog) earliestSnapshot() (SnapshotID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.snapshots) > 0 {
		return l.snapshots[0], true
	}
	return SnapshotID{}, false
}

func (l *metadataLog) hasSnapshot(id SnapshotID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.snapshots, id)
}

func (l *metadataLog) addSnapshot(id SnapshotID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.snapshots, id) {
		l.snapshots = append(l.snapshots, id)
		slices.SortFunc(l.snapshots, compareSnapshots)
	}
}

// forgetSnapshotsBefore takes the snapshots before id off the list.
func (l *metadataLog) forgetSnapshotsBefore(id SnapshotID) []SnapshotID {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.snapshots) && l.snapshots[n].less(id) {
		n++
	}
	old := slices.Clone(l.snapshots[:n])
	l.snapshots = l.snapshots[n:]
	return old
}

// lastEpoch is the epoch of the last record in log or snapshot, 0 in the beginning.
func (l *metadataLog) lastEpoch() int32 {
	if e := l.LatestEpoch(); e >= 0 {
		return e
	}
	if id, ok := l.latestSnapshot(); ok && id.EndOffset == l.StartOffset() {
		return id.Epoch
	}
	return 0
}

// end is what votes compare.
func (l *metadataLog) end() position { return position{l.lastEpoch(), l.EndOffset()} }

// endOf is where the records of an epoch, or of the one before it, end.
func (l *metadataLog) endOf(epoch int32) position {
	e, end := l.EndOffsetForEpoch(epoch)
	if first, ok := l.earliestSnapshot(); ok && e < 0 && first.EndOffset == l.StartOffset() && first.Epoch <= epoch {
		return position{first.Epoch, first.EndOffset}
	}
	if e < 0 {
		return l.end()
	}
	return position{e, end}
}

// place is how the end of a follower's log lies to ours.
type place int

const (
	valid    place = iota // the follower's log is a prefix of ours
	diverged              // it is not; it must be truncated
	below                 // we have no log that far back; it needs a snapshot
)

// validate says how a follower whose log ends at offset with a record of epoch stands: what it must truncate to, or
// which snapshot it needs.
func (l *metadataLog) validate(offset int64, epoch int32) (place, position) {
	start := l.StartOffset()
	if start == 0 && offset == 0 && epoch == 0 {
		return valid, position{}
	}
	if first, ok := l.earliestSnapshot(); ok && (offset < start || offset == start && start > 0 && epoch != first.Epoch || epoch < first.Epoch) {
		last, _ := l.latestSnapshot()
		return below, position{last.Epoch, last.EndOffset}
	}
	if end := l.endOf(epoch); end.epoch != epoch || end.offset < offset {
		return diverged, end
	}
	return valid, position{epoch, offset}
}

// startsAtSnapshot empties the log if the newest snapshot is ahead of it, as after a snapshot was fetched and the node
// stopped, and reports the snapshots that are obsolete.
func (l *metadataLog) truncateToLatestSnapshot() (bool, []SnapshotID, error) {
	id, ok := l.latestSnapshot()
	if !ok {
		return false, nil, nil
	}
	last := int32(0)
	if e := l.LatestEpoch(); e >= 0 {
		last = e
	}
	if id.Epoch > last || id.Epoch == last && id.EndOffset > l.EndOffset() {
		if err := l.TruncateFullyAndStartAt(id.EndOffset); err != nil {
			return false, nil, err
		}
		return true, l.forgetSnapshotsBefore(id), nil
	}
	return false, nil, nil
}

// startAtEarliestSnapshot moves the start of a log that was cleaned to its first snapshot. Where the log begins is written
// nowhere: when it is opened it begins with its first segment, which may begin earlier, and of which the file of leader
// epochs then says too little.
func (l *metadataLog) startAtEarliestSnapshot() error {
	first, ok := l.earliestSnapshot()
	if !ok || first.EndOffset <= l.StartOffset() || first.EndOffset > l.EndOffset() {
		return nil
	}
	return l.AdvanceStart(first.EndOffset)
}

// markDeleted renames snapshots so that nobody takes them for ones; remove takes them away.
func (l *metadataLog) markDeleted(ids []SnapshotID) error {
	for _, id := range ids {
		name := SnapshotPath(l.dir, id)
		if err := l.fsys.Rename(name, name+deletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete snapshot %s: %w", id, err)
		}
	}
	return nil
}

func (l *metadataLog) removeDeleted(ids []SnapshotID) error {
	var errs []error
	for _, id := range ids {
		if err := l.fsys.Remove(SnapshotPath(l.dir, id) + deletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete snapshot %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// eachBatch calls fn for every whole batch of b in order.
func eachBatch(b []byte, fn func(record.Batch) error) error {
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if errors.Is(err, record.ErrShort) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(batch); err != nil {
			return err
		}
		b = rest
	}
	return nil
}
