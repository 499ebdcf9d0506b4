package raft

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
)

// LogDir is the folder of the metadata log in a node's metadata directory.
func LogDir(metadataDir string) string { return filepath.Join(metadataDir, Topic+"-0") }

// WriteBootstrap makes the folder of the metadata log with the snapshot 0-0 in it: what a new cluster begins with.
func WriteBootstrap(fsys env.FS, logDir string, head SnapshotHead, records []metadata.Versioned, nowMs int64) error {
	if err := fsys.MkdirAll(logDir, 0o755); err != nil {
		return fmt.Errorf("make folder of the metadata log: %w", err)
	}
	const suffix = "bootstrap"
	if err := fsys.Remove(tempSnapshotPath(logDir, bootstrapID, suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an interrupted run left: %w", err)
	}
	w, err := newSnapshotWriter(fsys, logDir, bootstrapID, head, snapshotOptions{
		suffix: suffix, maxBatch: DefaultMaxBatchBytes, clock: func() int64 { return nowMs },
	})
	if err != nil {
		return err
	}
	if err = w.Append(records); err == nil {
		err = w.Freeze()
	}
	return errors.Join(err, w.Close())
}
