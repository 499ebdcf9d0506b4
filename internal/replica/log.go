package replica

import (
	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/uuid"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Log is what a partition asks of its log on disk. Offsets are those of records; end offsets are behind the
// last one: start <= high watermark <= end, last stable offset <= high watermark. Methods may be called from
// any goroutine; those that only look do not wait for an append.
type Log interface {
	StartOffset() int64
	EndOffset() int64
	HighWatermark() int64
	// LastStableOffset is where the first open transaction begins, or the high watermark.
	LastStableOffset() int64
	// SetHighWatermark moves the high watermark; it is at most the end.
	SetHighWatermark(offset int64)

	// AppendAsLeader checks batches and appends them with the next offsets and the epoch, all or none. Headers
	// are changed in place; b is not kept. Errors: *record.Error, and protocol errors about sequences,
	// producer epochs and sizes; all else means that the directory failed.
	AppendAsLeader(b []byte, leaderEpoch int32, o AppendOptions) (AppendInfo, error)
	// Read finds whole batches from the one with offset on: up to maxBytes, but at least one if minOne, and
	// none that has offsets at or above upTo. start <= offset < upTo <= end.
	Read(offset int64, maxBytes int, minOne bool, upTo int64) (Slice, error)
	// AbortedTxns are those with records in [from, to), in the order of the index.
	AbortedTxns(from, to int64) []AbortedTxn

	// OffsetForTimestamp finds the first record at or after start whose timestamp is at least ms.
	OffsetForTimestamp(ms int64) (TimestampOffset, bool, error)
	// MaxTimestamp finds the first record with the largest timestamp.
	MaxTimestamp() (TimestampOffset, bool, error)
	// EndOffsetForEpoch gives the largest epoch up to epoch that the log knows, and where it ended; -1, -1 if
	// there is none.
	EndOffsetForEpoch(epoch int32) (int32, int64)
	// EpochAt is the leader epoch of the record at offset, -1 if it is not known.
	EpochAt(offset int64) int32
	// AssignEpochStart notes that an epoch begins at offset, if it is newer than the last.
	AssignEpochStart(epoch int32, offset int64) error

	// AdvanceStart moves the start to offset, if that is forward and at most the high watermark; else
	// OffsetOutOfRange, if it is above the high watermark.
	AdvanceStart(offset int64) error
	// Deletable says that cleanup.policy contains delete.
	Deletable() bool
	Producers() []Producer
	Size() int64 // bytes
}

// Logs are the log directories of the node.
type Logs interface {
	// Open returns the log of a partition, and makes it if there is none: in the directory that is named, or in
	// the best. Its high watermark is the one last noted. A log of another topic id is in the way: InconsistentTopicID.
	Open(tp TopicPartition, topicID, directory uuid.UUID, settings config.Topic) (Log, error)
	// Configure changes the settings of the logs of a topic.
	Configure(topic string, settings config.Topic)
	// Delete removes a log; its files go later.
	Delete(tp TopicPartition) error
	// NoteHighWatermarks writes the high watermarks of all logs into the directories' checkpoints.
	NoteHighWatermarks() error
	// Directories describes all directories.
	Directories() []Directory
}

// Directory is one log directory.
type Directory struct {
	Path          string
	Err           error // it is offline
	Total, Usable int64 // bytes of its volume
	Cordoned      bool
	Logs          []DirectoryLog // sorted by topic and partition
}

// DirectoryLog is a log in a directory.
type DirectoryLog struct {
	TopicPartition
	Size   int64
	Future bool
	Log    Log
}

// Origin says who wrote a batch.
type Origin int8

// Who may write.
const (
	FromClient Origin = iota
	FromCoordinator
)

// AppendOptions say how to check batches.
type AppendOptions struct {
	Origin Origin
	// ProduceVersion is the version of the request, for the rules that depend on it; 0 for coordinators.
	ProduceVersion int16
}

// AppendInfo is what an append did.
type AppendInfo struct {
	BaseOffset, LastOffset int64
	// AppendTime is the broker's time in ms if the topic's timestamps are the log's, else -1.
	AppendTime int64
	// Duplicate says that an idempotent producer sent this before; offsets are those of then.
	Duplicate bool
}

// RecordProblem is what is wrong with one record of a refused batch (KIP-467).
type RecordProblem struct {
	Index   int32
	Message string
}

// RefusedError is a batch that was refused because of its records; it wraps the *record.Error.
type RefusedError struct {
	Cause   *record.Error
	Records []RecordProblem
}

func (e *RefusedError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// Slice is a region of a log's file. It stays as it is until Release, whatever happens to the log.
type Slice struct {
	File env.File
	Pos  int64
	Len  int
	// Next is an offset above those of all records in the region.
	Next int64
	Pin  Pin
}

// Pin keeps a region in place.
type Pin interface{ Unpin() }

// Release gives the region up.
func (s Slice) Release() {
	if s.Pin != nil {
		s.Pin.Unpin()
	}
}

// Bytes reads the region.
func (s Slice) Bytes() ([]byte, error) {
	b := make([]byte, s.Len)
	if s.Len > 0 {
		if _, err := s.File.ReadAt(b, s.Pos); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// AbortedTxn is a transaction that was aborted.
type AbortedTxn struct {
	ProducerID, FirstOffset int64
}

// TimestampOffset is a record's place and time.
type TimestampOffset struct {
	Timestamp, Offset int64
	LeaderEpoch       int32
}

// Producer is what a log knows of an idempotent producer.
type Producer struct {
	ID               int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64
	CoordinatorEpoch int32
	TxnStart         int64 // -1: none
}
