package broker

import (
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// tokensAllowed reports whether a connection says who is at its other end: nobody else gets a token (KIP-48).
func (b *Broker) tokensAllowed(ctx *rpc.Context) bool {
	return slices.ContainsFunc(b.cfg.Listeners, func(l config.Listener) bool {
		return l.Name == ctx.Listener && (l.Protocol == config.SASLPlaintext || l.Protocol == config.SASLSSL)
	})
}

// CreateDelegationToken is key 38, versions 1–3 (KIP-48). v3: tokens for others (KIP-373). Path: forwarded; the work is done in
// controller/handle_security.go. Error of the broker: 64 on a connection without authentication.
func (b *Broker) CreateDelegationToken(ctx *rpc.Context, req *protocol.CreateDelegationTokenRequest, respond func(*protocol.CreateDelegationTokenResponse)) {
	if b.tokensAllowed(ctx) {
		b.Forward(ctx, req, func(r protocol.Response) { respond(r.(*protocol.CreateDelegationTokenResponse)) })
		return
	}
	resp := protocol.NewCreateDelegationTokenResponse()
	resp.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	kind, name, _ := strings.Cut(ctx.Principal, ":")
	if ctx.APIVersion >= 3 {
		resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = kind, name
	}
	if req.OwnerPrincipalName != nil && *req.OwnerPrincipalName != "" {
		name = *req.OwnerPrincipalName
		if kind = ""; req.OwnerPrincipalType != nil {
			kind = *req.OwnerPrincipalType
		}
	}
	resp.PrincipalType, resp.PrincipalName = kind, name
	resp.IssueTimestampMs, resp.ExpiryTimestampMs, resp.MaxTimestampMs = -1, -1, -1
	respond(resp)
}

// RenewDelegationToken is key 39, versions 1–2 (KIP-48). Path and error as CreateDelegationToken.
func (b *Broker) RenewDelegationToken(ctx *rpc.Context, req *protocol.RenewDelegationTokenRequest, respond func(*protocol.RenewDelegationTokenResponse)) {
	if b.tokensAllowed(ctx) {
		b.Forward(ctx, req, func(r protocol.Response) { respond(r.(*protocol.RenewDelegationTokenResponse)) })
		return
	}
	resp := protocol.NewRenewDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestampMs = kerr.DelegationTokenRequestNotAllowed.Code, -1
	respond(resp)
}

// ExpireDelegationToken is key 40, versions 1–2 (KIP-48). Path and error as CreateDelegationToken.
func (b *Broker) ExpireDelegationToken(ctx *rpc.Context, req *protocol.ExpireDelegationTokenRequest, respond func(*protocol.ExpireDelegationTokenResponse)) {
	if b.tokensAllowed(ctx) {
		b.Forward(ctx, req, func(r protocol.Response) { respond(r.(*protocol.ExpireDelegationTokenResponse)) })
		return
	}
	resp := protocol.NewExpireDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestampMs = kerr.DelegationTokenRequestNotAllowed.Code, -1
	respond(resp)
}

// DescribeDelegationToken is key 41, versions 1–3 (KIP-48). v3: who asked for them (KIP-373). Path: one image → the tokens that
// the requester owns or may renew, of the named owners if there are any. Errors: 64 on a connection without
// authentication, 61 without a secret.
func (b *Broker) DescribeDelegationToken(ctx *rpc.Context, req *protocol.DescribeDelegationTokenRequest, respond func(*protocol.DescribeDelegationTokenResponse)) {
	resp := protocol.NewDescribeDelegationTokenResponse()
	secret := b.cfg.String("delegation.token.secret.key")
	switch {
	case !b.tokensAllowed(ctx):
		resp.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	case secret == "":
		resp.ErrorCode = kerr.DelegationTokenAuthDisabled.Code
	default:
		for r := range b.Image().DelegationTokens.All() {
			named := req.Owners == nil || slices.ContainsFunc(req.Owners, func(o protocol.DescribeDelegationTokenRequestDescribeDelegationTokenOwner) bool {
				return ownsOrRenews(r, o.PrincipalType+":"+o.PrincipalName)
			})
			if named && ownsOrRenews(r, ctx.Principal) {
				resp.Tokens = append(resp.Tokens, describedToken(r, secret, ctx.APIVersion))
			}
		}
	}
	respond(resp)
}

func ownsOrRenews(r *metadata.DelegationTokenRecord, principal string) bool {
	return r.Owner == principal || slices.Contains(r.Renewers, principal)
}

func describedToken(r *metadata.DelegationTokenRecord, secret string, version int16) protocol.DescribeDelegationTokenResponseDescribedDelegationToken {
	t := protocol.DescribeDelegationTokenResponseDescribedDelegationToken{
		IssueTimestamp: r.IssueTimestamp, ExpiryTimestamp: r.ExpirationTimestamp, MaxTimestamp: r.MaxTimestamp,
		TokenId: r.TokenId, Hmac: controller.TokenHMAC(secret, r.TokenId),
	}
	t.PrincipalType, t.PrincipalName, _ = strings.Cut(r.Owner, ":")
	if version >= 3 {
		t.TokenRequesterPrincipalType, t.TokenRequesterPrincipalName, _ = strings.Cut(r.Requester, ":")
	}
	for _, p := range r.Renewers {
		kind, name, _ := strings.Cut(p, ":")
		t.Renewers = append(t.Renewers, protocol.DescribeDelegationTokenResponseDescribedDelegationTokenRenewer{PrincipalType: kind, PrincipalName: name})
	}
	return t
}
