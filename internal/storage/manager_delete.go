package storage

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ottla-io/ottla/internal/uuid"
)

// Delete removes a log. Its folder is renamed at once, and removed later.
func (m *Manager) Delete(tp TopicPartition) error {
	return m.remove(tp, deleteDirSuffix)
}

// RenameStrays puts the logs aside that keep does not want: a topic that was deleted while the node was down, or that is another's.
func (m *Manager) RenameStrays(keep func(TopicPartition, uuid.UUID) bool) error {
	var errs []error
	for _, e := range m.all() {
		if tp := e.log.TopicPartition(); !keep(tp, e.log.TopicID()) {
			m.env.Logger().Warn("Found a stray log of " + tp.String() + " in " + e.dir.Path)
			errs = append(errs, m.remove(tp, strayDirSuffix))
		}
	}
	return errors.Join(errs...)
}

// remove gives the folder of a log another name.
func (m *Manager) remove(tp TopicPartition, suffix string) error {
	m.changes.Lock()
	defer m.changes.Unlock()
	e := m.forget(tp)
	if e == nil {
		return nil
	}
	path := filepath.Join(e.dir.Path, markedDir(tp, uuid.Draw(m.env.Rand().Read), suffix))
	if err := e.log.moveTo(path); err != nil {
		m.fail(e.dir, err)
		return err
	}
	if e.log.cleaned.Load() >= 0 { // or a new log of this name would seem to be clean
		if err := m.writeCleanerPoints(e.dir); err != nil {
			m.fail(e.dir, err)
			return err
		}
	}
	m.env.Logger().Info(fmt.Sprintf("Log for partition %s is renamed to %s and is scheduled for deletion", tp, path))
	if suffix == deleteDirSuffix {
		m.env.AfterFunc(m.o.DeleteDelay, func() { m.removeFolder(path) })
	}
	return nil
}

// forget takes a log out of the books; nil if there is none.
func (m *Manager) forget(tp TopicPartition) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.logs[tp]
	if e != nil {
		delete(m.logs, tp)
		delete(e.dir.logs, tp)
		delete(m.dirty, e.log)
	}
	return e
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
