package storage

import (
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/record"
)

// LogConfig are the settings of a topic that concern its logs.
type LogConfig struct {
	SegmentBytes    int   // segment.bytes
	SegmentMs       int64 // segment.ms
	SegmentJitterMs int64 // segment.jitter.ms
	IndexBytes      int   // segment.index.bytes
	IndexInterval   int   // index.interval.bytes
	FlushMessages   int64 // flush.messages
	FlushMs         int64 // flush.ms
	RetentionBytes  int64 // retention.bytes, < 0: no bound
	RetentionMs     int64 // retention.ms, < 0: no bound
	DeleteDelay     time.Duration
	MaxMessageBytes int // max.message.bytes

	Compact, Delete    bool    // cleanup.policy
	MinDirtyRatio      float64 // min.cleanable.dirty.ratio
	MinCompactionLagMs int64   // min.compaction.lag.ms
	MaxCompactionLagMs int64   // max.compaction.lag.ms
	DeleteRetentionMs  int64   // delete.retention.ms, of tombstones
	TimestampType      record.TimestampType
	Before, After      int64 // message.timestamp.{before,after}.max.ms

	// Recompress says that compression.type is not "producer": batches get the codec.
	Recompress bool
	Codec      record.Compression
	Level      int

	// ProducerExpiry is producer.id.expiration.ms of the node.
	ProducerExpiry time.Duration
}

// LogConfigFrom takes what a log needs from the effective settings of its topic.
func LogConfigFrom(t config.Topic, producerExpiry time.Duration) LogConfig {
	c := LogConfig{
		SegmentBytes: t.Int("segment.bytes"), SegmentMs: t.Long("segment.ms"), SegmentJitterMs: t.Long("segment.jitter.ms"),
		IndexBytes: t.Int("segment.index.bytes"), IndexInterval: t.Int("index.interval.bytes"),
		FlushMessages: t.Long("flush.messages"), FlushMs: t.Long("flush.ms"),
		RetentionBytes: t.Long("retention.bytes"), RetentionMs: t.Long("retention.ms"),
		DeleteDelay:     time.Duration(t.Long("file.delete.delay.ms")) * time.Millisecond,
		MaxMessageBytes: t.Int("max.message.bytes"),
		Before:          t.Long("message.timestamp.before.max.ms"), After: t.Long("message.timestamp.after.max.ms"),
		MinDirtyRatio: t.Double("min.cleanable.dirty.ratio"), DeleteRetentionMs: t.Long("delete.retention.ms"),
		MinCompactionLagMs: t.Long("min.compaction.lag.ms"), MaxCompactionLagMs: t.Long("max.compaction.lag.ms"),
		ProducerExpiry: producerExpiry,
	}
	if b := t.Int("internal.segment.bytes"); b > 0 {
		c.SegmentBytes = b
	}
	policy := t.List("cleanup.policy")
	c.Compact, c.Delete = slices.Contains(policy, "compact"), slices.Contains(policy, "delete")
	if t.String("message.timestamp.type") == "LogAppendTime" {
		c.TimestampType = record.LogAppendTime
	}
	c.compression(t)
	return c
}

func (c *LogConfig) compression(t config.Topic) {
	name := t.String("compression.type")
	switch name {
	case "producer":
		return
	case "uncompressed":
		name = "none"
	}
	codec, err := record.ParseCompression(name)
	if err != nil {
		return // refused where it is set
	}
	c.Recompress, c.Codec, c.Level = true, codec, record.DefaultLevel
	switch codec {
	case record.Gzip, record.LZ4, record.Zstd:
		c.Level = t.Int("compression." + name + ".level")
	case record.None, record.Snappy:
	}
}
