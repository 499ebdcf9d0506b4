package real

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

type network struct {
	env *Env
}

const (
	defaultDialTimeout = 30 * time.Second
	defaultMaxMessage  = 100 << 20
)

// Listen binds at once; connections are accepted on a goroutine.
func (n *network) Listen(addr string, o env.ListenOptions, accept func(env.Conn) env.Handler) (env.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	ln := &listener{l: l}
	go n.accept(l, o, accept)
	return ln, nil
}

type listener struct {
	l net.Listener
}

func (l *listener) Addr() string { return l.l.Addr().String() }
func (l *listener) Close() error { return l.l.Close() }

func (n *network) accept(l net.Listener, o env.ListenOptions, accept func(env.Conn) env.Handler) {
	pause := time.Millisecond
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, say: wait for some to close
			n.env.logger.Warn("accepting a connection failed", "listener", l.Addr().String(), "error", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		n.tune(c, o)
		if o.TLS != nil {
			c = tls.Server(c, o.TLS)
		}
		conn := newConn(n.env, c, o.MaxMessage, o.IdleTimeout)
		go n.env.guard("connection "+conn.RemoteAddr(), func() {
			conn.handler = accept(conn)
			conn.read()
		})
	}
}

func (n *network) tune(c net.Conn, o env.ListenOptions) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if o.SendBuffer > 0 {
		_ = t.SetWriteBuffer(o.SendBuffer) // a hint: the system may clip or refuse it
	}
	if o.ReceiveBuffer > 0 {
		_ = t.SetReadBuffer(o.ReceiveBuffer)
	}
}

// Dial connects on a goroutine. What is sent before that waits.
func (n *network) Dial(addr string, o env.DialOptions, h env.Handler) env.Conn {
	if o.Timeout == 0 {
		o.Timeout = defaultDialTimeout
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = defaultMaxMessage
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	conn := newConn(n.env, nil, o.MaxMessage, 0)
	conn.handler, conn.remote, conn.cancelDial = h, addr, cancel
	go n.env.guard("connection to "+addr, func() {
		defer cancel()
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil && o.TLS != nil {
			t := tls.Client(c, o.TLS)
			if err = t.HandshakeContext(ctx); err != nil {
				_ = c.Close() // the handshake's error says more
			}
			c = t
		}
		if err != nil {
			conn.end(err)
			return
		}
		if !conn.opened(c) {
			return
		}
		h.Opened(conn)
		conn.read()
	})
	return conn
}

// gate lets a reader pass, or makes it wait while somebody has paused it.
type gate struct {
	mu     sync.Mutex
	cond   sync.Cond
	paused bool
	closed bool
}

func (g *gate) set(paused bool) {
	g.mu.Lock()
	g.paused = paused
	g.mu.Unlock()
	g.cond.Broadcast()
}

func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cond.Broadcast()
}

// wait returns false once the gate is closed.
func (g *gate) wait() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.paused && !g.closed {
		g.cond.Wait()
	}
	return !g.closed
}
