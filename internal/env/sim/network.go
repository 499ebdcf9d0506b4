package sim

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

const firstPort = 30001 // given to listeners that ask for any, and to the dialling side of connections

// link is one direction between two machines.
type link struct{ from, to string }

// Cut stops everything from one machine to another, in this direction only. Frames wait, as TCP keeps sending them
// again; connections die of it after NetworkFaults.DeadAfter.
func (w *World) Cut(from, to string) {
	if !w.cuts[link{from, to}] {
		w.note(nil, "cut", from+">"+to)
		w.Count("link cut")
		w.cuts[link{from, to}] = true
	}
}

// Heal ends Cut. What waited arrives within a second.
func (w *World) Heal(from, to string) {
	if !w.cuts[link{from, to}] {
		return
	}
	w.note(nil, "heal", from+">"+to)
	delete(w.cuts, link{from, to})
	if n := w.Node(from); n != nil && !n.dead {
		for _, id := range sortedKeys(n.conns) {
			n.conns[id].resend()
		}
	}
}

// Partition cuts every link between machines of different groups, in both directions. Machines that are in no group
// keep their links.
func (w *World) Partition(groups ...[]string) {
	for i, group := range groups {
		for j, others := range groups {
			if i == j {
				continue
			}
			for _, from := range group {
				for _, to := range others {
					w.Cut(from, to)
				}
			}
		}
	}
}

// HealAll ends every cut.
func (w *World) HealAll() {
	for _, from := range w.machines {
		for _, to := range w.machines {
			w.Heal(from.name, to.name)
		}
	}
}

// Reset breaks all connections between two machines, as something on the way may do although both live.
func (w *World) Reset(a, b string) {
	w.note(nil, "reset", a+"<>"+b)
	n := w.Node(a)
	if n == nil || n.dead {
		return
	}
	for _, id := range sortedKeys(n.conns) {
		if c := n.conns[id]; c.remoteMachine == b && c.peer != nil && c.state == open {
			w.Count("connection reset")
			c.peer.fail(w.latency(), errReset)
			c.fail(w.latency(), errReset)
		}
	}
}

// Refuse has every attempt to connect in this direction refused, although somebody listens, until Admit.
func (w *World) Refuse(from, to string) {
	w.note(nil, "refuse", from+">"+to)
	w.refuses[link{from, to}] = true
}

// Admit ends Refuse.
func (w *World) Admit(from, to string) {
	w.note(nil, "admit", from+">"+to)
	delete(w.refuses, link{from, to})
}

// latency of one frame, faults included.
func (w *World) latency() time.Duration {
	f := &w.o.Network
	d := w.Net.Between(f.MinLatency, f.MaxLatency)
	if w.Net.Chance(f.Late) {
		w.Count("frame late")
		d += w.Net.Between(0, f.LateBy)
	}
	for again := 200 * time.Millisecond; w.Net.Chance(f.Lose); again *= 2 {
		w.Count("frame lost and sent again")
		d += again
	}
	return d
}

// network is the view of one node.
type network struct{ n *Node }

type listener struct {
	n      *Node
	port   int
	o      env.ListenOptions
	accept func(env.Conn) env.Handler
	closed bool
}

// Listen binds a port of the machine, whatever the host in addr.
func (net network) Listen(addr string, o env.ListenOptions, accept func(env.Conn) env.Handler) (env.Listener, error) {
	m := net.n.m
	host, port, err := splitAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("listen tcp %s: %w", addr, err)
	}
	if net.n.dead {
		return nil, fmt.Errorf("listen tcp %s: %w", addr, errDead)
	}
	if target := m.w.resolve(m, host); target != m {
		return nil, fmt.Errorf("listen tcp %s: %w", addr, syscall.EADDRNOTAVAIL)
	}
	if port == 0 {
		port = m.anyPort()
	}
	if m.ports[port] != nil {
		return nil, fmt.Errorf("listen tcp %s: %w", addr, syscall.EADDRINUSE)
	}
	l := &listener{n: net.n, port: port, o: o, accept: accept}
	m.ports[port] = l
	return l, nil
}

func (m *machine) anyPort() int {
	for m.ports[m.nextPort] != nil {
		m.nextPort++
	}
	m.nextPort++
	return m.nextPort - 1
}

