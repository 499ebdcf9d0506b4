package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/raft"
)

// Result is what a write event comes to: records that change the state, and the answer for when they are stable.
// Atomic records must be one batch; others may be split at maxRecordsPerBatch.
type Result[T any] struct {
	Records  []metadata.Versioned
	Response T
	Atomic   bool
}

// maxRecordsPerBatch bounds the batches that a result is split into.
const maxRecordsPerBatch = 10000

// write is one event that may append records. Its life: posted on the queue; start computes and appends; done is
// called when all that it read and wrote is stable, or cannot become so.
type write struct {
	name     string
	deadline time.Duration // of env's monotonic clock; 0: none
	compute  func() (records []metadata.Versioned, atomic bool, err error)
	appended func(last int64) // after the records, if any, were replayed; may be nil
	done     func(err error)  // once
}

// appendWrite posts a write event. op runs on the queue and changes nothing; done gets its response, or an error.
func appendWrite[T any](c *Controller, name string, timeout time.Duration, op func() (Result[T], error), appended func(last int64), done func(T, error)) {
	var response T
	w := &write{name: name, appended: appended}
	if timeout > 0 {
		w.deadline = c.env.Monotonic() + timeout
	}
	w.compute = func() ([]metadata.Versioned, bool, error) {
		r, err := op()
		response = r.Response
		return r.Records, r.Atomic, err
	}
	w.done = func(err error) { done(response, err) }
	c.post(name, func() { c.start(w) })
}

// appendRead posts a read event. op runs on the queue and must look at the state as of the offset it is given.
func appendRead[T any](c *Controller, name string, op func(offset int64) (T, error), done func(T, error)) {
	c.post(name, func() {
		done(op(c.lastStable))
	})
}

// post runs fn on the queue, and looks at the invariants afterwards.
func (c *Controller) post(name string, fn func()) {
	c.queue.Post(name, func() {
		fn()
		c.checkInvariants(name)
	})
}

// start runs a write event up to where it waits for its offset.
func (c *Controller) start(w *write) {
	switch {
	case c.closed:
		w.done(fail(kerr.RequestTimedOut, "The controller is shutting down."))
		return
	case c.claimEpoch < 0:
		w.done(c.notController())
		return
	case w.deadline > 0 && c.env.Monotonic() > w.deadline:
		c.log.Info(w.name + ": event unable to start processing because its time is over.")
		w.done(fail(kerr.RequestTimedOut, ""))
		return
	}
	records, atomic, err := w.compute()
	if err == nil && atomic && len(records) > maxRecordsPerBatch {
		err = errTooManyRecords
	}
	if err != nil {
		c.failWrite(w, err)
		return
	}
	last := c.nextOffset - 1
	for first := true; first || len(records) > 0; first = false {
		batch := records[:min(len(records), maxRecordsPerBatch)]
		records = records[len(batch):]
		if len(batch) == 0 {
			break
		}
		if last, err = c.append(batch); err != nil {
			c.failWrite(w, err)
			return
		}
	}
	if w.appended != nil {
		w.appended(last)
	}
	// Also what wrote nothing may have read what is not stable yet: it waits for all that was written before it.
	if c.lastAppended <= c.lastStable {
		w.done(nil)
		return
	}
	c.deferred = append(c.deferred, deferred{c.lastAppended, w})
}

// append gives a batch its offsets, replays it and hands it to raft. A record of ours that does not replay is a bug:
// it is not in the log yet, and never shall be.
func (c *Controller) append(batch []metadata.Versioned) (last int64, err error) {
	last, err = c.quorum.PrepareAppend(c.claimEpoch, batch)
	if err != nil {
		return 0, err
	}
	base := last - int64(len(batch)) + 1
	for i, v := range batch {
		if err := c.replay(v.Record, base+int64(i), false); err != nil {
			panic(fmt.Sprintf("controller: apply %T at offset %d on active controller, from the batch with base offset %d: %v", v.Record, base+int64(i), base, err))
		}
	}
	c.nextOffset = last + 1
	c.lastAppended = last
	c.state.registry.Snapshot(last)
	c.quorum.SchedulePreparedAppend()
	return last, nil
}

// failWrite ends an event that could not write. If raft no longer has us as its leader, that is the end of our term.
func (c *Controller) failWrite(w *write, err error) {
	var api *apiError
	switch {
	case errors.As(err, &api):
		c.log.Info(w.name + ": event failed: " + err.Error())
		w.done(err)
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEpochFenced):
		c.log.Info(fmt.Sprintf("%s: event failed: %v. Renouncing leadership and reverting to the last committed offset %d.", w.name, err, c.lastCommitted))
		c.renounce()
		w.done(c.notController())
	case errors.Is(err, raft.ErrBatchTooLarge):
		w.done(errTooManyRecords)
	default:
		c.log.Error(fmt.Sprintf("%s: event failed: %v. Renouncing leadership and reverting to the last committed offset %d.", w.name, err, c.lastCommitted))
		c.renounce()
		w.done(fail(kerr.UnknownServerError, ""))
	}
}

// deferred is an event that waits until an offset is stable. They wait in the order they ran.
type deferred struct {
	offset int64
	w      *write
}

// completeUpTo answers the events that waited for what is stable now.
func (c *Controller) completeUpTo(offset int64) {
	n := 0
	for ; n < len(c.deferred) && c.deferred[n].offset <= offset; n++ {
		c.deferred[n].w.done(nil)
		c.deferred[n] = deferred{}
	}
	if c.deferred = c.deferred[n:]; len(c.deferred) == 0 {
		c.deferred = nil
	}
}

// failDeferred answers all events that wait: they may or may not come to be, under another controller.
func (c *Controller) failDeferred(err error) {
	waiting := c.deferred
	c.deferred = nil
	for _, d := range waiting {
		d.w.done(err)
	}
}

// notController is the error for a caller who should look for another controller.
func (c *Controller) notController() error {
	if l := c.quorum.LeaderAndEpoch(); l.LeaderID >= 0 && l.LeaderID != c.cfg.NodeID {
		return fail(kerr.NotController, fmt.Sprintf("The active controller appears to be node %d.", l.LeaderID))
	}
	return fail(kerr.NotController, "No controller appears to be active.")
}
