package sim

import (
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// queue runs one function per event.
type queue struct {
	n         *Node
	name      string
	items     []item
	scheduled bool
	closed    bool
	done      []func()
}

type item struct {
	name  string
	fn    func()
	timer *queueTimer
}

// NewQueue makes a queue of this life.
func (n *Node) NewQueue(name string) env.Queue { return &queue{n: n, name: name} }

func (q *queue) Post(name string, fn func()) { q.post(item{name: name, fn: fn}) }

func (q *queue) post(it item) {
	if q.closed || q.n.dead {
		return
	}
	q.items = append(q.items, it)
	q.wake()
}

func (q *queue) wake() {
	if q.scheduled {
		return
	}
	q.scheduled = true
	name := q.name
	if len(q.items) > 0 {
		name += "/" + q.items[0].name
	}
	w := q.n.w
	// At least a microsecond: a queue that posts to itself for ever must not stop the world's time.
	w.schedule(w.Scheduling.Between(time.Microsecond, w.o.SchedulingDelay), q.n, "queue", name, q.runNext)
}

func (q *queue) runNext() {
	q.scheduled = false
	if len(q.items) > 0 {
		it := q.items[0]
		q.items[0] = item{}
		if q.items = q.items[1:]; len(q.items) == 0 {
			q.items = nil
		}
		defer q.next() // also when the function panics: the world decides whether that is the end
		if it.timer == nil {
			it.fn()
		} else if it.timer.state == waiting {
			it.timer.state = over
			it.fn()
		}
		return
	}
	q.next()
}

// next schedules what is left, or ends a closed queue.
func (q *queue) next() {
	switch {
	case len(q.items) > 0:
		q.wake()
	case q.closed:
		done := q.done
		q.done = nil
		for _, fn := range done {
			q.n.Do(q.name+"/closed", fn)
		}
	}
}

func (q *queue) Len() int { return len(q.items) }

func (q *queue) Close(done func()) {
	q.closed = true
	if done != nil {
		q.done = append(q.done, done)
	}
	q.wake()
}

// queueTimer posts its function when it comes due.
type queueTimer struct {
	q     *queue
	state timerState
	timer timer
}

type timerState int

const (
	waiting timerState = iota
	stopped
	over
)

func (q *queue) After(d time.Duration, name string, fn func()) env.Timer {
	t := &queueTimer{q: q}
	t.timer = q.n.after(d, "timer", q.name+"/"+name, func() {
		q.post(item{name, fn, t})
	})
	return t
}

func (t *queueTimer) Stop() bool {
	if t.state != waiting {
		return false
	}
	t.state = stopped
	t.timer.Stop()
	return true
}