func (l *listener) Addr() string { return l.n.m.name + ":" + strconv.Itoa(l.port) }

func (l *listener) Close() error {
	if l.closed {
		return fmt.Errorf("close tcp %s: %w", l.Addr(), os.ErrClosed)
	}
	l.closed = true
	if !l.n.dead {
		delete(l.n.m.ports, l.port)
	}
	return nil
}

func splitAddress(addr string) (host string, port int, err error) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", 0, errors.New("missing port in address")
	}
	port, err = strconv.Atoi(addr[i+1:])
	if err != nil || port < 0 || port > 65535 {
		return "", 0, errors.New("invalid port")
	}
	return addr[:i], port, nil
}

// resolve gives the machine that a host name means on m; nil if there is none.
func (w *World) resolve(m *machine, host string) *machine {
	switch host {
	case "", "0.0.0.0", "[::]", "localhost", "127.0.0.1", "[::1]":
		return m
	}
	return w.machine(host)
}

const defaultDialTimeout = 30 * time.Second

// Dial sends the first packet at once.
func (net network) Dial(addr string, o env.DialOptions, h env.Handler) env.Conn {
	w := net.n.w
	if o.Timeout == 0 {
		o.Timeout = defaultDialTimeout
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 100 << 20
	}
	c := w.newConn(net.n, o.MaxMessage, 0)
	c.handler, c.dialled, c.remote = h, true, addr
	if net.n.dead {
		return c
	}
	host, port, err := splitAddress(addr)
	to := w.resolve(net.n.m, host)
	switch {
	case err != nil:
	case to == nil:
		err = errors.New("no such host")
	}
	if err != nil {
		c.fail(0, fmt.Errorf("dial tcp %s: %w", addr, err))
		return c
	}
	c.local = net.n.m.name + ":" + strconv.Itoa(net.n.m.anyPort())
	c.remoteMachine = to.name
	c.dialTimeout = w.schedule(o.Timeout, net.n, "timer", "dial "+addr, func() {
		c.breakNow(fmt.Errorf("dial tcp %s: i/o timeout", addr))
	})
	if w.cuts[link{net.n.m.name, to.name}] {
		w.Count("dial into a cut link")
		return c
	}
	fails := w.Net.Chance(w.o.Network.DialFail) || w.refuses[link{net.n.m.name, to.name}]
	w.schedule(w.latency(), nil, "dial", c.local+">"+to.name+":"+strconv.Itoa(port), func() { w.syn(c, to, port, fails) })
	return c
}

// syn arrives at the other machine. The kernel answers, so a frozen process accepts too.
func (w *World) syn(c *conn, to *machine, port int, fails bool) {
	if c.state != dialling || c.n.dead {
		return
	}
	if to.powerless && w.Crashes.Chance(0.5) || w.cuts[link{to.name, c.n.m.name}] {
		return // no answer
	}
	l := to.ports[port]
	if fails {
		w.Count("dial failed")
	}
	if l == nil || fails {
		c.fail(w.latency(), env.Refused(fmt.Errorf("dial tcp %s: %w", c.remote, syscall.ECONNREFUSED)))
		return
	}
	peer := w.newConn(l.n, l.o.MaxMessage, l.o.IdleTimeout)
	peer.local, peer.remote, peer.remoteMachine = to.name+":"+strconv.Itoa(port), c.local, c.n.m.name
	peer.peer, c.peer = c, peer
	peer.state = open
	arrival := w.Now() + w.latency()
	c.in.lastArrival = arrival
	w.schedule(0, l.n, "accept", peer.remote+">"+peer.local, func() {
		if peer.state != open {
			return
		}
		peer.handler = l.accept(peer)
		if peer.handler == nil {
			peer.Close()
			return
		}
		peer.watchIdle()
		peer.drain()
	})
	w.scheduleAt(arrival, c.n, "opened", c.local+">"+c.remote, func() {
		if c.state != dialling {
			return
		}
		c.dialTimeout.cancel(w)
		c.state = open
		c.handler.Opened(c)
		c.wakeWriter()
		c.drain()
	})
}

func (ev *event) cancel(w *World) {
	if ev != nil {
		timer{w, ev}.Stop()
	}
}
