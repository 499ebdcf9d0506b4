package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// metadataFolder is the folder of the metadata log, which is not one of the Manager's.
const metadataFolder = "__cluster_metadata-0"

// Load opens the logs in all directories, as a job of its own, and calls done: with nil if at least one directory can be used. From
// then on the directories are looked after.
func (m *Manager) Load(done func(error)) {
	m.env.Go("load-logs", func() {
		if err := m.load(); err != nil {
			done(err)
			return
		}
		m.startHousekeeping()
		done(nil)
	})
}

// load loads all directories at the same time, and of each of them as many logs as the settings say.
func (m *Manager) load() error {
	begin := m.env.Monotonic()
	paths := make([]string, len(m.dirs))
	for i, d := range m.dirs {
		paths[i] = d.Path
	}
	m.env.Logger().Info("Loading logs from log dirs [" + strings.Join(paths, ", ") + "]")
	loads := make([]directoryLoad, len(m.dirs))
	m.env.Each("load-directory", len(m.dirs), len(m.dirs), func(i int) {
		ld := &loads[i]
		ld.m, ld.d = m, m.dirs[i]
		if m.failure(ld.d) != nil {
			return
		}
		if ld.err = ld.run(); ld.err != nil {
			m.env.Logger().Error("Error while loading log dir "+ld.d.Path, "err", ld.err)
			m.offline(ld.d, ld.err)
		}
	})
	var errs []error
	var unclean []string
	loaded := 0
	for i := range loads {
		ld := &loads[i]
		if errors.Is(ld.err, errDuplicate) {
			return ld.err
		}
		if !ld.clean && len(ld.folders) > 0 {
			unclean = append(unclean, ld.d.Path)
		}
		errs = append(errs, ld.err)
		loaded += int(ld.loaded.Load())
	}
	if len(m.online()) == 0 {
		return errors.Join(append([]error{errors.New("no log directory can be used")}, errs...)...)
	}
	suffix := ""
	if len(unclean) > 0 {
		suffix = " (unclean log dirs = [" + strings.Join(unclean, ", ") + "])"
	}
	m.env.Logger().Info(fmt.Sprintf("Loaded %d logs in %dms%s", loaded, (m.env.Monotonic() - begin).Milliseconds(), suffix))
	return nil
}

// directoryLoad is a directory whose logs are being opened.
type directoryLoad struct {
	m       *Manager
	d       *directory
	clean   bool
	offsets checkpointed
	folders []string
	loaded  atomic.Int32 // logs
	looked  atomic.Int32 // folders

	mu  sync.Mutex
	err error // the first; who finds it set begins nothing more
}

// checkpointed are the offsets of a directory's checkpoints.
type checkpointed struct{ recovery, start, high, cleaned map[TopicPartition]int64 }

// run opens all logs of the directory.
func (ld *directoryLoad) run() error {
	m, d := ld.m, ld.d
	entries, err := m.fsys.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("list %s: %w", d.Path, err)
	}
	if _, ld.clean, err = ReadCleanShutdown(m.fsys, d.Path); err != nil {
		return err
	}
	if ld.offsets, err = m.readCheckpoints(d); err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != metadataFolder {
			ld.folders = append(ld.folders, e.Name())
		}
	}
	switch {
	case len(ld.folders) == 0:
		m.env.Logger().Info("No logs found to be loaded in " + d.Path)
	case ld.clean:
		m.env.Logger().Info(fmt.Sprintf("Skipping recovery of %d logs from %s since clean shutdown file was found", len(ld.folders), d.Path))
	default:
		m.env.Logger().Info(fmt.Sprintf("Recovering %d logs from %s since no clean shutdown file was found", len(ld.folders), d.Path))
	}
	m.env.Each("load-log", max(1, m.o.RecoveryThreads), len(ld.folders), func(i int) {
		if ld.failure() == nil {
			ld.open(ld.folders[i])
		}
	})
	if err := ld.failure(); err != nil {
		return err
	}
	if err := m.writeRecoveryPoints(d); err != nil {
		return err
	}
	return RemoveCleanShutdown(m.fsys, d.Path)
}

func (ld *directoryLoad) failure() error {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	return ld.err
}

// open opens the log in a folder and says how far the whole has come.
func (ld *directoryLoad) open(name string) {
	log := ld.m.env.Logger()
	begin := ld.m.env.Monotonic()
	l, err := ld.openFolder(name)
	progress := fmt.Sprintf("in %dms (%d/%d completed in %s)", (ld.m.env.Monotonic() - begin).Milliseconds(), ld.looked.Add(1), len(ld.folders), ld.d.Path)
	level := slog.LevelInfo
	if ld.clean {
		level = slog.LevelDebug // it took no time
	}
	switch {
	case err != nil:
		log.Info("Error while loading logs in "+filepath.Join(ld.d.Path, name)+" "+progress, "err", err)
		ld.mu.Lock()
		defer ld.mu.Unlock()
		if ld.err == nil {
			ld.err = err
		}
	case l != nil:
		ld.loaded.Add(1)
		log.Log(context.Background(), level, fmt.Sprintf("Completed load of log %s with %d segments, local-log-start-offset %d and log-end-offset %d %s",
			l.tp, len(l.view().segments), l.StartOffset(), l.EndOffset(), progress))
	}
}

// readCheckpoints reads what is known of the logs. A recovery or start point that cannot be read is as if it had not been written.
func (m *Manager) readCheckpoints(d *directory) (checkpointed, error) {
	var out checkpointed
	for name, into := range map[string]*map[TopicPartition]int64{
		RecoveryPointCheckpoint: &out.recovery, LogStartCheckpoint: &out.start, HighWatermarkCheckpoint: &out.high,
		CleanerCheckpoint: &out.cleaned,
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

// openFolder opens the log in a folder, or does away with a folder that is on its way out; nil if there is no log in it.
func (ld *directoryLoad) openFolder(name string) (*Log, error) {
	m, path := ld.m, filepath.Join(ld.d.Path, name)
	switch {
	case strings.HasSuffix(name, deleteDirSuffix):
		m.env.AfterFunc(m.o.DeleteDelay, func() { m.removeFolder(path) })
		return nil, nil
	case strings.HasSuffix(name, strayDirSuffix):
		m.env.Logger().Warn("Ignoring stray partition folder " + path)
		return nil, nil
	case strings.HasSuffix(name, futureDirSuffix):
		m.env.Logger().Warn("Ignoring the folder of a move between directories, which are not supported yet: " + path)
		return nil, nil
	}
	tp, ok := parsePartitionDir(name)
	if !ok {
		return nil, nil // not a partition; Kafka leaves such folders alone, too
	}
	topicID, err := ReadPartitionMetadata(m.fsys, path)
	if err != nil {
		return nil, err
	}
	l, err := OpenLog(m.env, LogOptions{
		Dir: path, TopicPartition: tp, TopicID: topicID, Config: LogConfigFrom(m.o.Settings(tp.Topic), m.o.ProducerExpiry),
		Clean: ld.clean, RecoveryPoint: ld.offsets.recovery[tp], StartOffset: ld.offsets.start[tp], Files: m.files,
		OnFailure: m.failed(ld.d), OnDirty: m.noteDirty, OnRetreat: m.retreated(ld.d),
	})
	if err != nil {
		return nil, err
	}
	l.SetHighWatermark(max(l.StartOffset(), ld.offsets.high[tp]))
	if offset, ok := ld.offsets.cleaned[tp]; ok {
		l.cleaned.Store(offset)
	}
	if err := l.afterRecovery(ld.clean); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	return l, m.add(l, ld.d)
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
