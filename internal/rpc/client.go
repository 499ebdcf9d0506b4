package rpc

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// Errors of Client.Send, besides those of dialling and of encoding the request.
var (
	ErrTimeout      = errors.New("no answer in time")
	ErrDisconnected = errors.New("the connection broke before the answer came")
	ErrClosed       = errors.New("the client is closed")
)

const (
	dialTimeout = 10 * time.Second // socket.connection.setup.timeout.ms
	minBackoff  = 50 * time.Millisecond
	maxBackoff  = time.Second
)

// Client talks to one address over one connection, which it makes when there is something to send, and makes again
// after it broke. Any goroutine may use it.
type Client struct {
	e        env.Env
	addr     string
	clientID string

	mu       sync.Mutex // never held while somebody else's code runs
	session  *session   // the connection; nil = none, and perhaps one soon
	waiting  []*call    // not yet sent, in order
	sent     []*call    // in the order of the answers to come
	next     int32      // correlation id
	failures int        // attempts to connect, since the last that succeeded
	backoff  env.Timer  // will connect
	closed   bool
}

// call is a request under way.
type call struct {
	key, version  int16
	correlationID int32
	frame         []byte
	oneWay        bool // nobody will answer
	timer         env.Timer
	done          func(protocol.Response, error)
}

// session is one connection of a Client.
type session struct {
	client *Client
	conn   env.Conn
	opened bool
}

// NewClient makes a client; it connects when it is first used.
func NewClient(e env.Env, addr, clientID string) *Client {
	return &Client{e: e, addr: addr, clientID: clientID}
}

// Addr is the address that the client talks to.
func (c *Client) Addr() string { return c.addr }

// Send sends a request at the given version and calls done once: with the answer, whose bytes stay valid, or with an
// error. done never runs inside Send. While there is no connection requests wait for one; if it cannot be made, they
// fail. After a failed attempt the next one comes 50 ms later, then up to a second. A request that was not answered
// within timeout ends its connection, since answers come in order: other requests that were sent fail with
// ErrDisconnected. The server may have carried out what fails here. The answer to a Produce request with acks=0 is
// nil, once it was written.
func (c *Client) Send(req protocol.Request, version int16, timeout time.Duration, done func(protocol.Response, error)) {
	k := &call{key: req.APIKey(), version: version, done: done}
	if p, ok := req.(*protocol.ProduceRequest); ok && p.Acks == 0 {
		k.oneWay = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.correlationID = c.next
	c.next++
	frame, err := c.encode(req, k)
	if err != nil {
		c.failLater(k, err)
		return
	}
	if c.closed {
		c.failLater(k, ErrClosed)
		return
	}
	k.frame = frame
	k.timer = c.e.AfterFunc(timeout, func() { c.timedOut(k) })
	c.waiting = append(c.waiting, k)
	switch {
	case c.session != nil && c.session.opened:
		c.sendWaiting()
	case c.session == nil && c.backoff == nil:
		c.connect()
	}
}

func (c *Client) encode(req protocol.Request, k *call) ([]byte, error) {
	hv := protocol.RequestHeaderVersion(k.key, k.version)
	if hv < 0 {
		return nil, fmt.Errorf("encode request: there is no API %d", k.key)
	}
	h := protocol.NewRequestHeader()
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId, h.ClientId = k.key, k.version, k.correlationID, &c.clientID
	b, err := h.Encode(make([]byte, 0, 256), hv)
	if err == nil {
		b, err = req.Encode(b, k.version)
	}
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return b, nil
}

// failLater ends a call outside the caller's stack.
func (c *Client) failLater(k *call, err error) {
	c.e.AfterFunc(0, func() { k.finish(nil, err) })
}

// finish must be called once, without the lock, by whoever took the call out of the client's lists.
func (k *call) finish(resp protocol.Response, err error) {
	if k.timer != nil {
		k.timer.Stop()
	}
	k.done(resp, err)
}

// connect is called with the lock held, when there is no session.
func (c *Client) connect() {
	s := &session{client: c}
	c.session = s
	s.conn = c.e.Net().Dial(c.addr, env.DialOptions{Timeout: dialTimeout}, s)
}

// sendWaiting is called with the lock held.
func (c *Client) sendWaiting() {
	for _, k := range c.waiting {
		o := env.Outgoing{Parts: []env.Part{{Bytes: k.frame}}}
		k.frame = nil
		if k.oneWay {
			o.Done = func() { c.written(k) }
		}
		c.sent = append(c.sent, k)
		c.session.conn.Send(o)
	}
	c.waiting = nil
}

// written ends a call that nobody answers. (If it was dropped instead, its session has ended, or is about to.)
func (c *Client) written(k *call) {
	c.mu.Lock()
	found := remove(&c.sent, k)
	c.mu.Unlock()
	if found {
		k.finish(nil, nil)
	}
}

func remove(list *[]*call, k *call) bool {
	for i, other := range *list {
		if other == k {
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			return true
		}
	}
	return false
}

func (c *Client) timedOut(k *call) {
	c.mu.Lock()
	found := remove(&c.waiting, k)
	var broken []*call
	if found && len(c.waiting) == 0 && c.session != nil && !c.session.opened {
		c.drop() // nobody waits for this attempt any more; the next request makes one of its own
	}
	if !found && remove(&c.sent, k) {
		found = true
		broken = c.drop()
	}
	c.mu.Unlock()
	if !found {
		return
	}
	k.finish(nil, fmt.Errorf("%w from %s", ErrTimeout, c.addr))
	c.finishAll(broken, fmt.Errorf("%w: %s did not answer another request", ErrDisconnected, c.addr))
}

func (c *Client) finishAll(calls []*call, err error) {
	for _, k := range calls {
		k.finish(nil, err)
	}
}

// drop closes the connection and returns the requests that were sent on it. Those that wait get a new one. The lock
// is held.
func (c *Client) drop() (sent []*call) {
	if c.session != nil {
		c.session.conn.Close()
		c.session = nil
	}
	sent, c.sent = c.sent, nil
	if len(c.waiting) > 0 && !c.closed {
		c.connectLater()
	}
	return sent
}

// connectLater waits a while that doubles with each attempt that failed, plus or minus a fifth. The lock is held.
func (c *Client) connectLater() {
	d := min(minBackoff<<min(c.failures, 10), maxBackoff)
	d = d*4/5 + time.Duration(c.e.Rand().IntN(int(d)*2/5))
	c.backoff = c.e.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.backoff = nil
		if !c.closed && c.session == nil && len(c.waiting) > 0 {
			c.connect()
		}
	})
}

