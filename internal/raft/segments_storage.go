package raft

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// What Kafka's metadata log has, whatever a topic's settings are.
const (
	metadataIndexBytes    = 10 << 20
	metadataIndexInterval = 4096
)

// storageSegments is a log of internal/storage with the rules of the metadata log.
type storageSegments struct {
	*storage.Log
	env env.Env
}

// openSegments opens the metadata log. It is in no checkpoint file: after a crash as after an orderly stop all of it is read.
func openSegments(e env.Env, cfg *Config) (segments, error) {
	dir := cfg.LogDir()
	if err := e.FS().MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of the metadata log: %w", err)
	}
	id, err := storage.ReadPartitionMetadata(e.FS(), dir)
	if err == nil && id.IsZero() {
		err = storage.WritePartitionMetadata(e.FS(), dir, uuid.Metadata)
	}
	if err == nil {
		err = e.FS().SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return nil, err
	}
	if !id.IsZero() && id != uuid.Metadata {
		return nil, fmt.Errorf("%s has the topic id %s, that of the metadata log is %s", dir, id, uuid.Metadata)
	}
	start, covered, err := snapshotEnds(e.FS(), dir)
	if err != nil {
		return nil, err
	}
	l, err := storage.OpenLog(e, storage.LogOptions{
		StartOffset: start, Gapless: true, CoveredTo: covered,
		Dir: dir, TopicPartition: storage.TopicPartition{Topic: Topic}, TopicID: uuid.Metadata, KeepIndexes: true,
		Config: storage.LogConfig{
			SegmentBytes: int(cfg.SegmentBytes), SegmentMs: cfg.SegmentMs, IndexBytes: metadataIndexBytes, IndexInterval: metadataIndexInterval,
			FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64, RetentionBytes: -1, RetentionMs: -1,
			DeleteDelay: cfg.DeleteDelay, MaxMessageBytes: math.MaxInt32,
		},
	})
	if err != nil {
		return nil, err
	}
	return &storageSegments{l, e}, l.Flush()
}

// snapshotEnds are the end offsets of the first and of the last snapshot; 0 if there are none. A log that was cleaned begins at
// the first, and nothing else says so. Up to the last one all of the log could be missing.
func snapshotEnds(fsys env.FS, dir string) (first, last int64, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("list snapshots: %w", err)
	}
	found := false
	for _, e := range entries { // sorted by name, and so by offset
		if id, ok := ParseSnapshotName(e.Name()); ok {
			if !found {
				first, found = id.EndOffset, true
			}
			last = id.EndOffset
		}
	}
	return first, last, nil
}

// AppendAsLeader appends a batch that has its offset and epoch.
func (s *storageSegments) AppendAsLeader(b []byte, _ int32) error { return s.AppendAsFollower(b) }

// EndOffsetForEpoch differs from the log's for epochs that are larger than all it knows: they end where the log does.
func (s *storageSegments) EndOffsetForEpoch(epoch int32) (int32, int64) {
	if last := s.LatestEpoch(); last >= 0 && epoch > last {
		epoch = last
	}
	found, end := s.Log.EndOffsetForEpoch(epoch)
	if found == epoch && epoch >= 0 && s.EpochAt(end-1) != epoch && end <= s.StartOffset() {
		return -1, -1 // nothing of that epoch is left
	}
	return found, end
}

func (s *storageSegments) Read(offset int64, maxBytes int) (Region, error) {
	slice, err := s.Log.Read(offset, maxBytes, true, math.MaxInt64)
	if err != nil || slice.Len == 0 {
		return Region{Release: func() {}}, err
	}
	return Region{Part: env.Part{File: slice.File, Offset: slice.Pos, Length: int64(slice.Len)}, Release: slice.Release}, nil
}

// AdvanceStart moves the start; raft has made sure that it is below what is committed.
func (s *storageSegments) AdvanceStart(offset int64) error {
	s.SetHighWatermark(s.EndOffset())
	if err := s.Log.AdvanceStart(offset); err != nil {
		return err
	}
	return s.DeleteOldSegments(s.env.Now().UnixMilli())
}
