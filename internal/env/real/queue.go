package real

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// queue is a goroutine and the functions that wait for it. It sleeps when there are none.
type queue struct {
	env  *Env
	name string

	mu      sync.Mutex
	wake    sync.Cond
	posted  []item // not yet taken by the goroutine
	closed  bool   // nothing is taken any more
	ended   bool   // the goroutine is gone
	onEnd   []func()
	timers  map[*queueTimer]struct{} // armed: dropped by Close
	waiting atomic.Int64             // posted and not begun

	broken bool // a function panicked: the state behind this queue is not to be touched again. The goroutine's own
}

type item struct {
	name  string
	fn    func()
	timer *queueTimer
}

// keptItems is the capacity that a queue keeps after a burst.
const keptItems = 1024

// NewQueue starts a goroutine that sleeps until something is posted.
func (e *Env) NewQueue(name string) env.Queue {
	q := &queue{env: e, name: name}
	q.wake.L = &q.mu
	go q.run()
	return q
}

func (q *queue) Post(name string, fn func()) { q.post(item{name: name, fn: fn}) }

func (q *queue) post(it item) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.posted = append(q.posted, it)
	q.waiting.Add(1)
	if len(q.posted) == 1 {
		q.wake.Signal()
	}
	q.mu.Unlock()
}

func (q *queue) run() {
	var batch []item
	for {
		q.mu.Lock()
		for len(q.posted) == 0 && !q.closed {
			q.wake.Wait()
		}
		if len(q.posted) == 0 {
			q.ended = true
			onEnd := q.onEnd
			q.mu.Unlock()
			for _, done := range onEnd {
				q.env.guard(q.name, "closed", done)
			}
			return
		}
		batch, q.posted = q.posted, batch[:0]
		q.mu.Unlock()
		for i := range batch {
			q.waiting.Add(-1)
			q.runItem(&batch[i])
			batch[i] = item{}
		}
		if cap(batch) > keptItems {
			batch = nil
		}
	}
}

func (q *queue) runItem(it *item) {
	if q.broken || it.timer != nil && !it.timer.begin() {
		return
	}
	q.broken = !q.env.guard(q.name, it.name, it.fn)
}

func (q *queue) Len() int { return int(q.waiting.Load()) }

func (q *queue) Close(done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := range q.timers {
		t.timer.Stop()
	}
	q.timers = nil
	q.closed = true
	switch {
	case done == nil:
	case q.ended:
		go q.env.guard(q.name, "closed", done)
	default:
		q.onEnd = append(q.onEnd, done)
	}
	q.wake.Signal()
}

// queueTimer posts its function when the time has come, and keeps it from running if it is stopped while waiting in
// the queue.
type queueTimer struct {
	q     *queue
	timer *time.Timer
	state atomic.Int32 // 0, or one of these
}

const (
	timerStopped = 1
	timerBegun   = 2
)

func (q *queue) After(d time.Duration, name string, fn func()) env.Timer {
	t := &queueTimer{q: q}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		t.state.Store(timerStopped)
		return t
	}
	if q.timers == nil {
		q.timers = map[*queueTimer]struct{}{}
	}
	q.timers[t] = struct{}{}
	t.timer = time.AfterFunc(d, func() {
		t.forget()
		q.post(item{name, fn, t})
	})
	return t
}

func (t *queueTimer) forget() {
	t.q.mu.Lock()
	delete(t.q.timers, t)
	t.q.mu.Unlock()
}

func (t *queueTimer) begin() bool { return t.state.CompareAndSwap(0, timerBegun) }

func (t *queueTimer) Stop() bool {
	if !t.state.CompareAndSwap(0, timerStopped) {
		return false
	}
	if t.timer.Stop() {
		t.forget()
	}
	return true
}
