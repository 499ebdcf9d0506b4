package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Channel carries requests to the active controller.
type Channel interface {
	// Send calls done once, from any goroutine. ctx is the client's request on whose behalf this is sent, nil if the broker
	// speaks for itself.
	Send(ctx *rpc.Context, req protocol.Request, version int16, done func(protocol.Response, error))
}

// ErrNoController is why a request was not answered: no active controller could be reached in time.
var ErrNoController = errors.New("no active controller could be reached in time")

// reconnectDelay is the pause before a request goes to a controller that has just failed it.
const reconnectDelay = 50 * time.Millisecond

// ChannelOptions say how a ControllerChannel finds the controller.
type ChannelOptions struct {
	NodeID   int32
	ClientID string
	// Timeout is how long a request may wait for a controller and for its answer together.
	Timeout time.Duration
	// Local carries out a request if this node is a controller; it reports false for an API that controllers do not have.
	// nil: this node is no controller.
	Local func(ctx *rpc.Context, req protocol.Request, respond func(protocol.Response)) bool
	// Address is where a controller listens, host:port. Any goroutine.
	Address func(id int32) (string, bool)
}

// ControllerChannel is the Channel of a node: it calls the controller inside the process, or one elsewhere by connection. Requests that
// find no active controller wait for one, and so do those that a controller refused because it is not active any more. It
// learns who leads as a listener of raft. A core.
type ControllerChannel struct {
	ChannelOptions
	env     env.Env
	queue   env.Queue
	leader  raft.LeaderAndEpoch
	client  *rpc.Client
	waiting []*errand
	flush   env.Timer // set while a flush is scheduled
}

// errand is one request on its way.
type errand struct {
	ctx      rpc.Context
	client   bool // on behalf of a client
	req      protocol.Request
	version  int16
	deadline time.Duration
	timer    env.Timer
	attempt  int // answers to earlier attempts are ignored
	done     func(protocol.Response, error)
}

// NewControllerChannel returns a channel that knows no controller. Register it with raft.
func NewControllerChannel(e env.Env, name string, o ChannelOptions) *ControllerChannel {
	return &ControllerChannel{ChannelOptions: o, env: e, queue: e.NewQueue(name), leader: raft.LeaderAndEpoch{LeaderID: raft.NoNode}}
}

// Send sends a request.
func (c *ControllerChannel) Send(ctx *rpc.Context, req protocol.Request, version int16, done func(protocol.Response, error)) {
	r := &errand{req: req, version: version, done: done}
	if ctx != nil {
		r.ctx, r.client = *ctx, true
	} else {
		r.ctx = rpc.Context{ClientID: c.ClientID, Principal: "User:ANONYMOUS"}
	}
	r.ctx.APIKey, r.ctx.APIVersion = req.APIKey(), version
	c.queue.Post("send", func() {
		r.deadline = c.env.Monotonic() + c.Timeout
		r.timer = c.queue.After(c.Timeout, "request timeout", func() { c.finish(r, nil, ErrNoController) })
		c.try(r)
	})
}

// Close fails what waits. Answers that come later are dropped.
func (c *ControllerChannel) Close() {
	c.queue.Post("close", func() {
		for _, r := range c.waiting {
			c.finish(r, nil, ErrNoController)
		}
		c.waiting = nil
		c.disconnect()
		c.leader = raft.LeaderAndEpoch{LeaderID: raft.NoNode}
	})
}

func (c *ControllerChannel) finish(r *errand, resp protocol.Response, err error) {
	if r.done == nil {
		return
	}
	r.timer.Stop()
	done := r.done
	r.done = nil
	done(resp, err)
}

// try sends a request to the controller, or lets it wait for one.
func (c *ControllerChannel) try(r *errand) {
	r.attempt++
	attempt := r.attempt
	answer := func(resp protocol.Response, err error) {
		c.queue.Post("answer", func() { c.answered(r, attempt, resp, err) })
	}
	switch {
	case r.done == nil:
	case c.leader.LeaderID == raft.NoNode:
		c.waiting = append(c.waiting, r)
	case c.leader.LeaderID == c.NodeID && c.Local != nil:
		if !c.Local(&r.ctx, r.req, func(resp protocol.Response) { answer(resp, nil) }) {
			c.finish(r, nil, fmt.Errorf("controllers have no API %d", r.req.APIKey()))
		}
	default:
		if c.client == nil {
			addr, ok := c.Address(c.leader.LeaderID)
			if !ok {
				c.wait(r)
				return
			}
			c.client = rpc.NewClient(c.env, addr, c.ClientID)
		}
		c.send(r, answer)
	}
}

func (c *ControllerChannel) answered(r *errand, attempt int, resp protocol.Response, err error) {
	switch {
	case r.done == nil || attempt != r.attempt:
	case err != nil || NotController(resp):
		c.wait(r)
	default:
		c.finish(r, resp, nil)
	}
}

// wait keeps a request until the leader changes, and tries again after a while if it does not.
func (c *ControllerChannel) wait(r *errand) {
	c.waiting = append(c.waiting, r)
	if c.flush == nil {
		c.flush = c.queue.After(reconnectDelay, "retry", func() {
			c.flush = nil
			c.retry()
		})
	}
}

func (c *ControllerChannel) retry() {
	waiting := c.waiting
	c.waiting = nil
	for _, r := range waiting {
		c.try(r)
	}
}

func (c *ControllerChannel) disconnect() {
	if c.client != nil {
		c.client.Close()
		c.client = nil
	}
}

// HandleLeaderChange learns who the active controller is.
func (c *ControllerChannel) HandleLeaderChange(l raft.LeaderAndEpoch) {
	c.queue.Post("leader change", func() {
		if l.LeaderID != c.leader.LeaderID {
			c.disconnect()
		}
		c.leader = l
		c.retry()
	})
}

// HandleCommit does nothing: only the leader matters here.
func (c *ControllerChannel) HandleCommit([]raft.Batch) {}

// HandleLoadSnapshot gives the snapshot back.
func (c *ControllerChannel) HandleLoadSnapshot(r *raft.SnapshotReader) { _ = r.Close() }

// HandleLoadBootstrap does nothing.
func (c *ControllerChannel) HandleLoadBootstrap([]metadata.Versioned) {}
