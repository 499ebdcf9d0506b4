package group

import (
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/record"
)

// Config is the coordinator's settings, typed. The names are Kafka's keys.
type Config struct {
	OffsetsTopicPartitions int32 // offsets.topic.num.partitions: until the topic is there
	MinSessionTimeoutMs    int32 // group.min.session.timeout.ms
	MaxSessionTimeoutMs    int32 // group.max.session.timeout.ms

	InitialRebalanceDelayMs int32 // group.initial.rebalance.delay.ms
	MaxSize                 int32 // group.max.size
	OffsetMetadataMaxBytes  int   // offset.metadata.max.bytes, in UTF-16 code units as Kafka counts

	OffsetsRetention       time.Duration // offsets.retention.minutes
	RetentionCheckInterval time.Duration // offsets.retention.check.interval.ms
	CommitTimeout          time.Duration // offsets.commit.timeout.ms
	LoadBufferSize         int           // offsets.load.buffer.size, bytes
	Compression            record.Compression

	ConsumerSessionTimeout time.Duration // group.consumer.session.timeout.ms
}

// NewConfig reads the settings of a node.
func NewConfig(n *config.Node) Config {
	return Config{
		OffsetsTopicPartitions:  int32(n.Int("offsets.topic.num.partitions")),
		MinSessionTimeoutMs:     int32(n.Int("group.min.session.timeout.ms")),
		MaxSessionTimeoutMs:     int32(n.Int("group.max.session.timeout.ms")),
		InitialRebalanceDelayMs: int32(n.Int("group.initial.rebalance.delay.ms")),
		MaxSize:                 int32(n.Int("group.max.size")),
		OffsetMetadataMaxBytes:  n.Int("offset.metadata.max.bytes"),
		OffsetsRetention:        time.Duration(n.Long("offsets.retention.minutes")) * time.Minute,
		RetentionCheckInterval:  time.Duration(n.Long("offsets.retention.check.interval.ms")) * time.Millisecond,
		CommitTimeout:           time.Duration(n.Long("offsets.commit.timeout.ms")) * time.Millisecond,
		LoadBufferSize:          n.Int("offsets.load.buffer.size"),
		Compression:             record.Compression(n.Int("offsets.topic.compression.codec")),
		ConsumerSessionTimeout:  time.Duration(n.Long("group.consumer.session.timeout.ms")) * time.Millisecond,
	}
}
