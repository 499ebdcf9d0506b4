package process

import (
	"sync"

	"github.com/ottla-io/ottla/internal/env"
)

// Net is TCP, as far as the node is not frozen, cut off or dead.
func (e *Env) Net() env.Network { return &network{e.Env.Net(), e} }

type network struct {
	inner env.Network
	e     *Env
}

// Listen takes connections; whoever connects to a frozen node is not answered.
func (n *network) Listen(addr string, o env.ListenOptions, accept func(env.Conn) env.Handler) (env.Listener, error) {
	inner, err := n.inner.Listen(addr, o, func(c env.Conn) env.Handler {
		k := n.e.newConn("")
		if k == nil {
			return nil
		}
		k.Conn = c
		h := &handler{k: k}
		if !n.e.gate.enter(k.held) {
			k.end()
			return nil
		}
		defer n.e.gate.leave()
		if h.Handler = accept(k); h.Handler == nil {
			k.end()
			return nil
		}
		return h
	})
	if err != nil {
		return nil, err
	}
	l := &listener{inner, n.e}
	return l, n.e.keep(inner)
}

type listener struct {
	env.Listener
	e *Env
}

func (l *listener) Close() error {
	l.e.forget(l.Listener)
	return l.Listener.Close()
}

// Dial connects.
func (n *network) Dial(addr string, o env.DialOptions, h env.Handler) env.Conn {
	k := n.e.newConn(addr)
	if k == nil {
		return &conn{Conn: deadConn{}, e: n.e}
	}
	k.mu.Lock() // the handler waits until k is whole
	defer k.mu.Unlock()
	k.Conn = n.inner.Dial(addr, o, &handler{Handler: h, k: k})
	return k
}

// conn is a connection of the node.
type conn struct {
	env.Conn
	e      *Env
	addr   string        // that was dialled; empty if it was accepted
	closed chan struct{} // when the handler was told, or does not exist
	ending bool          // closed by the node itself, or over; guarded by gate.mu

	mu      sync.Mutex
	waiting []env.Outgoing // held up
}

// newConn notes a connection; nil if the node is dead.
func (e *Env) newConn(addr string) *conn {
	k := &conn{e: e, addr: addr, closed: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return nil
	}
	e.conns[k] = struct{}{}
	return k
}

// held says that nothing gets through now. The gate is locked.
func (k *conn) held() bool {
	return !k.ending && (k.e.gate.cut || k.addr != "" && k.e.gate.cutFrom[k.addr])
}

// end forgets the connection.
func (k *conn) end() {
	k.e.gate.set(func() { k.ending = true })
	k.e.mu.Lock()
	delete(k.e.conns, k)
	k.e.mu.Unlock()
	k.mu.Lock()
	waiting := k.waiting
	k.waiting = nil
	k.mu.Unlock()
	for _, o := range waiting {
		o.Done()
	}
	close(k.closed)
}

// Send passes a frame on, or keeps it until the network is there again.
func (k *conn) Send(o env.Outgoing) {
	for i, p := range o.Parts {
		if f, ok := p.File.(*file); ok {
			o.Parts[i].File = f.File
		}
	}
	g, done := k.e.gate, o.Done
	o.Done = func() {
		if done != nil {
			done()
		}
		g.set(func() { g.sending-- })
	}
	g.mu.Lock()
	g.sending++
	held := k.held() && !g.killed
	if held {
		k.mu.Lock()
		k.waiting = append(k.waiting, o)
		k.mu.Unlock()
	}
	g.mu.Unlock()
	if !held {
		k.flush()
		k.Conn.Send(o)
	}
}

// flush sends what waits.
func (k *conn) flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range k.waiting {
		k.Conn.Send(o)
	}
	k.waiting = nil
}

// Close ends the connection, whatever is held up.
func (k *conn) Close() {
	k.e.gate.set(func() { k.ending = true })
	k.Conn.Close()
}

// handler is told what happens to a connection when the gate lets it.
type handler struct {
	env.Handler
	k *conn
}

func (h *handler) Opened(env.Conn) {
	h.k.whole()
	if h.k.e.gate.enter(h.k.held) {
		defer h.k.e.gate.leave()
		h.Handler.Opened(h.k)
	}
}

func (h *handler) Message(_ env.Conn, b *env.Buffer) {
	if !h.k.e.gate.enter(h.k.held) {
		b.Release()
		return
	}
	defer h.k.e.gate.leave()
	h.Handler.Message(h.k, b)
}

func (h *handler) Closed(_ env.Conn, err error) {
	h.k.whole()
	defer h.k.end()
	if h.k.e.gate.enter(h.k.held) {
		defer h.k.e.gate.leave()
		h.Handler.Closed(h.k, err)
	}
}

// whole waits until Dial has made the connection.
func (k *conn) whole() {
	k.mu.Lock()
	defer k.mu.Unlock()
}

// deadConn is what a dead node dials.
type deadConn struct{}

func (deadConn) Send(o env.Outgoing) {
	if o.Done != nil {
		go o.Done()
	}
}
func (deadConn) Close()             {}
func (deadConn) Pause()             {}
func (deadConn) Resume()            {}
func (deadConn) SetMaxMessage(int)  {}
func (deadConn) LocalAddr() string  { return "" }
func (deadConn) RemoteAddr() string { return "" }
