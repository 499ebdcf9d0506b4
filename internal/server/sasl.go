package server

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// sasl answers on listeners without authentication, as Kafka does: who asks for it there has the wrong port or the wrong settings, and
// is told so.
type sasl struct{}

// Handshake is SaslHandshake, key 17, versions 0–1. Errors: 34, always.
func (*sasl) Handshake(_ *rpc.Context, _ *protocol.SaslHandshakeRequest, respond func(*protocol.SaslHandshakeResponse)) {
	resp := protocol.NewSaslHandshakeResponse()
	resp.ErrorCode = kerr.IllegalSaslState.Code
	respond(resp)
}

// Authenticate is SaslAuthenticate, key 36, versions 0–2. Errors: 34, always.
func (*sasl) Authenticate(_ *rpc.Context, _ *protocol.SaslAuthenticateRequest, respond func(*protocol.SaslAuthenticateResponse)) {
	resp := protocol.NewSaslAuthenticateResponse()
	resp.ErrorCode = kerr.IllegalSaslState.Code
	text := "SaslAuthenticate request received after successful authentication"
	resp.ErrorMessage = &text
	respond(resp)
}
