package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
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
	Cleaner               CleanerOptions
	RecoveryThreads       int // num.recovery.threads.per.data.dir: for loading and closing
	OpenFiles             int // how many files the logs keep open; 0: as many as seem good

	// OnOffline is told of a directory that failed, and whose logs went with it, sorted. Any goroutine.
	OnOffline func(directory uuid.UUID, logs []TopicPartition, err error)
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
		DeleteDelay: ms("log.segment.delete.delay.ms"), RecoveryThreads: n.Int("num.recovery.threads.per.data.dir"),
		Cleaner: cleanerOptionsFrom(n),
	}
}

// Manager keeps the log directories of a node and the logs in them. Its methods may be called from any goroutine.
type Manager struct {
	env   env.Env
	fsys  env.FS
	files *OpenFiles
	o     ManagerOptions
	queue env.Queue

	cleaner *cleaner

	dirs []*directory

	// changes is held by who makes or removes a log, files included; before mu.
	changes sync.Mutex
	// mu is never held while something is read or written.
	mu    sync.Mutex
	logs  map[TopicPartition]*entry
	dirty map[*Log]struct{} // leader epochs to be written
	ended bool
}

// entry is a log and where it is.
type entry struct {
	log    *Log
	dir    *directory
	opened atomic.Bool // its settings are those of its topic, not only of the node
}

// OpenManager locks the directories. Logs are there after Load. Errors: a directory that another process uses, or none that can be
// used.
func OpenManager(e env.Env, o ManagerOptions) (*Manager, error) {
	m := &Manager{env: e, fsys: e.FS(), files: NewOpenFiles(e.FS(), o.OpenFiles), o: o, logs: map[TopicPartition]*entry{}, dirty: map[*Log]struct{}{}}
	m.cleaner = &cleaner{m: m, o: o.Cleaner, busy: map[*Log]struct{}{}, uncleanable: map[*Log]struct{}{}}
	usable := 0
	for _, d := range o.Directories {
		dir := &directory{DirectoryOptions: d, logs: map[TopicPartition]*Log{}}
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

// unlock gives the directories to others.
func (m *Manager) unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.dirs {
		if d.lock != nil {
			_ = d.lock.Close()
			d.lock = nil
		}
	}
}

// Abandon gives the directories up as they are: logs are not closed in order, and will be recovered.
func (m *Manager) Abandon() {
	for _, e := range m.end() {
		_ = e.log.closeFiles()
	}
	m.unlock()
	m.queue.Close(nil)
}

// end lets nothing begin any more and gives the logs, sorted.
func (m *Manager) end() []*entry {
	m.changes.Lock()
	defer m.changes.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return m.sortedLocked()
}

// PreviousEpoch is the broker epoch of the last life if all directories were shut down in order then, else -1.
func (m *Manager) PreviousEpoch() int64 {
	epoch := int64(-1)
	for i, d := range m.dirs {
		e, clean, err := ReadCleanShutdown(m.fsys, d.Path)
		if m.failure(d) != nil || err != nil || !clean || i > 0 && e != epoch {
			m.env.Logger().Info("Unable to read the broker epoch in " + d.Path + ".")
			return -1
		}
		epoch = e
	}
	return epoch
}

// Log finds the log of a partition; nil if there is none.
func (m *Manager) Log(tp TopicPartition) *Log {
	if e := m.entry(tp); e != nil {
		return e.log
	}
	return nil
}

func (m *Manager) entry(tp TopicPartition) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.logs[tp]
}

// Open returns the log of a partition, and makes it if there is none: in the directory that is named, or else in the one with the
// fewest logs. Its high watermark is the one last noted. Errors: InconsistentTopicID if a log of another topic id is in the way;
// KafkaStorageError, also where the log may be in a directory that is offline.
func (m *Manager) Open(tp TopicPartition, topicID, dirID uuid.UUID, settings config.Topic) (*Log, error) {
	m.changes.Lock()
	defer m.changes.Unlock()
	cfg := LogConfigFrom(settings, m.o.ProducerExpiry)
	if e := m.entry(tp); e != nil {
		return e.log, m.reopen(e, topicID, cfg)
	}
	dir, err := m.choose(dirID)
	if err != nil {
		return nil, fmt.Errorf("create log of %s: %w: %w", tp, kerr.KafkaStorageError, err)
	}
	l, err := m.create(dir, tp, topicID, cfg)
	if err == nil {
		err = m.add(l, dir)
	}
	if err != nil {
		m.fail(dir, err)
		return nil, fmt.Errorf("create log of %s in %s: %w: %w", tp, dir.Path, kerr.KafkaStorageError, err)
	}
	if e := m.entry(tp); e != nil {
		e.opened.Store(true)
	}
	m.env.Logger().Info(fmt.Sprintf("Created log for partition %s in %s", tp, filepath.Join(dir.Path, tp.String())))
	return l, nil
}

// reopen gives a log that is there to its topic.
func (m *Manager) reopen(e *entry, topicID uuid.UUID, cfg LogConfig) error {
	have := e.log.TopicID()
	if have.IsZero() && !topicID.IsZero() {
		if err := e.log.adopt(topicID); err != nil {
			return err
		}
		have = topicID
	}
	if have != topicID {
		return fmt.Errorf("the log of %s in %s is of topic id %s, not %s: %w", e.log.tp, e.dir.Path, have, topicID, kerr.InconsistentTopicId)
	}
	e.log.Configure(cfg)
	e.opened.Store(true)
	return nil
}

// choose finds a directory for a new log. Where one is named that is not online, while others are offline, the log may be there: an
// empty one in its place could become the leader, and what was committed would be gone.
func (m *Manager) choose(id uuid.UUID) (*directory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var best *directory
	offline := 0
	for _, d := range m.dirs {
		switch {
		case d.err != nil || m.ended:
			offline++
		case d.ID == id && !id.Reserved():
			return d, nil
		case d.Cordoned:
		case best == nil || len(d.logs) < len(best.logs):
			best = d
		}
	}
	switch {
	case offline > 0 && offline < len(m.dirs) && id != uuid.DirUnassigned:
		return nil, fmt.Errorf("it may be in a log directory that is offline: directory %s is not among those that are online", id)
	case best == nil:
		return nil, errors.New("no log directory is online")
	}
	return best, nil
}

// DirectoryOf is the id of the directory that a log is in; false if there is none.
func (m *Manager) DirectoryOf(tp TopicPartition) (uuid.UUID, bool) {
	e := m.entry(tp)
	if e == nil {
		return uuid.Zero, false
	}
	return e.dir.ID, true
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

// errDuplicate says that two directories have a log of the same partition.
var errDuplicate = errors.New("duplicate log directories")

// add makes a log findable. A log that is not taken is closed.
func (m *Manager) add(l *Log, dir *directory) error {
	m.mu.Lock()
	other, err := m.logs[l.tp], dir.err
	if other == nil && err == nil {
		m.logs[l.tp], dir.logs[l.tp] = &entry{log: l, dir: dir}, l
	}
	m.mu.Unlock()
	if other != nil {
		err = fmt.Errorf("%w for %s are found in both %s and %s: a crash during a move between directories left both; one of them has to be removed",
			errDuplicate, l.tp, filepath.Join(other.dir.Path, l.tp.String()), l.dir)
	}
	if err != nil {
		err = errors.Join(err, l.closeFiles())
	}
	return err
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

// sortedLocked are all logs by topic and partition. mu is held.
func (m *Manager) sortedLocked() []*entry {
	return slices.SortedFunc(maps.Values(m.logs), func(a, b *entry) int { return a.log.tp.Compare(b.log.tp) })
}
