package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ManagerOptions are the log directories of a node and how often what is done about them.
type ManagerOptions struct {
	Directories []DirectoryOptions
	// Settings are the effective settings of a topic as far as they are known when logs are loaded: the node's.
	Settings func(topic string) config.Topic

	ProducerExpiry        time.Duration // producer.id.expiration.ms
	ProducerCheck         time.Duration // producer.id.expiration.check.interval.ms
	RetentionCheck        time.Duration // log.retention.check.interval.ms
	FlushCheck            time.Duration // log.flush.scheduler.interval.ms
	RecoveryPointInterval time.Duration // log.flush.offset.checkpoint.interval.ms
	LogStartInterval      time.Duration // log.flush.start.offset.checkpoint.interval.ms
	DeleteDelay           time.Duration // log.segment.delete.delay.ms, of whole logs
	OpenFiles             int           // how many files the logs keep open; 0: as many as seem good

	// OnOffline is told of a directory that failed. Any goroutine.
	OnOffline func(directory uuid.UUID, err error)
}

// DirectoryOptions name a log directory.
type DirectoryOptions struct {
	Path     string
	ID       uuid.UUID
	Err      error // it cannot be used
	Cordoned bool
}

// ManagerOptionsFrom takes the intervals from a node's settings.
func ManagerOptionsFrom(n *config.Node) ManagerOptions {
	ms := func(key string) time.Duration {
		v := n.Long(key)
		if v > int64(math.MaxInt64/time.Millisecond) {
			return math.MaxInt64
		}
		return time.Duration(v) * time.Millisecond
	}
	return ManagerOptions{
		ProducerExpiry: ms("producer.id.expiration.ms"), ProducerCheck: ms("producer.id.expiration.check.interval.ms"),
		RetentionCheck: ms("log.retention.check.interval.ms"), FlushCheck: ms("log.flush.scheduler.interval.ms"),
		RecoveryPointInterval: ms("log.flush.offset.checkpoint.interval.ms"), LogStartInterval: ms("log.flush.start.offset.checkpoint.interval.ms"),
		DeleteDelay: ms("log.segment.delete.delay.ms"),
	}
}

// Manager keeps the log directories of a node and the logs in them. Its methods may be called from any goroutine.
type Manager struct {
	env   env.Env
	fsys  env.FS
	files *OpenFiles
	o     ManagerOptions
	queue env.Queue

	mu    sync.Mutex
	dirs  []*directory
	logs  map[TopicPartition]*entry
	dirty map[*Log]struct{} // leader epochs to be written
	ended bool
}

// directory is a log directory.
type directory struct {
	DirectoryOptions
	lock io.Closer
	err  error // it is offline; guarded by the Manager's lock

	checkpoints sync.Mutex // its files are written by one at a time
}

