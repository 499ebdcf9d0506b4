package broker

import (
	"fmt"
	"strings"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
)

// send sends a request to a controller elsewhere: a client's in an envelope, so that the controller knows who asks (KIP-590).
func (c *ControllerChannel) send(r *errand, answer func(protocol.Response, error)) {
	left := r.deadline - c.env.Monotonic()
	if !r.client {
		c.client.Send(r.req, r.version, left, answer)
		return
	}
	envelope, err := wrap(&r.ctx, r.req)
	if err != nil {
		c.finish(r, nil, err)
		return
	}
	c.client.Send(envelope, 0, left, func(resp protocol.Response, err error) {
		if err == nil {
			resp, err = unwrap(r.ctx.APIKey, r.version, resp.(*protocol.EnvelopeResponse))
		}
		answer(resp, err)
	})
}

// wrap puts a client's request into an envelope, as Kafka's brokers do.
func wrap(ctx *rpc.Context, req protocol.Request) (*protocol.EnvelopeRequest, error) {
	h := protocol.NewRequestHeader()
	h.RequestApiKey, h.RequestApiVersion, h.CorrelationId = ctx.APIKey, ctx.APIVersion, ctx.CorrelationID
	h.ClientId = &ctx.ClientID
	b, err := h.Encode(nil, protocol.RequestHeaderVersion(ctx.APIKey, ctx.APIVersion))
	if err == nil {
		b, err = req.Encode(b, ctx.APIVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("put request %d of version %d into an envelope: %w", ctx.APIKey, ctx.APIVersion, err)
	}
	envelope := protocol.NewEnvelopeRequest()
	envelope.RequestData, envelope.RequestPrincipal, envelope.ClientHostAddress = b, principalBytes(ctx.Principal), ctx.HostBytes()
	return envelope, nil
}

// principalBytes is a principal as Kafka's default builder writes it: a version, and DefaultPrincipalData in it.
func principalBytes(principal string) []byte {
	kind, name, _ := strings.Cut(principal, ":")
	e := wire.NewEncoder(nil)
	e.Int16(0)
	e.String(kind, true)
	e.String(name, true)
	e.Bool(false)
	e.Uvarint(0)
	b, _ := e.Result("DefaultPrincipalData", 0) // there is nothing in it that could fail
	return b
}

// unwrap takes an answer out of its envelope. An envelope that was refused is an error: the request was not carried out there.
func unwrap(key, version int16, envelope *protocol.EnvelopeResponse) (protocol.Response, error) {
	if err := kerr.FromCode(envelope.ErrorCode); err != nil {
		return nil, fmt.Errorf("the controller refused an envelope: %w", err)
	}
	d := wire.NewDecoder(envelope.ResponseData)
	h := protocol.NewResponseHeader()
	if err := h.Decode(d, protocol.ResponseHeaderVersion(key, version)); err != nil {
		return nil, fmt.Errorf("answer in an envelope: %w", err)
	}
	resp := protocol.NewResponse(key)
	if err := resp.Decode(d, version); err != nil {
		return nil, fmt.Errorf("answer in an envelope: %w", err)
	}
	return resp, nil
}
