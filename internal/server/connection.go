package server

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
)

// anonymous is who a client is that did not say so.
const anonymous = "User:ANONYMOUS"

// connection is a client. Requests start in the order in which they came, before the answers to earlier ones are there; answers
// leave in that order.
type connection struct {
	s             *Server
	l             *listener
	conn          env.Conn
	id            uint64
	remote, local string
	waiting       bool // for its listener to serve; guarded by Server.mu

	// Of the reader.
	decoder  wire.Decoder
	clientID string // the last one, so that it is not copied each time

	mu                            sync.Mutex
	first, last                   *call // not answered yet, in order
	calls                         int   // whose answers are not written yet
	bytes                         int   // of their requests
	paused                        bool
	closed                        bool
	softwareName, softwareVersion string
}

// Opened is for connections that we make.
func (k *connection) Opened(env.Conn) {}

// Message starts a request.
func (k *connection) Message(_ env.Conn, b *env.Buffer) {
	h, err := parseHeader(b.B)
	if err != nil {
		b.Release()
		k.drop("invalid request header", err)
		return
	}
	a := k.l.table[h.key]
	switch {
	case a == nil:
		b.Release()
		k.drop("unsupported api", fmt.Errorf("api key %d, version %d", h.key, h.version))
		return
	case h.version < a.min || h.version > a.max:
		b.Release()
		if h.key == protocol.KeyApiVersions {
			k.unsupportedApiVersions(a, h)
			return
		}
		k.drop("unsupported version", fmt.Errorf("version %d of %s", h.version, a))
		return
	}
	x := a.make()
	k.begin(x.base(), a, h, b)
	k.decoder.Reset(h.body)
	if err := x.decode(&k.decoder, h.version); err != nil {
		k.drop("invalid request", fmt.Errorf("%s version %d: %w", a, h.version, err))
		x.base().finish(callSilent)
		return
	}
	k.noteSoftware(x)
	x.handle()
}

// begin puts a call at the end of those that are under way.
func (k *connection) begin(c *call, a *api, h header, b *env.Buffer) {
	if string(h.clientID) != k.clientID {
		k.clientID = string(h.clientID)
	}
	c.conn, c.api, c.frame, c.size, c.state = k, a, b, len(b.B), callOpen
	k.mu.Lock()
	c.ctx = rpc.Context{
		ClientID: k.clientID, APIKey: h.key, APIVersion: h.version, CorrelationID: h.correlationID, Listener: k.l.name,
		Principal: anonymous, RemoteAddr: k.remote, LocalAddr: k.local, ConnID: k.id,
		ClientSoftwareName: k.softwareName, ClientSoftwareVersion: k.softwareVersion, CloseConn: k.closeFor,
	}
	k.append(c)
	k.mu.Unlock()
}

// append adds a call, and stops reading when there are enough. mu is held.
func (k *connection) append(c *call) {
	c.next = nil
	if k.last == nil {
		k.first = c
	} else {
		k.last.next = c
	}
	k.last = c
	k.calls++
	k.bytes += c.size
	if !k.paused && (k.calls >= k.s.o.MaxInFlight || k.bytes >= k.s.o.MaxInFlightBytes) {
		k.paused = true
		k.conn.Pause()
	}
}

// unsupportedApiVersions answers a client from the future in version 0, so that it can ask again.
func (k *connection) unsupportedApiVersions(a *api, h header) {
	x := &typedCall[*versions, protocol.ApiVersionsRequest, protocol.ApiVersionsResponse, *protocol.ApiVersionsRequest, *protocol.ApiVersionsResponse]{}
	x.sent = x.done
	h.version = 0
	k.begin(&x.call, a, h, env.NewBuffer(0))
	x.complete(callAnswered, unsupportedVersion(a))
}

// noteSoftware keeps what a client says about itself (KIP-511).
func (k *connection) noteSoftware(x exchange) {
	c := x.base()
	if c.api.key != protocol.KeyApiVersions || c.ctx.APIVersion < 3 {
		return
	}
	if req, ok := x.request().(*protocol.ApiVersionsRequest); ok && validSoftware(req) {
		k.mu.Lock()
		k.softwareName, k.softwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
		k.mu.Unlock()
	}
}

// answered takes the answer of a call. What can leave now leaves.
func (k *connection) answered(c *call, state callState) {
	var silent []*call
	k.mu.Lock()
	if c.frame != nil {
		c.frame.Release()
		c.frame = nil
	}
	c.state = state
	for k.first != nil && k.first.state != callOpen {
		c := k.first
		if k.first = c.next; k.first == nil {
			k.last = nil
		}
		c.next = nil
		if c.state == callSilent || k.closed {
			silent = append(silent, c)
			continue
		}
		c.state = callDone
		k.conn.Send(env.Outgoing{Parts: c.parts, Done: c.sent})
	}
	k.mu.Unlock()
	for _, c := range silent {
		c.done()
	}
}

// finished says that the answer of a call of so many bytes was written or dropped.
func (k *connection) finished(c *call) {
	k.mu.Lock()
	k.calls--
	k.bytes -= c.size
	resume := k.paused && k.calls <= k.s.o.MaxInFlight/2 && k.bytes <= k.s.o.MaxInFlightBytes/2
	if resume {
		k.paused = false
	}
	k.mu.Unlock()
	if resume {
		k.conn.Resume()
	}
}

// closeFor is rpc.Context.CloseConn.
func (k *connection) closeFor(reason string) { k.drop(reason, nil) }

// fail ends the connection because of an answer of ours.
func (k *connection) fail(what string, c *call, err error) {
	k.s.env.Logger().Error("Closing connection: "+what, "peer", k.remote, "api", c.api.String(), "version", c.ctx.APIVersion, "err", err)
	k.conn.Close()
}

// drop ends the connection because of what the client sent.
func (k *connection) drop(what string, err error) {
	k.mu.Lock()
	again := k.closed
	k.closed = true
	k.mu.Unlock()
	if !again {
		k.s.log.line(what, k, err)
		k.conn.Close()
	}
}

// Closed is the last call of the connection.
func (k *connection) Closed(_ env.Conn, err error) {
	k.mu.Lock()
	again := k.closed
	k.closed = true
	k.mu.Unlock()
	k.s.forget(k)
	var frame *env.FrameError
	switch {
	case again || err == nil:
	case errors.As(err, &frame):
		k.s.log.line("invalid frame", k, err)
	case errors.Is(err, env.ErrIdle):
		k.s.env.Logger().Debug("Closing idle connection", "peer", k.remote, "listener", k.l.name)
	default:
		k.s.env.Logger().Debug("Connection broke", "peer", k.remote, "listener", k.l.name, "err", err)
	}
}

func sortByID(conns []*connection) {
	slices.SortFunc(conns, func(a, b *connection) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
}
