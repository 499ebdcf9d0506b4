package server

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
)

// call is one request from its frame to the end of its answer.
type call struct {
	ctx   rpc.Context
	conn  *connection
	api   *api
	frame *env.Buffer // the request; nil once it is answered

	// The answer: memory in buf, regions of files between.
	buf   *env.Buffer
	parts []env.Part
	// release is called when the answer is sent or dropped.
	release func()
	sent    func() // = done, made once

	state callState // guarded by conn.mu
	next  *call     // of the connection
	size  int       // bytes that the connection accounts for it
	again exchange  // what goes back to a pool at the end; nil if this is not used again
}

type callState int8

const (
	callOpen callState = iota
	callAnswered
	callSilent // answered with nothing: Produce with acks=0
	callDone
)

// exchange is a call with the types of its request and response.
type exchange interface {
	base() *call
	request() any
	decode(d *wire.Decoder, version int16) error
	handle()
}

// handler makes exchanges for a target.
type handler interface {
	// bind returns what makes an exchange; nil if the node has no such target.
	bind(t *Targets) func() exchange
}

// request and response are pointers to messages.
type request[Q any] interface {
	*Q
	protocol.Request
}

type response[P any] interface {
	*P
	protocol.Response
}

// typed is the handler of an API: a method of one of the targets. Its request is its own as long as it has not
// responded, and responding with nil says that there is no answer.
func typed[T, Q, P any, PQ request[Q], PP response[P]](fn func(T, *rpc.Context, *Q, func(*P))) handler {
	return newTyped[T, Q, P, PQ, PP](fn)
}

func newTyped[T, Q, P any, PQ request[Q], PP response[P]](fn func(T, *rpc.Context, *Q, func(*P))) *typedHandler[T, Q, P, PQ, PP] {
	return &typedHandler[T, Q, P, PQ, PP]{fn: fn}
}

// typedPooled is typed for handlers that do not keep context or request after they responded.
func typedPooled[T, Q, P any, PQ request[Q], PP response[P]](fn func(T, *rpc.Context, *Q, func(*P))) handler {
	h := newTyped[T, Q, P, PQ, PP](fn)
	h.pool = new(sync.Pool)
	return h
}

type typedHandler[T, Q, P any, PQ request[Q], PP response[P]] struct {
	fn   func(T, *rpc.Context, *Q, func(*P))
	pool *sync.Pool // nil: not reused
}

type typedCall[T, Q, P any, PQ request[Q], PP response[P]] struct {
	call
	h       *typedHandler[T, Q, P, PQ, PP]
	target  T
	req     Q
	respond func(*P) // = answer, made once
}

func (h *typedHandler[T, Q, P, PQ, PP]) bind(t *Targets) func() exchange {
	target, ok := targetOf[T](t)
	if !ok {
		return nil
	}
	return func() exchange { return h.with(target) }
}

// with makes an exchange whose request goes to a target.
func (h *typedHandler[T, Q, P, PQ, PP]) with(target T) exchange {
	if h.pool != nil {
		if x, _ := h.pool.Get().(*typedCall[T, Q, P, PQ, PP]); x != nil && any(x.target) == any(target) {
			return x
		}
	}
	x := &typedCall[T, Q, P, PQ, PP]{h: h, target: target}
	x.respond = x.answer
	x.sent = x.done
	if h.pool != nil {
		x.again = x
	}
	return x
}

func (x *typedCall[T, Q, P, PQ, PP]) base() *call { return &x.call }

func (x *typedCall[T, Q, P, PQ, PP]) request() any { return &x.req }

func (x *typedCall[T, Q, P, PQ, PP]) decode(d *wire.Decoder, version int16) error {
	return PQ(&x.req).Decode(d, version)
}

func (x *typedCall[T, Q, P, PQ, PP]) handle() { x.h.fn(x.target, &x.ctx, &x.req, x.respond) }

func (x *typedCall[T, Q, P, PQ, PP]) answer(p *P) {
	if p == nil {
		x.complete(callSilent, nil)
		return
	}
	x.complete(callAnswered, PP(p))
}

// recycle gives the exchange back to its pool.
func (x *typedCall[T, Q, P, PQ, PP]) recycle() {
	var none Q
	x.req = none
	x.h.pool.Put(x)
}

// recycler is an exchange that is used again.
type recycler interface{ recycle() }

// generic is the handler of APIs that are handled alike, whatever they are: forwarding.
func generic[T any](fn func(T, *rpc.Context, protocol.Request, func(protocol.Response))) handler {
	return &genericHandler[T]{fn}
}

type genericHandler[T any] struct {
	fn func(T, *rpc.Context, protocol.Request, func(protocol.Response))
}

type genericCall[T any] struct {
	call
	h      *genericHandler[T]
	target T
	req    protocol.Request
}

func (h *genericHandler[T]) bind(t *Targets) func() exchange {
	target, ok := targetOf[T](t)
	if !ok {
		return nil
	}
	return func() exchange {
		x := &genericCall[T]{h: h, target: target}
		x.sent = x.done
		return x
	}
}

