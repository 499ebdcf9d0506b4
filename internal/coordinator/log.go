package coordinator

import "github.com/ottla-io/ottla/internal/record"

// Log is the leader's end of one partition of the coordinator's topic.
type Log interface {
	// StartOffset, EndOffset and HighWatermark are the partition's, now.
	StartOffset() int64
	EndOffset() int64
	HighWatermark() int64

	// Read returns whole batches from offset on, about maxBytes of them but at least one; empty at the end.
	// The bytes are the caller's.
	Read(offset int64, maxBytes int) ([]byte, error)

	// AppendAsLeader appends one batch if this node leads the partition in leaderEpoch, and returns the offset
	// of its last record. It does not wait for replication: OnHighWatermark tells. An error means that nothing
	// was appended. Errors: NotLeaderOrFollower, NotEnoughReplicas, RecordTooLarge, a storage error.
	AppendAsLeader(leaderEpoch int32, batch record.Batch) (lastOffset int64, err error)

	// OnHighWatermark has fn called, from any goroutine and with no lock held, whenever the high watermark has
	// moved, until remove is called. fn may be called once more while remove runs.
	OnHighWatermark(fn func(highWatermark int64)) (remove func())
}

// Logs finds the log of a partition of the coordinator's topic.
// Errors: NotLeaderOrFollower, UnknownTopicOrPartition, KafkaStorageError.
type Logs interface {
	CoordinatorLog(topic string, partition int32) (Log, error)
}

// Record is a key and a value as they are in the log; a nil value is a tombstone.
type Record struct {
	Key, Value []byte
}
