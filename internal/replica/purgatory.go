package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// purgatory holds the requests that wait for something to happen to a partition, or for their time
// to run out. A waiter stands in the list of each partition that it watches; who changes a partition
// notifies its lists. Deadlines are in one heap with one timer for the earliest, so that a waiting
// request costs its own memory and nothing else: no goroutine, no timer, no polling.
type purgatory struct {
	env env.Env

	mu   sync.Mutex
	heap []*waiter // by deadline
	// The timer runs out no later than the earliest deadline. It is not stopped when that waiter is
	// done: it then fires once for nothing, which is cheaper than moving it with each request.
	timer   env.Timer
	timerAt time.Duration
}

// waiting is a request in the purgatory.
type waiting interface {
	// changed reports whether the wait is over, after partition i of the request changed. It is
	// called under the waiter's lock: it must not answer, and it may be called for nothing.
	changed(i int) bool
	// finish answers. It is called once, without locks, after changed returned true or the
	// deadline passed.
	finish(timedOut bool)
}

// waiter is a request's place in the purgatory. It may be used again when finish was called: a late
// notification then finds another request in it, or none, and does no harm.
type waiter struct {
	mu       sync.Mutex
	w        waiting // nil unless it waits
	deadline time.Duration
	watches  []watch
	heapAt   int // index in the heap plus one, 0 if it is not there; guarded by purgatory.mu
}

// watch is a waiter's place in the list of one partition.
type watch struct {
	waiter     *waiter
	list       *watchList
	index      int32 // of the partition in the request
	prev, next *watch
}

// watchList is the waiters of one partition, in the order of their coming. The zero value is empty.
type watchList struct {
	n    atomic.Int32
	mu   sync.Mutex
	root watch // of a ring
}

func (l *watchList) add(w *watch) {
	l.mu.Lock()
	if l.root.next == nil {
		l.root.prev, l.root.next = &l.root, &l.root
	}
	w.prev, w.next = l.root.prev, &l.root
	w.prev.next, l.root.prev = w, w
	l.mu.Unlock()
	l.n.Add(1)
}

func (l *watchList) remove(w *watch) {
	l.mu.Lock()
	if w.next != nil {
		w.prev.next, w.next.prev = w.next, w.prev
		w.prev, w.next = nil, nil
		l.n.Add(-1)
	}
	l.mu.Unlock()
}

// woken is one notification that is under way.
type woken struct {
	waiter *waiter
	index  int32
}

var wokenPool = sync.Pool{New: func() any { s := make([]woken, 0, 64); return &s }}

// notify asks every waiter of the list whether its wait is over. Without waiters it costs one load.
// It must be called without locks, after the change can be seen: a waiter first enters the list and
// then looks, so either it sees the change or it is in the list when notify looks.
func (p *purgatory) notify(l *watchList) {
	if l.n.Load() == 0 {
		return
	}
	s := wokenPool.Get().(*[]woken)
	ws := (*s)[:0]
	l.mu.Lock()
	for w := l.root.next; w != nil && w != &l.root; w = w.next {
		ws = append(ws, woken{w.waiter, w.index})
	}
	l.mu.Unlock()
	for _, w := range ws {
		p.check(w.waiter, w.index)
	}
	clear(ws)
	*s = ws
	wokenPool.Put(s)
}

func (p *purgatory) check(w *waiter, index int32) {
	w.mu.Lock()
	r := w.w
	if r == nil || int(index) >= len(w.watches) || !r.changed(int(index)) {
		w.mu.Unlock()
		return
	}
	p.leave(w)
	w.mu.Unlock()
	r.finish(false)
}

// watchAt makes w, which must not be waiting, watch n lists; they are given by list.
func (w *waiter) watchAt(n int, list func(i int) *watchList) {
	if cap(w.watches) < n {
		w.watches = make([]watch, n)
	}
	w.watches = w.watches[:n]
	for i := range w.watches {
		w.watches[i] = watch{waiter: w, list: list(i), index: int32(i)}
	}
}

