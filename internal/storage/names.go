package storage

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/uuid"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string { return tp.Topic + "-" + strconv.Itoa(int(tp.Partition)) }

// Compare orders by topic, then partition.
func (tp TopicPartition) Compare(o TopicPartition) int {
	return cmp.Or(strings.Compare(tp.Topic, o.Topic), cmp.Compare(tp.Partition, o.Partition))
}

// Names of files in a log directory.
const (
	MetaPropertiesFile      = "meta.properties"
	CleanShutdownFile       = ".kafka_cleanshutdown"
	LockFile                = ".lock"
	RecoveryPointCheckpoint = "recovery-point-offset-checkpoint"
	HighWatermarkCheckpoint = "replication-offset-checkpoint"
	LogStartCheckpoint      = "log-start-offset-checkpoint"
	CleanerCheckpoint       = "cleaner-offset-checkpoint"
	PartitionMetadataFile   = "partition.metadata"
	LeaderEpochFile         = "leader-epoch-checkpoint"
)

// Suffixes of files in the folder of a partition.
const (
	logSuffix         = ".log"
	offsetIndexSuffix = ".index"
	timeIndexSuffix   = ".timeindex"
	txnIndexSuffix    = ".txnindex"
	snapshotSuffix    = ".snapshot"
	deletedSuffix     = ".deleted"
	cleanedSuffix     = ".cleaned"
	swapSuffix        = ".swap"
	truncatedSuffix   = ".truncated" // ours: the copy that takes the place of a segment which somebody reads
)

// Suffixes of folders.
const (
	deleteDirSuffix = "-delete"
	futureDirSuffix = "-future"
	strayDirSuffix  = "-stray"
)

// maxNameLength is the longest name of a file that common file systems take.
const maxNameLength = 255

// offsetName is the name of a file that begins with, or speaks of, an offset.
func offsetName(offset int64, suffix string) string { return fmt.Sprintf("%020d%s", offset, suffix) }

// parseOffsetName is the reverse of offsetName.
func parseOffsetName(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n >= 0
}

// parsePartitionDir reads the name of a partition's folder.
func parsePartitionDir(name string) (TopicPartition, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || i == len(name)-1 {
		return TopicPartition{}, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 {
		return TopicPartition{}, false
	}
	return TopicPartition{name[:i], int32(n)}, true
}

// markedDir is the name of a partition's folder on its way out: a random id keeps it apart from others. The topic's name is cut
// so that a folder to be deleted has a name that file systems take.
func markedDir(tp TopicPartition, id uuid.UUID, suffix string) string {
	tail := fmt.Sprintf("-%d.%x%s", tp.Partition, id[:], suffix)
	topic := tp.Topic
	if suffix == deleteDirSuffix && len(topic)+len(tail) > maxNameLength {
		topic = topic[:maxNameLength-len(tail)]
	}
	return topic + tail
}
