package server

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/ottla-io/ottla/internal/broker"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
	"github.com/ottla-io/ottla/internal/rpc"
)

// envelopes opens what brokers forward for their clients (KIP-590). Ottla's own brokers forward requests as they are; Kafka's put them
// into an envelope that says who asks, and from where.
type envelopes struct {
	table     map[int16]*api // of the listener
	forwarded map[int16]bool
	send      func(*rpc.Context, protocol.Request, func(protocol.Response)) bool
}

func newEnvelopes(t *Targets) *envelopes {
	if t.Controller == nil {
		return nil
	}
	// What brokers hand on from their own listeners, the configs of which they answer a part themselves, and tokens, for which they look at the
	// connection.
	forwarded := map[int16]bool{
		protocol.KeyAlterConfigs: true, protocol.KeyIncrementalAlterConfigs: true,
		protocol.KeyCreateDelegationToken: true, protocol.KeyRenewDelegationToken: true, protocol.KeyExpireDelegationToken: true,
	}
	for _, r := range apis {
		if r.kind == OnBroker && r.handler == forward {
			forwarded[r.key] = true
		}
	}
	return &envelopes{forwarded: forwarded, send: broker.LocalController(t.Controller, t.Quorum)}
}

// Open is Envelope, key 58, version 0. Errors: 97 a principal that cannot be read; 42 an address that is none, an API that is not
// forwarded; 35 a request that cannot be read; 41 we are not the active controller. All others are in the answer inside.
func (e *envelopes) Open(ctx *rpc.Context, req *protocol.EnvelopeRequest, respond func(*protocol.EnvelopeResponse)) {
	refuse := func(err *kerr.Error) {
		resp := protocol.NewEnvelopeResponse()
		resp.ErrorCode = err.Code
		respond(resp)
	}
	inner, body, err := e.unpack(ctx, req)
	if err != nil {
		refuse(err)
		return
	}
	known := e.send(inner, body, func(answer protocol.Response) {
		if broker.NotController(answer) {
			refuse(kerr.NotController)
			return
		}
		resp := protocol.NewEnvelopeResponse()
		var err error
		if resp.ResponseData, err = answer.Encode(responseHeader(nil, inner), inner.APIVersion); err != nil {
			ctx.CloseConn(fmt.Sprintf("response in an envelope cannot be encoded: %v", err))
			refuse(kerr.UnknownServerError)
			return
		}
		respond(resp)
	})
	if !known {
		refuse(kerr.InvalidRequest)
	}
}

// unpack reads what is in an envelope, in the order in which Kafka does.
func (e *envelopes) unpack(ctx *rpc.Context, req *protocol.EnvelopeRequest) (*rpc.Context, protocol.Request, *kerr.Error) {
	principal, ok := readPrincipal(req.RequestPrincipal)
	if !ok {
		return nil, nil, kerr.PrincipalDeserializationFailure
	}
	addr, ok := netip.AddrFromSlice(req.ClientHostAddress)
	if !ok {
		return nil, nil, kerr.InvalidRequest
	}
	h, err := parseHeader(req.RequestData)
	if err != nil {
		return nil, nil, kerr.UnsupportedVersion
	}
	if !e.forwarded[h.key] {
		return nil, nil, kerr.InvalidRequest
	}
	a := e.table[h.key]
	if a == nil || h.version < a.min || h.version > a.max {
		return nil, nil, kerr.UnsupportedVersion
	}
	body := protocol.NewRequest(h.key)
	if err := body.Decode(wire.NewDecoder(h.body), h.version); err != nil {
		return nil, nil, kerr.UnsupportedVersion
	}
	inner := *ctx
	inner.ClientID, inner.APIKey, inner.APIVersion, inner.CorrelationID = string(h.clientID), h.key, h.version, h.correlationID
	inner.Principal, inner.RemoteAddr, inner.Forwarded = principal, addr.String(), true
	inner.ClientSoftwareName, inner.ClientSoftwareVersion = "", ""
	return &inner, body, nil
}

// readPrincipal reads a principal as Kafka's default builder writes it: a version, and DefaultPrincipalData in it.
func readPrincipal(b []byte) (string, bool) {
	d := wire.NewDecoder(b)
	if version := d.Int16(); version != 0 {
		return "", false
	}
	kind, name := d.String(true), d.String(true)
	d.Bool() // whether a delegation token spoke for it
	d.SkipTags()
	return kind + ":" + name, !d.Failed()
}

// responseHeader begins an answer.
func responseHeader(b []byte, ctx *rpc.Context) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(ctx.CorrelationID))
	if protocol.ResponseHeaderVersion(ctx.APIKey, ctx.APIVersion) >= 1 {
		b = append(b, 0)
	}
	return b
}
