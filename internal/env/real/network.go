package real

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

type network struct {
	env  *Env
	open func(addr string) (net.Listener, error)
}

const (
	defaultDialTimeout = 30 * time.Second
	defaultMaxMessage  = 100 << 20
)

// Listen binds at once; connections are accepted on a goroutine.
func (n *network) Listen(addr string, o env.ListenOptions, accept func(env.Conn) env.Handler) (env.Listener, error) {
	l, err := n.open(addr)
	if err != nil {
		return nil, err
	}
	ln := &listener{l: l, closed: make(chan struct{})}
	go n.accept(ln, o, accept)
	return ln, nil
}

type listener struct {
	l      net.Listener
	closed chan struct{}
}

func (l *listener) Addr() string { return l.l.Addr().String() }

func (l *listener) Close() error {
	err := l.l.Close()
	if err == nil { // the first time
		close(l.closed)
	}
	return err
}

func (n *network) accept(l *listener, o env.ListenOptions, accept func(env.Conn) env.Handler) {
	pause := time.Millisecond
	for {
		c, err := l.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, say: wait for some to close
			n.env.logger.Warn("accepting a connection did not work", "listener", l.Addr(), "error", err)
			select {
			case <-l.closed:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		tune(c, o)
		if o.TLS != nil {
			c = tls.Server(c, o.TLS)
		}
		k := newConn(n.env, o.MaxMessage, o.IdleTimeout)
		k.accepted = true
		k.attach(c)
		go k.run(func() bool {
			k.handler = accept(k)
			return k.handler != nil
		})
	}
}

// tune sets what the options name. Sizes are hints that the system may clip; a size also ends its own tuning.
func tune(c net.Conn, o env.ListenOptions) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if o.SendBuffer > 0 {
		_ = t.SetWriteBuffer(o.SendBuffer)
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
	k := newConn(n.env, o.MaxMessage, 0)
	k.handler, k.remote, k.cancelDial = h, addr, cancel
	go k.run(func() bool {
		defer cancel()
		c, err := dial(ctx, addr, o.TLS)
		if err != nil {
			k.shut(err)
			return false
		}
		if !k.attach(c) {
			return false
		}
		h.Opened(k)
		k.mu.Lock()
		k.startWriting()
		k.mu.Unlock()
		return true
	})
	return k
}

func dial(ctx context.Context, addr string, config *tls.Config) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil && isRefused(err) {
		c, err = dialEach(ctx, &d, addr, err)
	}
	if err != nil || config == nil {
		return c, err
	}
	if config.ServerName == "" && !config.InsecureSkipVerify {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			config = config.Clone()
			config.ServerName = host
		}
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return t, nil
}
