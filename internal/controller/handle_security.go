package controller

import (
	"slices"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// AlterUserScramCredentials is key 51, version 0 (KIP-554). Path: scram.go alterScram → RemoveUserScramCredentialRecords,
// UserScramCredentialRecords → stable → answer. Errors of a user: 92 twice in the request, 35, 93 name or iterations,
// 33 mechanism, 91 nothing to delete, 41.
func (c *Controller) AlterUserScramCredentials(_ *rpc.Context, req *protocol.AlterUserScramCredentialsRequest, respond func(*protocol.AlterUserScramCredentialsResponse)) {
	appendWrite(c, "alterUserScramCredentials", 0, func() (Result[*protocol.AlterUserScramCredentialsResponse], error) {
		return c.state.security.alterScram(req, c.state.features.version())
	}, nil, func(resp *protocol.AlterUserScramCredentialsResponse, err error) {
		if err != nil {
			resp = scramFailure(req, err)
		}
		respond(resp)
	})
}

func scramFailure(req *protocol.AlterUserScramCredentialsRequest, err error) *protocol.AlterUserScramCredentialsResponse {
	var users []string
	for i := range req.Deletions {
		users = append(users, req.Deletions[i].Name)
	}
	for i := range req.Upsertions {
		users = append(users, req.Upsertions[i].Name)
	}
	slices.Sort(users)
	resp := protocol.NewAlterUserScramCredentialsResponse()
	for _, u := range slices.Compact(users) {
		one := scramResult{User: u}
		one.ErrorCode, one.ErrorMessage = codeAndMessage(err)
		resp.Results = append(resp.Results, one)
	}
	return resp
}

// AlterClientQuotas is key 49, versions 0–1 (KIP-546). Path: quotas.go alterQuotas → ClientQuotaRecords → stable →
// answer. Errors of an entity: 42 a type, a name, a combination, a key, a value, twice in the request; 44, 41.
func (c *Controller) AlterClientQuotas(_ *rpc.Context, req *protocol.AlterClientQuotasRequest, respond func(*protocol.AlterClientQuotasResponse)) {
	appendWrite(c, "alterClientQuotas", 0, func() (Result[*protocol.AlterClientQuotasResponse], error) {
		return c.state.security.alterQuotas(req)
	}, nil, func(resp *protocol.AlterClientQuotasResponse, err error) {
		if err != nil {
			resp = protocol.NewAlterClientQuotasResponse()
			for i := range req.Entries {
				one := entityOf(req.Entries[i].Entity).result(nil)
				one.ErrorCode, one.ErrorMessage = codeAndMessage(err)
				resp.Entries = append(resp.Entries, one)
			}
		}
		respond(resp)
	})
}

// errNoACLs is the answer to what is about ACLs where there are none.
var errNoACLs = fail(kerr.SecurityDisabled, "No Authorizer is configured.")

// CreateAcls is key 30, versions 1–3. v1: patterns (KIP-290). v3: users as resources (KIP-373). Path: acls.go createACLs →
// AccessControlEntryRecords → stable → answer. Errors: 54 no authorizer; 42 an unknown type, operation or permission, a
// name; 44, 41.
func (c *Controller) CreateAcls(_ *rpc.Context, req *protocol.CreateAclsRequest, respond func(*protocol.CreateAclsResponse)) {
	appendWrite(c, "createAcls", 0, func() (Result[*protocol.CreateAclsResponse], error) {
		if !c.cfg.ACLs {
			return Result[*protocol.CreateAclsResponse]{}, errNoACLs
		}
		return c.state.security.createACLs(req, c.newID)
	}, nil, func(resp *protocol.CreateAclsResponse, err error) {
		if err != nil {
			resp = protocol.NewCreateAclsResponse()
			for range req.Creations {
				var one protocol.CreateAclsResponseAclCreationResult
				one.ErrorCode, one.ErrorMessage = codeAndMessage(err)
				resp.Results = append(resp.Results, one)
			}
		}
		respond(resp)
	})
}

// DescribeAcls is key 29 at a controller, versions 1–3 (KIP-140). Ottla authorizes nothing yet, and does not start with an
// authorizer: there is nothing to describe. Error: 54, always.
func (c *Controller) DescribeAcls(_ *rpc.Context, _ *protocol.DescribeAclsRequest, respond func(*protocol.DescribeAclsResponse)) {
	resp := protocol.NewDescribeAclsResponse()
	text := "No Authorizer is configured on the broker"
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, &text
	respond(resp)
}

// DeleteAcls is key 31, versions 1–3. Versions as CreateAcls. Path: acls.go deleteACLs → RemoveAccessControlEntryRecords →
// stable → answer. Errors: 54 no authorizer; 42 a filter with unknown parts; 44, 41.
func (c *Controller) DeleteAcls(_ *rpc.Context, req *protocol.DeleteAclsRequest, respond func(*protocol.DeleteAclsResponse)) {
	appendWrite(c, "deleteAcls", 0, func() (Result[*protocol.DeleteAclsResponse], error) {
		if !c.cfg.ACLs {
			return Result[*protocol.DeleteAclsResponse]{}, errNoACLs
		}
		return c.state.security.deleteACLs(req)
	}, nil, func(resp *protocol.DeleteAclsResponse, err error) {
		if err != nil {
			resp = protocol.NewDeleteAclsResponse()
			for range req.Filters {
				var one protocol.DeleteAclsResponseDeleteAclsFilterResult
				one.ErrorCode, one.ErrorMessage = codeAndMessage(err)
				resp.FilterResults = append(resp.FilterResults, one)
			}
		}
		respond(resp)
	})
}

// tokensAllowed: who is nobody in particular gets no token. A broker looks at that before it forwards.
func (c *Controller) tokensAllowed(ctx *rpc.Context) error {
	if c.forwarded(ctx) {
		return nil
	}
	for _, l := range c.cfg.Node.Listeners {
		if l.Name == ctx.Listener && l.Protocol != config.Plaintext {
			return nil
		}
	}
	return fail(kerr.DelegationTokenRequestNotAllowed, "")
}

// CreateDelegationToken is key 38, versions 1–3 (KIP-48). v3: tokens for others (KIP-373). Path: tokens.go create →
// DelegationTokenRecord → stable → answer. Errors: 64 not from such a connection, 61 no secret, 35, 67 renewers, 41.
func (c *Controller) CreateDelegationToken(ctx *rpc.Context, req *protocol.CreateDelegationTokenRequest, respond func(*protocol.CreateDelegationTokenResponse)) {
	requester, version := ctx.Principal, ctx.APIVersion
	owner := ownerOf(req, requester)
	allowed := c.tokensAllowed(ctx)
	appendWrite(c, "createDelegationToken", 0, func() (Result[*metadata.DelegationTokenRecord], error) {
		if allowed != nil {
			return Result[*metadata.DelegationTokenRecord]{}, allowed
		}
		r, err := c.state.tokens.create(req, owner, requester, c.state.features.version())
		if err != nil {
			return Result[*metadata.DelegationTokenRecord]{}, err
		}
		return Result[*metadata.DelegationTokenRecord]{Records: []metadata.Versioned{{Record: r}}, Response: r, Atomic: true}, nil
	}, nil, func(r *metadata.DelegationTokenRecord, err error) {
		resp := protocol.NewCreateDelegationTokenResponse()
		resp.PrincipalType, resp.PrincipalName = splitPrincipal(owner)
		if version >= 3 {
			resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = splitPrincipal(requester)
		}
		if err != nil {
			resp.ErrorCode, _ = codeAndMessage(err)
			none := timeOfFailure(err)
			resp.IssueTimestampMs, resp.ExpiryTimestampMs, resp.MaxTimestampMs = none, none, none
		} else {
			resp.IssueTimestampMs, resp.ExpiryTimestampMs, resp.MaxTimestampMs = r.IssueTimestamp, r.ExpirationTimestamp, r.MaxTimestamp
			resp.TokenId, resp.Hmac = r.TokenId, TokenHMAC(c.cfg.Tokens.Secret, r.TokenId)
		}
		respond(resp)
	})
}

// RenewDelegationToken is key 39, versions 1–2 (KIP-48). Path: tokens.go renew → DelegationTokenRecord → stable → answer.
// Errors: 64 not from such a connection, 61 no secret, 35, 62 no such token, 66 its time is over, 63 not its owner, 41.
func (c *Controller) RenewDelegationToken(ctx *rpc.Context, req *protocol.RenewDelegationTokenRequest, respond func(*protocol.RenewDelegationTokenResponse)) {
	who, allowed := ctx.Principal, c.tokensAllowed(ctx)
	appendWrite(c, "renewDelegationToken", 0, func() (Result[int64], error) {
		if allowed != nil {
			return Result[int64]{}, allowed
		}
		return c.state.tokens.renew(req, who, c.state.features.version())
	}, nil, func(at int64, err error) {
		resp := protocol.NewRenewDelegationTokenResponse()
		resp.ErrorCode, _ = codeAndMessage(err)
		if resp.ExpiryTimestampMs = at; err != nil {
			resp.ExpiryTimestampMs = timeOfFailure(err)
		}
		respond(resp)
	})
}

// ExpireDelegationToken is key 40, versions 1–2 (KIP-48). Path: tokens.go expire → RemoveDelegationTokenRecord, or
// DelegationTokenRecord with another end → stable → answer. Errors as RenewDelegationToken.
func (c *Controller) ExpireDelegationToken(ctx *rpc.Context, req *protocol.ExpireDelegationTokenRequest, respond func(*protocol.ExpireDelegationTokenResponse)) {
	who, allowed := ctx.Principal, c.tokensAllowed(ctx)
	appendWrite(c, "expireDelegationToken", 0, func() (Result[int64], error) {
		if allowed != nil {
			return Result[int64]{}, allowed
		}
		return c.state.tokens.expire(req, who, c.state.features.version())
	}, nil, func(at int64, err error) {
		resp := protocol.NewExpireDelegationTokenResponse()
		resp.ErrorCode, _ = codeAndMessage(err)
		if resp.ExpiryTimestampMs = at; err != nil {
			resp.ExpiryTimestampMs = timeOfFailure(err)
		}
		respond(resp)
	})
}

// timeOfFailure: who may not ask gets no time, others get the beginning of it, as with Kafka.
func timeOfFailure(err error) int64 {
	if codeOf, _ := codeAndMessage(err); codeOf == kerr.DelegationTokenRequestNotAllowed.Code {
		return noTime
	}
	return 0
}
