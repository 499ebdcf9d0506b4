package raft

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// destination is where a request goes. The id is NoNode for a server of which only the address is known.
type destination struct {
	id      int32
	address string
}

// transport carries requests to other nodes. done is called once, from any goroutine, never inside send.
type transport interface {
	send(to destination, req protocol.Request, version int16, timeout time.Duration, done func(protocol.Response, error))
	close()
}

// rpcTransport has one connection to each address.
type rpcTransport struct {
	env      env.Env
	clientID string

	mu      sync.Mutex
	clients map[string]*rpc.Client
}

func newRPCTransport(e env.Env, nodeID int32) *rpcTransport {
	return &rpcTransport{env: e, clientID: "raft-client-" + strconv.Itoa(int(nodeID)), clients: map[string]*rpc.Client{}}
}

func (t *rpcTransport) send(to destination, req protocol.Request, version int16, timeout time.Duration, done func(protocol.Response, error)) {
	t.mu.Lock()
	c := t.clients[to.address]
	if c == nil {
		c = rpc.NewClient(t.env, to.address, t.clientID)
		t.clients[to.address] = c
	}
	t.mu.Unlock()
	c.Send(req, version, timeout, done)
}

func (t *rpcTransport) close() {
	t.mu.Lock()
	clients := t.clients
	t.clients = map[string]*rpc.Client{}
	t.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(clients)) {
		clients[address].Close()
	}
}

// destination of a node of which endpoints are known.
func (q *Quorum) destination(id int32, endpoints []Endpoint) (destination, bool) {
	e, ok := q.pickEndpoint(endpoints)
	if !ok {
		return destination{}, false
	}
	return destination{id, e.address()}, true
}

// send asks another node; the answer, or the lack of it, comes back as an event.
func (q *Quorum) send(to destination, req protocol.Request, version int16, answer func(protocol.Response, error) Event) {
	q.net.send(to, req, version, q.cfg.RequestTimeout, func(resp protocol.Response, err error) {
		q.post(answer(resp, err))
	})
}
