package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// metadataFolder is the folder of the metadata log, which is not one of the Manager's.
const metadataFolder = "__cluster_metadata-0"

// Load opens the logs in all directories, as a job of its own, and calls done: with nil if at least one directory can be used. From
// then on the directories are looked after.
func (m *Manager) Load(done func(error)) {
	m.env.Go("load-logs", func() {
		begin := m.env.Monotonic()
		paths := make([]string, len(m.dirs))
		for i, d := range m.dirs {
			paths[i] = d.Path
		}
		m.env.Logger().Info("Loading logs from log dirs [" + strings.Join(paths, ", ") + "]")
		loaded := 0
		var errs []error
		for _, d := range m.dirs {
			n, err := m.loadDirectory(d)
			loaded += n
			if err != nil {
				m.offline(d, err)
				errs = append(errs, err)
			}
		}
		if len(m.DirectoryIDs()) == 0 {
			done(errors.Join(append([]error{errors.New("no log directory can be used")}, errs...)...))
			return
		}
		m.env.Logger().Info(fmt.Sprintf("Loaded %d logs in %dms", loaded, (m.env.Monotonic() - begin).Milliseconds()))
		m.startHousekeeping()
		done(nil)
	})
}

// checkpointed are the offsets of a directory's checkpoints.
type checkpointed struct{ recovery, start, high map[TopicPartition]int64 }

// loadDirectory opens all logs of a directory.
func (m *Manager) loadDirectory(d *directory) (int, error) {
	m.mu.Lock()
	err := d.err
	m.mu.Unlock()
	if err != nil {
		return 0, nil
	}
	entries, err := m.fsys.ReadDir(d.Path)
	if err != nil {
		return 0, fmt.Errorf("list %s: %w", d.Path, err)
	}
	_, clean, err := ReadCleanShutdown(m.fsys, d.Path)
	if err != nil {
		return 0, err
	}
	offsets, err := m.readCheckpoints(d)
	if err != nil {
		return 0, err
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != metadataFolder {
			folders = append(folders, e.Name())
		}
	}
	switch {
	case len(folders) == 0:
		m.env.Logger().Info("No logs found to be loaded in " + d.Path)
	case clean:
		m.env.Logger().Info(fmt.Sprintf("Skipping recovery of %d logs from %s since clean shutdown file was found", len(folders), d.Path))
	default:
		m.env.Logger().Info(fmt.Sprintf("Recovering %d logs from %s since no clean shutdown file was found", len(folders), d.Path))
	}
	loaded := 0
	for _, name := range folders {
		ok, err := m.loadFolder(d, name, clean, offsets)
		if err != nil {
			return loaded, err
		}
		if ok {
			loaded++
		}
	}
	if err := m.writeRecoveryPoints(d); err != nil {
		return loaded, err
	}
	return loaded, RemoveCleanShutdown(m.fsys, d.Path)
}

// readCheckpoints reads what is known of the logs. A recovery or start point that cannot be read is as if it had not been written.
func (m *Manager) readCheckpoints(d *directory) (checkpointed, error) {
	var out checkpointed
	for name, into := range map[string]*map[TopicPartition]int64{
		RecoveryPointCheckpoint: &out.recovery, LogStartCheckpoint: &out.start, HighWatermarkCheckpoint: &out.high,
	} {
		offsets, err := ReadOffsetCheckpoint(m.fsys, filepath.Join(d.Path, name))
		if err != nil {
			m.env.Logger().Warn("Error reading a checkpoint; its offsets count as 0", "err", err)
			offsets = nil
		}
		*into = offsets
	}
	return out, nil
}

// loadFolder opens one log, or does away with a folder that is on its way out.
func (m *Manager) loadFolder(d *directory, name string, clean bool, offsets checkpointed) (bool, error) {
	path := filepath.Join(d.Path, name)
	switch {
	case strings.HasSuffix(name, deleteDirSuffix):
		m.env.AfterFunc(m.o.DeleteDelay, func() { m.removeFolder(path) })
		return false, nil
	case strings.HasSuffix(name, strayDirSuffix):
		m.env.Logger().Warn("Ignoring stray partition folder " + path)
		return false, nil
	case strings.HasSuffix(name, futureDirSuffix):
		m.env.Logger().Warn("Ignoring the folder of a move between directories, which are not supported yet: " + path)
		return false, nil
	}
	tp, ok := parsePartitionDir(name)
	if !ok {
		return false, nil // not a partition; Kafka leaves such folders alone, too
	}
	topicID, err := ReadPartitionMetadata(m.fsys, path)
	if err != nil {
		return false, err
	}
	begin := m.env.Monotonic()
	l, err := OpenLog(m.env, LogOptions{
		Dir: path, TopicPartition: tp, TopicID: topicID, Config: LogConfigFrom(m.o.Settings(tp.Topic), m.o.ProducerExpiry),
		Clean: clean, RecoveryPoint: offsets.recovery[tp], StartOffset: offsets.start[tp], Files: m.files,
		OnFailure: m.failed(d), OnDirty: m.noteDirty, OnRetreat: m.retreated(d),
	})
	if err != nil {
		return false, err
	}
	l.SetHighWatermark(max(l.StartOffset(), offsets.high[tp]))
	if err := l.afterRecovery(clean); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.logs[tp]; other != nil {
		return false, fmt.Errorf("duplicate log directories for %s are found in both %s and %s: a crash during a move between directories left both; one of them has to be removed",
			tp, filepath.Join(other.dir.Path, tp.String()), path)
	}
	m.logs[tp] = &entry{l, d}
	if !clean {
		m.env.Logger().Info(fmt.Sprintf("Completed load of log %s with %d segments, local-log-start-offset %d and log-end-offset %d in %dms",
			tp, len(l.view().segments), l.StartOffset(), l.EndOffset(), (m.env.Monotonic() - begin).Milliseconds()))
	}
	return true, nil
}

// afterRecovery makes durable what a recovery made, and leaves a producer snapshot at the end.
func (l *Log) afterRecovery(clean bool) error {
	if clean {
		return nil
	}
	l.mu.Lock()
	end := l.published.end
	has, err := l.snapshotOffsets()
	if err == nil && !slices.Contains(has, end) {
		err = l.writeSnapshot(end)
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.Flush()
}

// Shutdown closes all logs in order and marks the directories, so that nothing has to be recovered. What goes wrong is recovered next
// time.
func (m *Manager) Shutdown(brokerEpoch int64) error {
	m.mu.Lock()
	m.ended = true
	entries := m.sortedLocked()
	m.mu.Unlock()
	m.env.Logger().Info("Shutting down log manager.")
	var errs []error
	failed := map[*directory]bool{}
	for _, e := range entries {
		if err := e.log.Close(); err != nil {
			errs = append(errs, err)
			failed[e.dir] = true
		}
	}
	for _, d := range m.dirs {
		if d.lock == nil {
			continue
		}
		if d.err == nil && !failed[d] {
			errs = append(errs, m.shutdownDirectory(d, brokerEpoch))
		}
		_ = m.fsys.Remove(filepath.Join(d.Path, LockFile))
	}
	m.unlock()
	m.queue.Close(nil)
	m.env.Logger().Info("Shutdown complete.")
	return errors.Join(errs...)
}

func (m *Manager) shutdownDirectory(d *directory, brokerEpoch int64) error {
	for _, write := range []func(*directory) error{m.writeRecoveryPoints, m.writeLogStarts, m.writeHighWatermarks} {
		if err := write(d); err != nil {
			return err
		}
	}
	return WriteCleanShutdown(m.fsys, d.Path, brokerEpoch)
}
