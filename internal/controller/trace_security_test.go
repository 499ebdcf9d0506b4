package controller

import (
	"strconv"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// securityCommands are the verbs of who may do what, and how much.
func (w *traceWorld) securityCommands() map[string]func() {
	return map[string]func(){
		"scram": w.cmdScram, "quotas": w.cmdQuotas, "create-acls": w.cmdCreateACLs, "delete-acls": w.cmdDeleteACLs,
		"create-token": w.cmdCreateToken, "renew-token": w.cmdRenewToken, "expire-token": w.cmdExpireToken,
	}
}

func (w *traceWorld) inputLines() [][]string {
	var all [][]string
	for line := range strings.Lines(strings.TrimSpace(w.d.Input)) {
		all = append(all, strings.Fields(line))
	}
	return all
}

func (w *traceWorld) int8(s string) int8 {
	n, err := strconv.ParseInt(s, 10, 8)
	if err != nil {
		w.t.Fatalf("%s: %v", w.d.Pos, err)
	}
	return int8(n)
}

// scram: set user mechanism iterations, or delete user mechanism, one a line.
func (w *traceWorld) cmdScram() {
	req := protocol.NewAlterUserScramCredentialsRequest()
	for _, f := range w.inputLines() {
		name := strings.Trim(f[1], `"`)
		if f[0] == "delete" {
			req.Deletions = append(req.Deletions, protocol.AlterUserScramCredentialsRequestScramCredentialDeletion{Name: name, Mechanism: w.int8(f[2])})
			continue
		}
		n, _ := strconv.Atoi(f[3])
		req.Upsertions = append(req.Upsertions, protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion{
			Name: name, Mechanism: w.int8(f[2]), Iterations: int32(n), Salt: []byte("salt"), SaltedPassword: []byte("salted " + name),
		})
	}
	w.c.AlterUserScramCredentials(w.ctx(req.APIKey()), req, func(r *protocol.AlterUserScramCredentialsResponse) {
		for _, u := range r.Results {
			w.say("-> %q %s", u.User, errText(u.ErrorCode, u.ErrorMessage))
		}
	})
	w.env.run()
}

// quotas [validate-only]: type=name[,type=name] key=value..., one a line; type= is the default, key=- removes.
func (w *traceWorld) cmdQuotas() {
	req := protocol.NewAlterClientQuotasRequest()
	req.ValidateOnly = w.has("validate-only")
	for _, f := range w.inputLines() {
		var e protocol.AlterClientQuotasRequestEntryData
		for part := range strings.SplitSeq(f[0], ",") {
			if kind, name, ok := strings.Cut(part, "="); ok {
				d := protocol.AlterClientQuotasRequestEntityData{EntityType: kind}
				if name != "" {
					name = strings.Trim(name, `"`)
					d.EntityName = &name
				}
				e.Entity = append(e.Entity, d)
			}
		}
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			n, err := strconv.ParseFloat(v, 64)
			e.Ops = append(e.Ops, protocol.AlterClientQuotasRequestOpData{Key: k, Value: n, Remove: err != nil})
		}
		req.Entries = append(req.Entries, e)
	}
	w.c.AlterClientQuotas(w.ctx(req.APIKey()), req, func(r *protocol.AlterClientQuotasResponse) {
		for i := range r.Entries {
			var parts []string
			for _, p := range r.Entries[i].Entity {
				name := "<default>"
				if p.EntityName != nil {
					name = *p.EntityName
				}
				parts = append(parts, p.EntityType+"="+name)
			}
			w.say("-> %s %s", strings.Join(parts, ","), errText(r.Entries[i].ErrorCode, r.Entries[i].ErrorMessage))
		}
	})
	w.env.run()
}

// create-acls: resource name pattern principal host operation permission, one a line, by numbers.
func (w *traceWorld) cmdCreateACLs() {
	req := protocol.NewCreateAclsRequest()
	for _, f := range w.inputLines() {
		req.Creations = append(req.Creations, protocol.CreateAclsRequestAclCreation{
			ResourceType: w.int8(f[0]), ResourceName: strings.Trim(f[1], `"`), ResourcePatternType: w.int8(f[2]),
			Principal: f[3], Host: f[4], Operation: w.int8(f[5]), PermissionType: w.int8(f[6]),
		})
	}
	w.c.CreateAcls(w.ctx(req.APIKey()), req, func(r *protocol.CreateAclsResponse) {
		for _, one := range r.Results {
			w.say("-> %s", errText(one.ErrorCode, one.ErrorMessage))
		}
	})
	w.env.run()
}

