package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

// Shutdown closes all logs in order and marks the directories, so that nothing has to be recovered: all directories at the same time,
// and of each of them as many logs as the settings say. What goes wrong is recovered next time.
func (m *Manager) Shutdown(brokerEpoch int64) error {
	m.env.Logger().Info("Shutting down log manager.")
	m.end()
	errs := make([]error, len(m.dirs))
	m.env.Each("close-directory", len(m.dirs), len(m.dirs), func(i int) {
		if d := m.dirs[i]; m.failure(d) == nil {
			errs[i] = m.closeDirectory(d, brokerEpoch)
		}
	})
	for _, d := range m.dirs {
		if m.failure(d) == nil {
			_ = m.fsys.Remove(filepath.Join(d.Path, LockFile))
		}
	}
	m.unlock()
	m.queue.Close(nil)
	m.env.Logger().Info("Shutdown complete.")
	return errors.Join(errs...)
}

// closeDirectory closes the logs of a directory, notes what the next life has to know, and marks the directory if nothing went wrong.
func (m *Manager) closeDirectory(d *directory, brokerEpoch int64) error {
	begin := m.env.Monotonic()
	logs := m.logsIn(d)
	var mu sync.Mutex
	var errs []error
	m.env.Each("close-log", max(1, m.o.RecoveryThreads), len(logs), func(i int) {
		if err := logs[i].Close(); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, write := range []func(*directory) error{m.writeRecoveryPoints, m.writeLogStarts, m.writeHighWatermarks} {
		if err := write(d); err != nil {
			return err
		}
	}
	m.env.Logger().Info(fmt.Sprintf("Closed %d logs in %s in %dms", len(logs), d.Path, (m.env.Monotonic() - begin).Milliseconds()))
	return WriteCleanShutdown(m.fsys, d.Path, brokerEpoch)
}
