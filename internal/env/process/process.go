package process

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
)

// ErrKilled is what a killed node's file accesses end with.
var ErrKilled = errors.New("the node was killed")

// Env implements env.Env for one life of a node.
type Env struct {
	*real.Env
	gate *gate

	mu     sync.Mutex
	dead   bool
	queues map[env.Queue]struct{} // inner ones that were not closed
	open   map[io.Closer]struct{} // files, locks, listeners
	conns  map[*conn]struct{}     // whose Closed is to come
}

var _ env.Env = (*Env)(nil)

// New makes the env of a node's life. A panic of a node that was killed is none; others go to o.OnPanic.
func New(o real.Options) *Env {
	e := &Env{gate: newGate(), queues: map[env.Queue]struct{}{}, open: map[io.Closer]struct{}{}, conns: map[*conn]struct{}{}}
	if onPanic := o.OnPanic; onPanic != nil {
		o.OnPanic = func(where string, reason any, stack []byte) {
			if !e.killed() {
				onPanic(where, reason, stack)
			}
		}
	}
	if o.Logger != nil {
		o.Logger = slog.New(&logHandler{o.Logger.Handler(), e})
	}
	e.Env = real.New(o)
	return e
}

// Freeze stops the node, as kill -STOP does: its connections stay, and nobody answers there.
func (e *Env) Freeze() { e.gate.set(func() { e.gate.frozen = true }) }

// Thaw lets a frozen node go on.
func (e *Env) Thaw() { e.gate.set(func() { e.gate.frozen = false }) }

// CutOff holds up everything that goes between the node and the network: what is sent and what arrives waits for Reconnect. With
// addresses, only what goes over connections that this node has made to them.
func (e *Env) CutOff(addresses ...string) {
	e.gate.set(func() {
		e.gate.cut = e.gate.cut || len(addresses) == 0
		for _, a := range addresses {
			e.gate.cutFrom[a] = true
		}
	})
}

// Reconnect ends what CutOff began, for these addresses or altogether. What was held up goes on its way.
func (e *Env) Reconnect(addresses ...string) {
	e.gate.set(func() {
		if len(addresses) == 0 {
			e.gate.cut = false
			clear(e.gate.cutFrom)
		}
		for _, a := range addresses {
			delete(e.gate.cutFrom, a)
		}
	})
	e.mu.Lock()
	conns := make([]*conn, 0, len(e.conns))
	for k := range e.conns {
		conns = append(conns, k)
	}
	e.mu.Unlock()
	for _, k := range conns {
		k.flush()
	}
}

// Kill ends the node at once, as kill -9 does, and returns when nothing of it is left: no goroutine, socket, file or lock.
func (e *Env) Kill() {
	e.gate.set(func() { e.gate.killed = true })
	e.mu.Lock()
	e.dead = true
	conns, queues, open := e.conns, e.queues, e.open
	e.conns, e.queues, e.open = nil, nil, nil
	e.mu.Unlock()
	for c := range open {
		if l, ok := c.(env.Listener); ok {
			_ = l.Close()
			delete(open, c)
		}
	}
	for k := range conns {
		k.whole()
		k.Close()
		<-k.closed
	}
	e.gate.await(func() bool { return e.gate.running == 0 && e.gate.sending == 0 })
	var all sync.WaitGroup
	for q := range queues {
		all.Add(1)
		q.Close(all.Done)
	}
	all.Wait()
	for c := range open {
		_ = c.Close()
	}
}

// logHandler writes what a node logs while it lives.
type logHandler struct {
	slog.Handler
	e *Env
}

func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(ctx, l) && !h.e.killed()
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs), h.e}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.e}
}

func (e *Env) killed() bool {
	e.gate.mu.Lock()
	defer e.gate.mu.Unlock()
	return e.gate.killed
}

// AfterFunc runs fn unless the node is dead by then.
func (e *Env) AfterFunc(d time.Duration, fn func()) env.Timer {
	return e.Env.AfterFunc(d, func() { e.gate.run(fn) })
}

// Go runs fn on a goroutine.
func (e *Env) Go(name string, fn func()) {
	e.Env.Go(name, func() { e.gate.run(fn) })
}

// NewQueue makes a queue whose functions pass the gate.
func (e *Env) NewQueue(name string) env.Queue {
	q := e.Env.NewQueue(name)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		q.Close(nil)
	} else {
		e.queues[q] = struct{}{}
	}
	return &queue{q, e}
}

type queue struct {
	env.Queue
	e *Env
}

func (q *queue) Post(name string, fn func()) {
	q.Queue.Post(name, func() { q.e.gate.run(fn) })
}

func (q *queue) After(d time.Duration, name string, fn func()) env.Timer {
	return q.Queue.After(d, name, func() { q.e.gate.run(fn) })
}

func (q *queue) Close(done func()) {
	q.Queue.Close(func() {
		q.e.mu.Lock()
		delete(q.e.queues, q.Queue)
		q.e.mu.Unlock()
		if done != nil {
			q.e.gate.run(done)
		}
	})
}
