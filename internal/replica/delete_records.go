package replica

import (
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
)

// ToHighWatermark as the offset of a Deletion stands for the high watermark.
const ToHighWatermark int64 = -1

// Deletion is what is to be deleted of one partition, and the outcome.
type Deletion struct {
	Partition *Partition // nil if Err is set before
	Offset    int64      // everything below it

	LowWatermark int64 // smallest log start of all replicas alive, -1 with an error
	Err          error

	done bool
}

// deletions is a DeleteRecords that waits for followers.
type deletions struct {
	all     []Deletion
	waiting int
	waiter  waiter
	done    func([]Deletion)
}

// DeleteRecords moves log starts forward and calls done when all replicas have done so, or at the time-out
// (KIP-107). Errors: PolicyViolation if the topic is compacted only; OffsetOutOfRange beyond the high watermark;
// NotLeaderOrFollower; RequestTimedOut.
func (m *Manager) DeleteRecords(all []Deletion, timeout time.Duration, done func([]Deletion)) {
	ds := &deletions{all: all, done: done}
	for i := range all {
		d := &all[i]
		d.LowWatermark = -1
		if d.Err == nil {
			d.Err = d.Partition.deleteTo(d)
		}
		if d.done = d.Err != nil || d.LowWatermark >= d.Offset; !d.done {
			ds.waiting++
		}
	}
	if ds.waiting == 0 {
		done(all)
	} else {
		ds.waiter.watchAt(len(all), func(i int) *watchList {
			if all[i].done {
				return nil
			}
			return &all[i].Partition.deletes
		})
		m.purgatory.wait(&ds.waiter, ds, m.env.Monotonic()+max(timeout, 0))
	}
}

// deleteTo moves the log start.
func (p *Partition) deleteTo(d *Deletion) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	log, err := p.readable(-1, true)
	if err != nil {
		return err
	}
	if !log.Deletable() {
		return kerr.PolicyViolation
	}
	if d.Offset == ToHighWatermark {
		d.Offset = log.HighWatermark()
	}
	if d.Offset < 0 || d.Offset > log.HighWatermark() {
		return kerr.OffsetOutOfRange
	}
	if err := log.AdvanceStart(d.Offset); err != nil {
		return diskError(err)
	}
	d.LowWatermark = p.lowWatermark()
	return nil
}

// changed implements waiting.
func (ds *deletions) changed(i int) bool {
	d := &ds.all[i]
	if d.done {
		return ds.waiting == 0
	}
	p := d.Partition
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.deleted || !p.leader {
		d.Err, d.LowWatermark = kerr.NotLeaderOrFollower, -1
	} else {
		d.LowWatermark = p.lowWatermark()
	}
	if d.done = d.Err != nil || d.LowWatermark >= d.Offset; d.done {
		ds.waiting--
	}
	return ds.waiting == 0
}

// finish implements waiting.
func (ds *deletions) finish(timedOut bool) {
	for i := range ds.all {
		if d := &ds.all[i]; timedOut && !d.done {
			d.Err, d.LowWatermark = kerr.RequestTimedOut, -1
		}
	}
	ds.done(ds.all)
}
