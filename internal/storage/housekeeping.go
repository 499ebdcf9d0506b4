package storage

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"
)

const (
	// firstCheck is when logs are first looked after, so that a start has its disk for itself.
	firstCheck = 30 * time.Second
	// epochDelay is how long leader-epoch-checkpoint may be behind: many partitions change together.
	epochDelay = time.Second
)

// startHousekeeping begins what is done from time to time: for all logs together, so that a log which nobody uses costs nothing.
func (m *Manager) startHousekeeping() {
	m.every("kafka-log-retention", m.o.RetentionCheck, m.deleteOldSegments)
	m.every("kafka-log-flusher", m.o.FlushCheck, m.flushDue)
	m.every("kafka-recovery-point-checkpoint", m.o.RecoveryPointInterval, m.onDirectories(m.writeRecoveryPoints))
	m.every("kafka-log-start-offset-checkpoint", m.o.LogStartInterval, m.onDirectories(m.writeLogStarts))
	m.cleaner.start()
	m.every("producer-id-expiration", m.o.ProducerCheck, m.expireProducers)
}

func (m *Manager) every(name string, interval time.Duration, fn func()) {
	if interval <= 0 || interval > 10*365*24*time.Hour {
		return // never
	}
	var again func()
	again = func() {
		fn()
		m.queue.After(interval, name, again)
	}
	m.queue.After(min(firstCheck, interval), name, again)
}

// all are the logs, sorted.
func (m *Manager) all() []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil
	}
	return m.sortedLocked()
}

func (m *Manager) isEnded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

func (m *Manager) deleteOldSegments() {
	now := m.env.Now().UnixMilli()
	for _, e := range m.all() {
		_ = e.log.DeleteOldSegments(now) // an error has taken the directory offline
	}
}

func (m *Manager) expireProducers() {
	now := m.env.Now().UnixMilli()
	for _, e := range m.all() {
		e.log.ExpireProducers(now)
	}
}

// flushDue flushes the logs whose flush.ms is over.
func (m *Manager) flushDue() {
	now := m.env.Now().UnixMilli()
	for _, e := range m.all() {
		e.log.mu.Lock()
		due := now-e.log.lastFlush >= e.log.cfg.Load().FlushMs && e.log.recoveryPoint.Load() < e.log.published.end
		e.log.mu.Unlock()
		if due {
			_ = e.log.Flush() // an error has taken the directory offline
		}
	}
}

// noteDirty has the leader epochs of a log written soon, together with those of others. It is called under the log's lock.
func (m *Manager) noteDirty(l *Log) {
	m.queue.Post("leader epochs changed", func() {
		m.mu.Lock()
		first := len(m.dirty) == 0
		m.dirty[l] = struct{}{}
		m.mu.Unlock()
		if first {
			m.queue.After(epochDelay, "write leader epochs", m.flushEpochs)
		}
	})
}

func (m *Manager) flushEpochs() {
	entries := m.all()
	m.mu.Lock()
	dirty := m.dirty
	m.dirty = map[*Log]struct{}{}
	m.mu.Unlock()
	for _, e := range entries {
		if _, ok := dirty[e.log]; ok {
			_ = e.log.FlushEpochs() // an error has taken the directory offline
		}
	}
}

// onDirectories runs a job for each directory that is online.
func (m *Manager) onDirectories(fn func(*directory) error) func() {
	return func() {
		for _, d := range m.online() {
			if m.isEnded() {
				return
			}
			if err := fn(d); err != nil {
				m.fail(d, err)
			}
		}
	}
}

// NoteHighWatermarks writes the high watermarks of all logs into the directories' checkpoints. A directory that cannot be written to
// goes offline.
func (m *Manager) NoteHighWatermarks() error {
	var errs []error
	for _, d := range m.online() {
		if err := m.writeHighWatermarks(d); err != nil {
			m.fail(d, err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) writeHighWatermarks(d *directory) error {
	return m.writeOffsets(d, HighWatermarkCheckpoint, func(l *Log) (int64, bool) { return l.HighWatermark(), true })
}

func (m *Manager) writeRecoveryPoints(d *directory) error {
	return m.writeOffsets(d, RecoveryPointCheckpoint, func(l *Log) (int64, bool) { return l.noteRecoveryPoint(), true })
}

// writeLogStarts notes starts that cannot be seen from the segments.
func (m *Manager) writeLogStarts(d *directory) error {
	return m.writeOffsets(d, LogStartCheckpoint, func(l *Log) (int64, bool) {
		start := l.StartOffset()
		return start, start > l.view().segments[0].base
	})
}

// writeOffsets writes a checkpoint. It says nothing more of logs that are not there any more.
func (m *Manager) writeOffsets(d *directory, name string, offset func(*Log) (int64, bool)) error {
	d.checkpoints.Lock()
	defer d.checkpoints.Unlock()
	m.mu.Lock()
	logs := maps.Clone(d.logs)
	m.mu.Unlock()
	offsets := make(map[TopicPartition]int64, len(logs))
	for tp, l := range logs {
		if o, ok := offset(l); ok {
			offsets[tp] = o
		}
	}
	if err := m.failure(d); err != nil { // the logs are gone, but not for good
		return fmt.Errorf("write %s: the directory is offline: %w", filepath.Join(d.Path, name), err)
	}
	return WriteOffsetCheckpoint(m.fsys, filepath.Join(d.Path, name), offsets)
}
