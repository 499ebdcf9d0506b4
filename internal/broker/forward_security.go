package broker

import (
	"slices"

	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// securityErrorResponse is errorResponse for what is about credentials, tokens, quotas and ACLs.
func securityErrorResponse(req protocol.Request, code int16) protocol.Response {
	switch req := req.(type) {
	case *protocol.AlterUserScramCredentialsRequest:
		resp := protocol.NewAlterUserScramCredentialsResponse()
		var users []string
		for _, d := range req.Deletions {
			users = append(users, d.Name)
		}
		for _, u := range req.Upsertions {
			users = append(users, u.Name)
		}
		slices.Sort(users)
		for _, u := range slices.Compact(users) {
			resp.Results = append(resp.Results, protocol.AlterUserScramCredentialsResponseAlterUserScramCredentialsResult{User: u, ErrorCode: code})
		}
		return resp
	case *protocol.AlterClientQuotasRequest:
		resp := protocol.NewAlterClientQuotasResponse()
		for _, e := range req.Entries {
			r := protocol.AlterClientQuotasResponseEntryData{ErrorCode: code}
			for _, p := range e.Entity {
				r.Entity = append(r.Entity, protocol.AlterClientQuotasResponseEntityData(p))
			}
			resp.Entries = append(resp.Entries, r)
		}
		return resp
	case *protocol.CreateAclsRequest:
		resp := protocol.NewCreateAclsResponse()
		for range req.Creations {
			resp.Results = append(resp.Results, protocol.CreateAclsResponseAclCreationResult{ErrorCode: code})
		}
		return resp
	case *protocol.DeleteAclsRequest:
		resp := protocol.NewDeleteAclsResponse()
		for range req.Filters {
			resp.FilterResults = append(resp.FilterResults, protocol.DeleteAclsResponseDeleteAclsFilterResult{ErrorCode: code})
		}
		return resp
	case *protocol.CreateDelegationTokenRequest:
		resp := protocol.NewCreateDelegationTokenResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.RenewDelegationTokenRequest:
		resp := protocol.NewRenewDelegationTokenResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.ExpireDelegationTokenRequest:
		resp := protocol.NewExpireDelegationTokenResponse()
		resp.ErrorCode = code
		return resp
	}
	return protocol.NewResponse(req.APIKey())
}

// securityNotController is notController for the same.
func securityNotController(resp protocol.Response, code int16) bool {
	switch r := resp.(type) {
	case *protocol.AlterUserScramCredentialsResponse:
		return slices.ContainsFunc(r.Results, func(u protocol.AlterUserScramCredentialsResponseAlterUserScramCredentialsResult) bool {
			return u.ErrorCode == code
		})
	case *protocol.AlterClientQuotasResponse:
		return slices.ContainsFunc(r.Entries, func(e protocol.AlterClientQuotasResponseEntryData) bool { return e.ErrorCode == code })
	case *protocol.CreateAclsResponse:
		return slices.ContainsFunc(r.Results, func(a protocol.CreateAclsResponseAclCreationResult) bool { return a.ErrorCode == code })
	case *protocol.DeleteAclsResponse:
		return slices.ContainsFunc(r.FilterResults, func(f protocol.DeleteAclsResponseDeleteAclsFilterResult) bool { return f.ErrorCode == code })
	case *protocol.CreateDelegationTokenResponse:
		return r.ErrorCode == code
	case *protocol.RenewDelegationTokenResponse:
		return r.ErrorCode == code
	case *protocol.ExpireDelegationTokenResponse:
		return r.ErrorCode == code
	}
	return false
}

// localSecurity is LocalController for the same.
func localSecurity(c *controller.Controller, ctx *rpc.Context, req protocol.Request, respond func(protocol.Response)) bool {
	switch req := req.(type) {
	case *protocol.AlterUserScramCredentialsRequest:
		c.AlterUserScramCredentials(ctx, req, func(r *protocol.AlterUserScramCredentialsResponse) { respond(r) })
	case *protocol.AlterClientQuotasRequest:
		c.AlterClientQuotas(ctx, req, func(r *protocol.AlterClientQuotasResponse) { respond(r) })
	case *protocol.CreateAclsRequest:
		c.CreateAcls(ctx, req, func(r *protocol.CreateAclsResponse) { respond(r) })
	case *protocol.DeleteAclsRequest:
		c.DeleteAcls(ctx, req, func(r *protocol.DeleteAclsResponse) { respond(r) })
	case *protocol.CreateDelegationTokenRequest:
		c.CreateDelegationToken(ctx, req, func(r *protocol.CreateDelegationTokenResponse) { respond(r) })
	case *protocol.RenewDelegationTokenRequest:
		c.RenewDelegationToken(ctx, req, func(r *protocol.RenewDelegationTokenResponse) { respond(r) })
	case *protocol.ExpireDelegationTokenRequest:
		c.ExpireDelegationToken(ctx, req, func(r *protocol.ExpireDelegationTokenResponse) { respond(r) })
	default:
		return false
	}
	return true
}
