package storage

import (
	"errors"
	"slices"
)

// Close ends the log in order: everything is flushed, and a producer snapshot at the end spares the next life to read the log.
// An error means that the log must be recovered.
func (l *Log) Close() error {
	if err := l.Flush(); err != nil {
		return errors.Join(err, l.closeFiles())
	}
	l.mu.Lock()
	err := l.seal()
	l.mu.Unlock()
	return errors.Join(err, l.closeFiles())
}

// seal writes what a log in order has at its end. Of a log to which nothing was done since it was opened no file is opened. mu is held.
func (l *Log) seal() error {
	if l.closed || l.failure != nil {
		return l.failure
	}
	v := l.published
	if l.snapshotted != v.end {
		if err := l.writeSnapshot(v.end); err != nil {
			return err
		}
	}
	if s := v.active(); s.known { // else it is as the last life sealed it
		if !l.keepIndexes {
			if err := s.seal(); err != nil {
				return err
			}
		}
		if err := errors.Join(s.offsets.sync(), s.times.sync()); err != nil {
			return err
		}
	}
	l.sealed = true
	if l.names == l.synced {
		return nil
	}
	if err := l.removeSnapshots(func(o int64) bool {
		return o != v.end && !slices.ContainsFunc(v.segments, func(s *segment) bool { return s.base == o })
	}); err != nil {
		return err
	}
	return l.syncNames()
}

// closeFiles closes the log as it is.
func (l *Log) closeFiles() error {
	l.cleanMu.Lock()
	defer l.cleanMu.Unlock()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	if l.cleaning != nil {
		errs = append(errs, l.cleaning.discard())
	}
	for _, s := range l.published.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