// entry is a log and where it is.
type entry struct {
	log *Log
	dir *directory
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

// OpenManager locks the directories. Logs are there after Load. Errors: a directory that another process uses, or none that can be
// used.
func OpenManager(e env.Env, o ManagerOptions) (*Manager, error) {
	m := &Manager{env: e, fsys: e.FS(), files: NewOpenFiles(e.FS(), o.OpenFiles), o: o, logs: map[TopicPartition]*entry{}, dirty: map[*Log]struct{}{}}
	usable := 0
	for _, d := range o.Directories {
		dir := &directory{DirectoryOptions: d}
		m.dirs = append(m.dirs, dir)
		if dir.err = d.Err; d.Err != nil {
			m.env.Logger().Error("A log directory is offline", "dir", d.Path, "err", d.Err)
			continue
		}
		lock, err := LockDirectory(m.fsys, d.Path)
		switch {
		case errors.Is(err, env.ErrLocked):
			m.unlock()
			return nil, err
		case err != nil:
			m.env.Logger().Error("A log directory is offline", "dir", d.Path, "err", err)
			dir.err = err
		default:
			dir.lock = lock
			usable++
		}
	}
	if usable == 0 {
		err := errors.New("Shutdown broker because none of the specified log dirs from log.dirs can be created or validated") //nolint:staticcheck // Kafka's words
		for _, d := range m.dirs {
			err = fmt.Errorf("%w: %w", err, d.err)
		}
		return nil, err
	}
	m.queue = e.NewQueue("log-manager")
	return m, nil
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

// unlock gives the directories to others.
func (m *Manager) unlock() {
	for _, d := range m.dirs {
		if d.lock != nil {
			_ = d.lock.Close()
			d.lock = nil
		}
	}
}

// Abandon gives the directories up as they are: logs are not closed in order, and will be recovered.
func (m *Manager) Abandon() {
	m.mu.Lock()
	m.ended = true
	logs := m.sortedLocked()
	m.mu.Unlock()
	for _, e := range logs {
		_ = e.log.closeFiles()
	}
	m.unlock()
	m.queue.Close(nil)
}

// PreviousEpoch is the broker epoch of the last life if all directories were shut down in order then, else -1.
func (m *Manager) PreviousEpoch() int64 {
	epoch := int64(-1)
	for i, d := range m.dirs {
		e, clean, err := ReadCleanShutdown(m.fsys, d.Path)
		if err != nil || !clean || i > 0 && e != epoch {
			m.env.Logger().Info("Unable to read the broker epoch in " + d.Path + ".")
			return -1
		}
		epoch = e
	}
	return epoch
}

// DirectoryIDs are the ids of the directories that are online, sorted as they were given.
func (m *Manager) DirectoryIDs() []uuid.UUID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []uuid.UUID
	for _, d := range m.dirs {
		if d.err == nil {
			out = append(out, d.ID)
		}
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

// Log finds the log of a partition; nil if there is none.
func (m *Manager) Log(tp TopicPartition) *Log {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.logs[tp]; e != nil {
		return e.log
	}
	return nil
}

// Open returns the log of a partition, and makes it if there is none: in the directory that is named, or else in the one with the
// fewest logs. Its high watermark is the one last noted. Errors: InconsistentTopicID if a log of another topic id is in the way;
// KafkaStorageError.
func (m *Manager) Open(tp TopicPartition, topicID, dirID uuid.UUID, settings config.Topic) (*Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cfg := LogConfigFrom(settings, m.o.ProducerExpiry)
	if e := m.logs[tp]; e != nil {
		have := e.log.TopicID()
		if have.IsZero() && !topicID.IsZero() {
			if err := e.log.adopt(topicID); err != nil {
				return nil, err
			}
			have = topicID
		}
		if have != topicID {
			return nil, fmt.Errorf("the log of %s in %s is of topic id %s, not %s: %w", tp, e.dir.Path, have, topicID, kerr.InconsistentTopicId)
		}
		e.log.Configure(cfg)
		return e.log, nil
	}
	dir := m.choose(dirID)
	if dir == nil {
		return nil, fmt.Errorf("no log directory for %s is online: %w", tp, kerr.KafkaStorageError)
	}
	l, err := m.create(dir, tp, topicID, cfg)
	if err != nil {
		m.queue.Post("directory offline", func() { m.offline(dir, err) })
		return nil, fmt.Errorf("create log of %s in %s: %w: %w", tp, dir.Path, kerr.KafkaStorageError, err)
	}
	m.logs[tp] = &entry{l, dir}
	m.env.Logger().Info(fmt.Sprintf("Created log for partition %s in %s", tp, filepath.Join(dir.Path, tp.String())))
	return l, nil
}

// choose finds a directory for a new log. mu is held.
func (m *Manager) choose(id uuid.UUID) *directory {
	counts := map[*directory]int{}
	for _, e := range m.logs {
		counts[e.dir]++
	}
	var best *directory
	for _, d := range m.dirs {
		switch {
		case d.err != nil:
		case d.ID == id && !id.Reserved():
			return d
		case d.Cordoned:
		case best == nil || counts[d] < counts[best]:
			best = d
		}
	}
	return best
}

func (m *Manager) create(dir *directory, tp TopicPartition, topicID uuid.UUID, cfg LogConfig) (*Log, error) {
	path := filepath.Join(dir.Path, tp.String())
	if err := m.fsys.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := m.fsys.SyncDir(dir.Path); err != nil {
		return nil, err
	}
	l, err := OpenLog(m.env, LogOptions{Dir: path, TopicPartition: tp, TopicID: topicID, Config: cfg, Clean: true, Files: m.files,
		OnFailure: m.failed(dir), OnDirty: m.noteDirty, OnRetreat: m.retreated(dir)})
	if err != nil || topicID.IsZero() {
		return l, err
	}
	// This syncs the folder: a log does not lose its first segment, and have others.
	if err := l.adopt(topicID); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	return l, nil
}

// failed is what a log calls when its disk fails, under its own lock.
func (m *Manager) failed(dir *directory) func(error) {
	return func(err error) { m.queue.Post("directory offline", func() { m.offline(dir, err) }) }
}

// retreated is what a log calls that was cut below what the checkpoints say.
func (m *Manager) retreated(dir *directory) func() error {
	return func() error {
		err := m.writeRecoveryPoints(dir)
		if err == nil {
			err = m.writeLogStarts(dir)
		}
		if err != nil {
			m.offline(dir, err)
			err = fmt.Errorf("note where logs in %s begin: %w: %w", dir.Path, kerr.KafkaStorageError, err)
		}
		return err
	}
}

// offline takes a directory out of service.
func (m *Manager) offline(dir *directory, err error) {
	m.mu.Lock()
	first := dir.err == nil && !m.ended
	if first {
		dir.err = err
	}
	m.mu.Unlock()
	if !first {
		return
	}
	m.env.Logger().Error("Stopping serving logs in dir "+dir.Path, "err", err)
	if m.o.OnOffline != nil {
		m.o.OnOffline(dir.ID, err)
	}
}

// Configure changes the settings of the logs of a topic.
func (m *Manager) Configure(topic string, settings config.Topic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cfg := LogConfigFrom(settings, m.o.ProducerExpiry)
	for tp, e := range m.logs {
		if tp.Topic == topic {
			e.log.Configure(cfg)
		}
	}
}

// Delete removes a log. Its folder is renamed at once, and removed later.
func (m *Manager) Delete(tp TopicPartition) error {
	return m.remove(tp, deleteDirSuffix)
}

// RenameStrays puts the logs aside that keep does not want: a topic that was deleted while the node was down, or that is another's.
func (m *Manager) RenameStrays(keep func(TopicPartition, uuid.UUID) bool) error {
	m.mu.Lock()
	entries := m.sortedLocked()
	m.mu.Unlock()
	var errs []error
	for _, e := range entries {
		if tp := e.log.TopicPartition(); !keep(tp, e.log.TopicID()) {
			m.env.Logger().Warn("Found a stray log of " + tp.String() + " in " + e.dir.Path)
			errs = append(errs, m.remove(tp, strayDirSuffix))
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) remove(tp TopicPartition, suffix string) error {
	m.mu.Lock()
	e := m.logs[tp]
	delete(m.logs, tp)
	if e != nil {
		delete(m.dirty, e.log)
	}
	m.mu.Unlock()
	if e == nil {
		return nil
	}
	path := filepath.Join(e.dir.Path, markedDir(tp, uuid.Draw(m.env.Rand().Read), suffix))
	if err := e.log.moveTo(path); err != nil {
		m.offline(e.dir, err)
		return err
	}
	m.env.Logger().Info(fmt.Sprintf("Log for partition %s is renamed to %s and is scheduled for deletion", tp, path))
	if suffix == deleteDirSuffix {
		m.env.AfterFunc(m.o.DeleteDelay, func() { m.removeFolder(path) })
	}
	return nil
}

func (m *Manager) removeFolder(path string) {
	if err := m.fsys.RemoveAll(path); err != nil {
		m.env.Logger().Warn("The folder of a deleted log stays", "dir", path, "err", err)
	}
}

// moveTo closes the log and renames its folder.
func (l *Log) moveTo(path string) error {
	err := l.closeFiles()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.fsys.Rename(l.dir, path); err != nil {
		return fmt.Errorf("rename %s: %w", l.dir, err)
	}
	l.dir = path
	return l.fsys.SyncDir(filepath.Dir(path))
}

// Directories describes all directories.
func (m *Manager) Directories() []Directory {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Directory, len(m.dirs))
	for i, d := range m.dirs {
		out[i] = Directory{Path: d.Path, ID: d.ID, Err: d.err, Cordoned: d.Cordoned, Total: -1, Usable: -1}
		if d.err != nil {
			continue
		}
		if total, usable, err := m.fsys.Usage(d.Path); err == nil {
			out[i].Total, out[i].Usable = total, usable
		}
		for _, e := range m.sortedLocked() {
			if e.dir == d {
				out[i].Logs = append(out[i].Logs, DirectoryLog{TopicPartition: e.log.tp, Size: e.log.Size(), Log: e.log})
			}
		}
	}
	return out
}

// sortedLocked are all logs by topic and partition. mu is held.
func (m *Manager) sortedLocked() []*entry {
	out := make([]*entry, 0, len(m.logs))
	for _, e := range m.logs {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entry) int {
		if c := strings.Compare(a.log.tp.Topic, b.log.tp.Topic); c != 0 {
			return c
		}
		return int(a.log.tp.Partition) - int(b.log.tp.Partition)
	})
	return out
}
