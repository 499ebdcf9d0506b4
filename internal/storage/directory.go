package storage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// directory is a log directory. Its path, id and whether it is cordoned do not change.
type directory struct {
	DirectoryOptions

	// Guarded by the Manager's mu.
	lock io.Closer
	err  error                   // it is offline
	logs map[TopicPartition]*Log // those of the Manager that are here

	checkpoints sync.Mutex // its files are written by one at a time
}

// Directory is one log directory as others see it.
type Directory struct {
	Path          string
	ID            uuid.UUID
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
	Log    *Log
}

// LockDirectory keeps other processes off a directory until the lock is closed. Errors: env.ErrLocked, in Kafka's words.
func LockDirectory(fsys env.FS, path string) (io.Closer, error) {
	lock, err := fsys.Lock(filepath.Join(path, LockFile))
	if errors.Is(err, env.ErrLocked) {
		err = lockedError{path}
	}
	return lock, err
}

// lockedError is env.ErrLocked of a directory.
type lockedError struct{ path string }

func (e lockedError) Unwrap() error { return env.ErrLocked }

func (e lockedError) Error() string {
	return fmt.Sprintf("Failed to acquire lock on file %s in %s. A Kafka instance in another process or thread is using this directory.", LockFile, e.path)
}

// Directories describes all directories.
func (m *Manager) Directories() []Directory {
	out := make([]Directory, len(m.dirs))
	for i, d := range m.dirs {
		out[i] = Directory{Path: d.Path, ID: d.ID, Err: m.failure(d), Cordoned: d.Cordoned, Total: -1, Usable: -1}
		if out[i].Err != nil {
			continue
		}
		if total, usable, err := m.fsys.Usage(d.Path); err == nil {
			out[i].Total, out[i].Usable = total, usable
		}
		for _, l := range m.logsIn(d) {
			out[i].Logs = append(out[i].Logs, DirectoryLog{TopicPartition: l.tp, Size: l.Size(), Log: l})
		}
	}
	return out
}

// DirectoryIDs are the ids of the directories that are online, sorted as they were given.
func (m *Manager) DirectoryIDs() []uuid.UUID {
	var out []uuid.UUID
	for _, d := range m.online() {
		out = append(out, d.ID)
	}
	return out
}

// CordonedIDs are the ids of the directories that take no new logs.
func (m *Manager) CordonedIDs() []uuid.UUID {
	var out []uuid.UUID
	for _, d := range m.dirs {
		if d.Cordoned {
			out = append(out, d.ID)
		}
	}
	return out
}

func (m *Manager) online() []*directory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.dirs), func(d *directory) bool { return d.err != nil })
}

// failure is why a directory is offline; nil if it is not.
func (m *Manager) failure(d *directory) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return d.err
}

// logsIn are the logs of a directory, sorted.
func (m *Manager) logsIn(d *directory) []*Log {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sortedLogs(d.logs)
}

func sortedLogs(logs map[TopicPartition]*Log) []*Log {
	return slices.SortedFunc(maps.Values(logs), func(a, b *Log) int { return a.tp.Compare(b.tp) })
}

// failed is what a log calls when its disk fails, under its own lock.
func (m *Manager) failed(d *directory) func(error) {
	return func(err error) { m.fail(d, err) }
}

// fail takes a directory out of service soon. The caller may hold any lock.
func (m *Manager) fail(d *directory, err error) {
	m.queue.Post("directory offline", func() { m.offline(d, err) })
}

// retreated is what a log calls that was cut below what the checkpoints say.
func (m *Manager) retreated(d *directory) func() error {
	return func() error {
		err := m.writeRecoveryPoints(d)
		if err == nil {
			err = m.writeLogStarts(d)
		}
		if err == nil {
			err = m.writeCleanerPoints(d)
		}
		if err != nil {
			m.fail(d, err)
			err = fmt.Errorf("note where logs in %s begin: %w: %w", d.Path, kerr.KafkaStorageError, err)
		}
		return err
	}
}

// offline takes a directory out of service, with all logs in it: what one of them was told about its disk is true for the others
// (KIP-112). It stays so until the node is started again. No lock is held.
func (m *Manager) offline(d *directory, err error) {
	logs, first := m.disown(d, err)
	if !first {
		return
	}
	m.env.Logger().Error("Stopping serving logs in dir "+d.Path, "err", err)
	// Who holds the lock of a log may wait for its disk for long. Nobody else has to wait for that.
	m.env.Go("close-failed-logs", func() {
		for _, l := range logs {
			l.fail(err)
		}
	})
	names := make([]TopicPartition, len(logs))
	texts := make([]string, len(logs))
	for i, l := range logs {
		names[i], texts[i] = l.tp, l.tp.String()
	}
	m.env.Logger().Warn(fmt.Sprintf("Logs for partitions %s are offline due to failure on log directory %s", strings.Join(texts, ","), d.Path))
	if m.o.OnOffline != nil {
		m.o.OnOffline(d.ID, names, err)
	}
	m.env.Logger().Warn("Stopped serving logs in dir " + d.Path)
}

// disown takes a directory and its logs out of the books; false if that was done before.
func (m *Manager) disown(d *directory, err error) ([]*Log, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.err != nil || m.ended {
		return nil, false
	}
	d.err = err
	logs := sortedLogs(d.logs)
	for _, l := range logs {
		delete(m.logs, l.tp)
		delete(m.dirty, l)
	}
	clear(d.logs)
	if d.lock != nil {
		_ = d.lock.Close()
		d.lock = nil
	}
	return logs, true
}

// fail ends a log whose directory has failed.
func (l *Log) fail(err error) {
	l.mu.Lock()
	if l.failure == nil {
		l.failure = fmt.Errorf("log of %s: %w: %w", l.tp, kerr.KafkaStorageError, err)
	}
	l.mu.Unlock()
	_ = l.closeFiles()
}