// delete-acls: as create-acls, with - for any text.
func (w *traceWorld) cmdDeleteACLs() {
	req := protocol.NewDeleteAclsRequest()
	text := func(s string) *string {
		if s == "-" {
			return nil
		}
		return &s
	}
	for _, f := range w.inputLines() {
		req.Filters = append(req.Filters, protocol.DeleteAclsRequestDeleteAclsFilter{
			ResourceTypeFilter: w.int8(f[0]), ResourceNameFilter: text(f[1]), PatternTypeFilter: w.int8(f[2]),
			PrincipalFilter: text(f[3]), HostFilter: text(f[4]), Operation: w.int8(f[5]), PermissionType: w.int8(f[6]),
		})
	}
	w.c.DeleteAcls(w.ctx(req.APIKey()), req, func(r *protocol.DeleteAclsResponse) {
		for _, one := range r.FilterResults {
			w.say("-> %s", errText(one.ErrorCode, one.ErrorMessage))
			for _, a := range one.MatchingAcls {
				w.say("   %d %q %d %s %s %d %d", a.ResourceType, a.ResourceName, a.PatternType, a.Principal, a.Host, a.Operation, a.PermissionType)
			}
		}
	})
	w.env.run()
}

// as is who asks; direct: not by a broker.
func (w *traceWorld) as(key int16) *rpc.Context {
	ctx := w.ctx(key)
	ctx.Principal = w.str("as", "User:anna")
	if w.has("direct") {
		ctx.Listener = "CONTROLLER"
	}
	return ctx
}

func (w *traceWorld) millis(key string) int64 {
	d, err := time.ParseDuration(w.str(key, "-1ms"))
	if err != nil {
		w.t.Fatalf("%s: %v", w.d.Pos, err)
	}
	return d.Milliseconds()
}

// create-token [as=User:x] [owner=x] [renewers=(User:y)] [life=1h] [direct]. The token is known by the number of its creation.
func (w *traceWorld) cmdCreateToken() {
	req := protocol.NewCreateDelegationTokenRequest()
	req.MaxLifetimeMs = w.millis("life")
	if w.has("owner") {
		kind, name := "User", w.str("owner", "")
		req.OwnerPrincipalType, req.OwnerPrincipalName = &kind, &name
	}
	for _, p := range w.args("renewers") {
		kind, name := splitPrincipal(p)
		req.Renewers = append(req.Renewers, protocol.CreateDelegationTokenRequestCreatableRenewers{PrincipalType: kind, PrincipalName: name})
	}
	w.c.CreateDelegationToken(w.as(req.APIKey()), req, func(r *protocol.CreateDelegationTokenResponse) {
		w.say("-> %s owner=%s:%s requester=%s:%s issued=%d expires=%d max=%d", errText(r.ErrorCode, nil), r.PrincipalType, r.PrincipalName,
			r.TokenRequesterPrincipalType, r.TokenRequesterPrincipalName, r.IssueTimestampMs, r.ExpiryTimestampMs, r.MaxTimestampMs)
		if r.ErrorCode == 0 {
			w.tokens = append(w.tokens, r.Hmac)
		}
	})
	w.env.run()
}

func (w *traceWorld) token() []byte {
	if n := int(w.num("token", 0)); n < len(w.tokens) {
		return w.tokens[n]
	}
	return []byte("no such token")
}

// renew-token [as=User:x] [token=n] [period=1h].
func (w *traceWorld) cmdRenewToken() {
	req := protocol.NewRenewDelegationTokenRequest()
	req.Hmac, req.RenewPeriodMs = w.token(), w.millis("period")
	w.c.RenewDelegationToken(w.as(req.APIKey()), req, func(r *protocol.RenewDelegationTokenResponse) {
		w.say("-> %s expires=%d", errText(r.ErrorCode, nil), r.ExpiryTimestampMs)
	})
	w.env.run()
}

// expire-token [as=User:x] [token=n] [period=1h].
func (w *traceWorld) cmdExpireToken() {
	req := protocol.NewExpireDelegationTokenRequest()
	req.Hmac, req.ExpiryTimePeriodMs = w.token(), w.millis("period")
	w.c.ExpireDelegationToken(w.as(req.APIKey()), req, func(r *protocol.ExpireDelegationTokenResponse) {
		w.say("-> %s expires=%d", errText(r.ErrorCode, nil), r.ExpiryTimestampMs)
	})
	w.env.run()
}