// Close ends the connection. Requests under way fail with ErrClosed.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if c.backoff != nil {
		c.backoff.Stop()
	}
	for _, k := range append(c.drop(), c.waiting...) {
		c.failLater(k, ErrClosed)
	}
	c.waiting = nil
}

// Opened sends what has waited.
func (s *session) Opened(conn env.Conn) {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != s {
		return
	}
	s.conn, s.opened = conn, true
	c.failures = 0
	c.sendWaiting()
}

// Message gives an answer to the oldest request that has none. The buffer goes to the garbage collector: answers alias
// it.
func (s *session) Message(conn env.Conn, b *env.Buffer) {
	c := s.client
	c.mu.Lock()
	if c.session != s {
		c.mu.Unlock()
		return
	}
	k, resp, err := c.match(b.B)
	var broken []*call
	if err != nil {
		broken = c.drop()
	}
	c.mu.Unlock()
	if k != nil {
		k.finish(resp, err)
	}
	c.finishAll(broken, err)
}

// match finds the request of an answer and decodes it. The lock is held. After an error the connection is of no use
// any more.
func (c *Client) match(b []byte) (*call, protocol.Response, error) {
	for len(c.sent) > 0 && c.sent[0].oneWay { // was written, or this answer would not be here
		k := c.sent[0]
		c.sent = c.sent[1:]
		c.e.AfterFunc(0, func() { k.finish(nil, nil) })
	}
	if len(c.sent) == 0 {
		return nil, nil, fmt.Errorf("%w: %s sent an answer that nobody asked for", ErrDisconnected, c.addr)
	}
	k := c.sent[0]
	c.sent = c.sent[1:]
	resp, err := k.decode(b)
	if err != nil {
		return k, nil, fmt.Errorf("decode answer of %s: %w", c.addr, err)
	}
	return k, resp, nil
}

func (k *call) decode(b []byte) (protocol.Response, error) {
	d := wire.NewDecoder(b)
	var h protocol.ResponseHeader
	if err := h.Decode(d, protocol.ResponseHeaderVersion(k.key, k.version)); err != nil {
		return nil, err
	}
	if h.CorrelationId != k.correlationID {
		return nil, fmt.Errorf("correlation id is %d, not %d", h.CorrelationId, k.correlationID)
	}
	resp := protocol.NewResponse(k.key)
	if err := resp.Decode(d, k.version); err != nil {
		return nil, err
	}
	return resp, nil
}

// Closed fails what was sent; if the connection was never there, also what waits for it.
func (s *session) Closed(_ env.Conn, err error) {
	c := s.client
	c.mu.Lock()
	if c.session != s {
		c.mu.Unlock()
		return
	}
	c.session = nil
	calls := c.sent
	c.sent = nil
	if !s.opened {
		calls, c.waiting = append(calls, c.waiting...), nil
		c.connectLater()
		c.failures++
	} else {
		if err == nil {
			err = fmt.Errorf("%w: %s closed it", ErrDisconnected, c.addr)
		} else {
			err = fmt.Errorf("%w: %w", ErrDisconnected, err)
		}
		if len(c.waiting) > 0 {
			c.connectLater()
		}
	}
	c.mu.Unlock()
	c.finishAll(calls, err)
}