func (x *genericCall[T]) base() *call { return &x.call }

func (x *genericCall[T]) request() any { return x.req }

func (x *genericCall[T]) decode(d *wire.Decoder, version int16) error {
	x.req = protocol.NewRequest(x.api.key)
	return x.req.Decode(d, version)
}

func (x *genericCall[T]) handle() {
	x.h.fn(x.target, &x.ctx, x.req, func(p protocol.Response) {
		if p == nil {
			x.complete(callSilent, nil)
			return
		}
		x.complete(callAnswered, p)
	})
}

// fetch is the handler of Fetch where records are sent from files.
func fetch[T any](fn func(T, *rpc.Context, *protocol.FetchRequest, func(*rpc.FetchReply))) handler {
	return &fetchHandler[T]{fn: fn}
}

type fetchHandler[T any] struct {
	fn   func(T, *rpc.Context, *protocol.FetchRequest, func(*rpc.FetchReply))
	pool sync.Pool
}

type fetchCall[T any] struct {
	call
	h       *fetchHandler[T]
	target  T
	req     protocol.FetchRequest
	respond func(*rpc.FetchReply)
	splits  []wire.Split
}

func (h *fetchHandler[T]) bind(t *Targets) func() exchange {
	target, ok := targetOf[T](t)
	if !ok {
		return nil
	}
	return func() exchange { return h.with(target) }
}

func (h *fetchHandler[T]) with(target T) exchange {
	if x, _ := h.pool.Get().(*fetchCall[T]); x != nil && any(x.target) == any(target) {
		return x
	}
	x := &fetchCall[T]{h: h, target: target}
	x.respond, x.sent, x.again = x.answer, x.done, x
	return x
}

func (x *fetchCall[T]) base() *call { return &x.call }

func (x *fetchCall[T]) request() any { return &x.req }

func (x *fetchCall[T]) decode(d *wire.Decoder, version int16) error { return x.req.Decode(d, version) }

func (x *fetchCall[T]) handle() { x.h.fn(x.target, &x.ctx, &x.req, x.respond) }

func (x *fetchCall[T]) recycle() {
	x.req = protocol.FetchRequest{}
	x.h.pool.Put(x)
}

// answer encodes the response around the regions of files that belong into it.
func (x *fetchCall[T]) answer(r *rpc.FetchReply) {
	x.release = r.Release
	b := x.begin()
	external := r.External
	var err error
	b, x.splits, err = r.Response.EncodeSplit(b, x.splits[:0], x.ctx.APIVersion, func(i int) int {
		if i < len(external) && external[i].Size() > 0 {
			return int(external[i].Size())
		}
		return -1
	})
	if err != nil {
		x.fail(err)
		return
	}
	x.buf.B = b
	from := 0
	for _, s := range x.splits {
		x.parts = append(x.parts, env.Part{Bytes: b[from:s.At]}, external[s.Index])
		from = s.At
	}
	if from < len(b) {
		x.parts = append(x.parts, env.Part{Bytes: b[from:]})
	}
	x.finish(callAnswered)
}

// begin starts the answer with its header.
func (x *call) begin() []byte {
	x.buf = env.NewBuffer(int(x.api.size.Load()))
	return responseHeader(x.buf.B[:0], &x.ctx)
}

// complete encodes the response, if there is one.
func (x *call) complete(state callState, p protocol.Response) {
	if p != nil {
		b, err := p.Encode(x.begin(), x.ctx.APIVersion)
		if err != nil {
			x.fail(err)
			return
		}
		x.buf.B = b
		x.parts = append(x.parts, env.Part{Bytes: b})
	}
	x.finish(state)
}

// fail ends the connection: what we want to answer has no form in the version that was asked for.
func (x *call) fail(err error) {
	x.conn.fail("response cannot be encoded", x, err)
	x.finish(callSilent)
}

func (x *call) finish(state callState) {
	if x.buf != nil {
		x.api.remember(len(x.buf.B))
	}
	x.conn.answered(x, state)
}

// done ends the call: the answer was sent, or dropped.
func (x *call) done() {
	if x.release != nil {
		x.release()
	}
	if x.buf != nil {
		x.buf.Release()
	}
	x.conn.finished(x)
	if x.again == nil {
		return
	}
	again := x.again
	clear(x.parts)
	*x = call{parts: x.parts[:0], sent: x.sent, again: again}
	again.(recycler).recycle()
}

// remember makes buffers large enough for most answers, and does not let a single large one make them so.
func (a *api) remember(n int) {
	old := a.size.Load()
	if int64(n) > old {
		a.size.Store(int64(n))
	} else if int64(n) < old {
		a.size.Store(old - (old-int64(n))/16)
	}
}

// api is a row of the table, bound to a server.
type api struct {
	key, min, max int16
	name          string
	make          func() exchange
	size          atomic.Int64 // of answers, about
}

func (a *api) String() string { return fmt.Sprintf("%s(%d)", a.name, a.key) }
