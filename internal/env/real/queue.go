package real

import (
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// queue is a goroutine and the functions that wait for it.
type queue struct {
	env  *Env
	name string
	wake chan struct{} // holds one token when items may be there

	mu     sync.Mutex
	items  []item
	closed bool
	done   func()
}

type item struct {
	name string
	fn   func()
}

// NewQueue starts a goroutine that sleeps until something is posted.
func (e *Env) NewQueue(name string) env.Queue {
	q := &queue{env: e, name: name, wake: make(chan struct{}, 1)}
	go q.run()
	return q
}

func (q *queue) Post(name string, fn func()) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.items = append(q.items, item{name, fn})
	first := len(q.items) == 1
	q.mu.Unlock()
	if first {
		q.signal()
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) run() {
	var batch []item
	for range q.wake {
		for {
			q.mu.Lock()
			batch, q.items = q.items, batch[:0]
			closed, done := q.closed, q.done
			q.mu.Unlock()
			if len(batch) == 0 {
				if closed {
					if done != nil {
						q.env.guard(q.name+"/closed", done)
					}
					return
				}
				break
			}
			for i := range batch {
				q.env.guard(q.name+"/"+batch[i].name, batch[i].fn)
				batch[i] = item{}
			}
			if cap(batch) > 4096 { // one burst must not keep its memory for ever
				batch = nil
			}
		}
	}
}

func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

func (q *queue) Close(done func()) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.closed, q.done = true, done
	q.mu.Unlock()
	q.signal()
}

// queueTimer posts its function when the time has come, and keeps it from running if it is stopped while waiting in
// the queue.
type queueTimer struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	ran     bool
}

func (q *queue) After(d time.Duration, name string, fn func()) env.Timer {
	t := &queueTimer{}
	post := func() {
		q.Post(name, func() {
			if t.begin() {
				fn()
			}
		})
	}
	t.mu.Lock()
	t.timer = time.AfterFunc(d, post)
	t.mu.Unlock()
	return t
}

func (t *queueTimer) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.ran = true
	return true
}

func (t *queueTimer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || t.ran {
		return false
	}
	t.stopped = true
	t.timer.Stop()
	return true
}
