package raft

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/metadata"
)

// Errors of appending.
var (
	ErrNotLeader     = errors.New("not the leader of the quorum")
	ErrEpochFenced   = errors.New("the epoch of the append is over")
	ErrBatchTooLarge = errors.New("records do not fit into one batch")
)

// NoNode stands for no leader and no vote.
const NoNode int32 = -1

// LeaderAndEpoch is who leads in an epoch; LeaderID is NoNode while that is unknown.
type LeaderAndEpoch struct {
	LeaderID int32
	Epoch    int32
}

// Batch is a batch of committed records, or of a snapshot's. A batch of control records has no Records.
type Batch struct {
	BaseOffset int64
	LastOffset int64
	Epoch      int32
	AppendTime int64 // milliseconds
	Bytes      int
	Records    []metadata.Versioned // shared by all listeners: not to be changed
}

// SnapshotID names a snapshot: it holds everything below EndOffset, and Epoch is that of the last record in it.
type SnapshotID struct {
	EndOffset int64
	Epoch     int32
}

func (id SnapshotID) String() string { return fmt.Sprintf("%020d-%010d", id.EndOffset, id.Epoch) }

func (id SnapshotID) less(other SnapshotID) bool {
	if id.EndOffset != other.EndOffset {
		return id.EndOffset < other.EndOffset
	}
	return id.Epoch < other.Epoch
}

// bootstrapID is the snapshot that format writes: records for the first leader to append, not a state of the log.
var bootstrapID = SnapshotID{}

// Listener is told what is committed and who leads, in order. The calls come on raft's queue: post to your own.
type Listener interface {
	// HandleCommit gives batches that follow what was given before.
	HandleCommit(batches []Batch)
	// HandleLoadSnapshot replaces all state. The listener reads r to its end, on its own queue, or closes it.
	HandleLoadSnapshot(r *SnapshotReader)
	// HandleLoadBootstrap gives the records of the 0-0 snapshot, before anything else, if there is one.
	HandleLoadBootstrap(records []metadata.Versioned)
	// HandleLeaderChange tells of a new leader or epoch. A node learns of its own leadership only after everything
	// from before its epoch.
	HandleLeaderChange(l LeaderAndEpoch)
}