// wait lets r wait, at w, until changed says that it is over or until the deadline (of the monotonic
// clock). What has changed already is seen: finish may run before wait returns. A list may be nil: then
// that partition is not watched. A waiter that watches nothing waits for its time.
func (p *purgatory) wait(w *waiter, r waiting, deadline time.Duration) {
	w.mu.Lock()
	w.w, w.deadline = r, deadline
	for i := range w.watches {
		if l := w.watches[i].list; l != nil {
			l.add(&w.watches[i])
		}
	}
	for i := range w.watches {
		if w.watches[i].list != nil && r.changed(i) {
			p.leave(w)
			w.mu.Unlock()
			r.finish(false)
			return
		}
	}
	p.mu.Lock()
	p.push(w)
	p.arm()
	p.mu.Unlock()
	w.mu.Unlock()
}

// leave takes w out of everything. w.mu is held.
func (p *purgatory) leave(w *waiter) {
	w.w = nil
	for i := range w.watches {
		if l := w.watches[i].list; l != nil {
			l.remove(&w.watches[i])
		}
	}
	p.mu.Lock()
	if w.heapAt != 0 {
		p.removeAt(w.heapAt - 1)
	}
	p.mu.Unlock()
}

// arm makes sure that the timer runs out at the earliest deadline, or before. p.mu is held.
func (p *purgatory) arm() {
	if len(p.heap) == 0 {
		return
	}
	at := p.heap[0].deadline
	if p.timer != nil {
		if p.timerAt <= at {
			return
		}
		p.timer.Stop()
	}
	p.timerAt = at
	p.timer = p.env.AfterFunc(max(at-p.env.Monotonic(), 0), p.expire)
}

// expire finishes those whose time has run out.
func (p *purgatory) expire() {
	now := p.env.Monotonic()
	s := wokenPool.Get().(*[]woken)
	late := (*s)[:0]
	p.mu.Lock()
	p.timer = nil
	for len(p.heap) > 0 && p.heap[0].deadline <= now {
		late = append(late, woken{waiter: p.heap[0]})
		p.removeAt(0)
	}
	p.arm()
	p.mu.Unlock()
	for _, l := range late {
		w := l.waiter
		w.mu.Lock()
		// It may have been done in between, and even wait for something else by now.
		r := w.w
		if r == nil || w.deadline > now {
			w.mu.Unlock()
			continue
		}
		p.leave(w)
		w.mu.Unlock()
		r.finish(true)
	}
	clear(late)
	*s = late
	wokenPool.Put(s)
}

// waiters is the number of waiting requests.
func (p *purgatory) waiters() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.heap)
}

// The heap: binary, by deadline. p.mu is held in all of these.

func (p *purgatory) push(w *waiter) {
	p.heap = append(p.heap, w)
	w.heapAt = len(p.heap)
	p.up(len(p.heap) - 1)
}

func (p *purgatory) removeAt(i int) {
	last := len(p.heap) - 1
	p.heap[i].heapAt = 0
	if i != last {
		p.heap[i] = p.heap[last]
		p.heap[i].heapAt = i + 1
	}
	p.heap[last] = nil
	p.heap = p.heap[:last]
	if i != last {
		p.down(i)
		p.up(i)
	}
}

func (p *purgatory) swap(i, j int) {
	p.heap[i], p.heap[j] = p.heap[j], p.heap[i]
	p.heap[i].heapAt, p.heap[j].heapAt = i+1, j+1
}

func (p *purgatory) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if p.heap[parent].deadline <= p.heap[i].deadline {
			return
		}
		p.swap(i, parent)
		i = parent
	}
}

func (p *purgatory) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(p.heap); child++ {
			if p.heap[child].deadline < p.heap[least].deadline {
				least = child
			}
		}
		if least == i {
			return
		}
		p.swap(i, least)
		i = least
	}
}
