package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/image"
)

// Options bound what clients can do.
type Options struct {
	MaxRequest    int           // socket.request.max.bytes
	IdleTimeout   time.Duration // connections.max.idle.ms
	SendBuffer    int           // socket.send.buffer.bytes
	ReceiveBuffer int           // socket.receive.buffer.bytes

	// Of one connection: so many requests, and so many bytes of them, may be unanswered before no more is read.
	MaxInFlight      int
	MaxInFlightBytes int

	// Who the node is, for clients that say whom they mean.
	ClusterID string
	NodeID    int32

	// Image tells which features are finalized. Any goroutine.
	Image func() *image.Image
	// KRaftVersion is the finalized level of kraft.version. Any goroutine.
	KRaftVersion func() int16
}

// OptionsFrom takes the bounds from a node's settings.
func OptionsFrom(n *config.Node) Options {
	o := Options{
		MaxRequest: n.Int("socket.request.max.bytes"),
		SendBuffer: n.Int("socket.send.buffer.bytes"), ReceiveBuffer: n.Int("socket.receive.buffer.bytes"),
		MaxInFlight: 32, MaxInFlightBytes: 8 << 20, NodeID: n.NodeID,
	}
	if ms := n.Long("connections.max.idle.ms"); ms > 0 {
		o.IdleTimeout = time.Duration(ms) * time.Millisecond
	}
	return o
}

// Server is the listeners of a node and their connections.
type Server struct {
	env     env.Env
	o       Options
	connIDs atomic.Uint64
	log     *garbageLog

	mu        sync.Mutex
	listeners []*listener
	conns     map[*connection]struct{}
}

// listener is one of them. Until it serves, its connections wait.
type listener struct {
	s       *Server
	name    string
	kind    Kind
	l       env.Listener
	table   map[int16]*api // set before it serves
	serving bool           // guarded by Server.mu
}

// New makes a server without listeners.
func New(e env.Env, o Options) *Server {
	return &Server{env: e, o: o, conns: map[*connection]struct{}{}, log: newGarbageLog(e)}
}

// Bind says whom the listeners that are there serve. It comes before Serve.
func (s *Server) Bind(t Targets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []Kind{OnBroker, OnController} {
		v := &versions{o: &s.o, kind: kind}
		t.versions, t.sasl, t.envelopes = v, new(sasl), newEnvelopes(&t)
		v.table = bind(&t, kind)
		if t.envelopes != nil {
			t.envelopes.table = v.table
		}
		for _, l := range s.listeners {
			if l.kind == kind {
				l.table = v.table
			}
		}
	}
}

// Listen opens a listener and returns its address, with the port filled in. Connections are taken at once and wait until Serve is
// called with the same name.
func (s *Server) Listen(name, addr string, kind Kind) (string, error) {
	l := &listener{s: s, name: name, kind: kind}
	var err error
	l.l, err = s.env.Net().Listen(addr, env.ListenOptions{
		MaxMessage: s.o.MaxRequest, IdleTimeout: s.o.IdleTimeout, SendBuffer: s.o.SendBuffer, ReceiveBuffer: s.o.ReceiveBuffer,
	}, l.accept)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
	return l.l.Addr(), nil
}

// accept makes the handler of a connection.
func (l *listener) accept(c env.Conn) env.Handler {
	k := &connection{l: l, s: l.s, conn: c, id: l.s.connIDs.Add(1), remote: c.RemoteAddr(), local: c.LocalAddr()}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.conns[k] = struct{}{}
	if !l.serving {
		k.waiting = true
		c.Pause()
	}
	return k
}

// Serve begins to read requests that come in on a listener.
func (s *Server) Serve(name string) {
	s.mu.Lock()
	var waiting []*connection
	for _, l := range s.listeners {
		if l.name == name {
			l.serving = true
		}
	}
	for k := range s.conns {
		if k.waiting && k.l.serving {
			k.waiting = false
			waiting = append(waiting, k)
		}
	}
	s.mu.Unlock()
	for _, k := range waiting {
		k.conn.Resume()
	}
}

// StopListening closes the listeners, so that nobody new comes. Connections go on.
func (s *Server) StopListening() {
	s.mu.Lock()
	listeners := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.l.Close() // there is nothing to be done about it
	}
}

// Close ends the listeners and all connections.
func (s *Server) Close() {
	s.StopListening()
	s.mu.Lock()
	conns := make([]*connection, 0, len(s.conns))
	for k := range s.conns {
		conns = append(conns, k)
	}
	s.mu.Unlock()
	sortByID(conns)
	for _, k := range conns {
		k.conn.Close()
	}
}

// Connections is the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) forget(k *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, k)
}
