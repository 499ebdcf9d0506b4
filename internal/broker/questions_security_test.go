package broker

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// dispatchSecurity calls the handlers of who may do what, and how much.
func dispatchSecurity(b *Broker, ctx *rpc.Context, req protocol.Request, respond func(protocol.Response)) {
	switch req := req.(type) {
	case *protocol.DescribeClientQuotasRequest:
		b.DescribeClientQuotas(ctx, req, func(r *protocol.DescribeClientQuotasResponse) { respond(r) })
	case *protocol.DescribeUserScramCredentialsRequest:
		b.DescribeUserScramCredentials(ctx, req, func(r *protocol.DescribeUserScramCredentialsResponse) { respond(r) })
	case *protocol.DescribeAclsRequest:
		b.DescribeAcls(ctx, req, func(r *protocol.DescribeAclsResponse) { respond(r) })
	case *protocol.CreateDelegationTokenRequest:
		b.CreateDelegationToken(ctx, req, func(r *protocol.CreateDelegationTokenResponse) { respond(r) })
	case *protocol.RenewDelegationTokenRequest:
		b.RenewDelegationToken(ctx, req, func(r *protocol.RenewDelegationTokenResponse) { respond(r) })
	case *protocol.ExpireDelegationTokenRequest:
		b.ExpireDelegationToken(ctx, req, func(r *protocol.ExpireDelegationTokenResponse) { respond(r) })
	case *protocol.DescribeDelegationTokenRequest:
		b.DescribeDelegationToken(ctx, req, func(r *protocol.DescribeDelegationTokenResponse) { respond(r) })
	default:
		b.Forward(ctx, req, respond)
	}
}

func securityQuestions() []question {
	var all []question
	all = append(all, quotaQuestions()...)
	all = append(all, scramQuestions()...)
	return append(all, tokenQuestions()...)
}

func quotaQuestions() []question {
	alter := protocol.NewAlterClientQuotasRequest()
	set := func(key string, value float64, parts ...*string) {
		e := protocol.AlterClientQuotasRequestEntryData{Ops: []protocol.AlterClientQuotasRequestOpData{{Key: key, Value: value}}}
		for i := 0; i < len(parts); i += 2 {
			e.Entity = append(e.Entity, protocol.AlterClientQuotasRequestEntityData{EntityType: *parts[i], EntityName: parts[i+1]})
		}
		alter.Entries = append(alter.Entries, e)
	}
	user, client, ip := text("user"), text("client-id"), text("ip")
	set("producer_byte_rate", 1, user, text("anna"))
	set("consumer_byte_rate", 2, user, nil)
	set("producer_byte_rate", 3, user, text("anna"), client, text("app"))
	set("request_percentage", 4.5, client, nil, user, text("anna"))
	set("producer_byte_rate", 5, client, text("app"))
	set("connection_creation_rate", 6, ip, text("10.0.0.1"))
	set("connection_creation_rate", 7, ip, nil)
	all := []question{{"quotas are set", alter, 1, true}}
	ask := func(name string, version int16, strict bool, components ...protocol.DescribeClientQuotasRequestComponentData) {
		req := protocol.NewDescribeClientQuotasRequest()
		req.Strict, req.Components = strict, components
		all = append(all, question{"quotas: " + name, req, version, false})
	}
	exact := func(kind, name string) protocol.DescribeClientQuotasRequestComponentData {
		return protocol.DescribeClientQuotasRequestComponentData{EntityType: kind, MatchType: matchExact, Match: &name}
	}
	of := func(kind string, match int8) protocol.DescribeClientQuotasRequestComponentData {
		return protocol.DescribeClientQuotasRequestComponentData{EntityType: kind, MatchType: match}
	}
	odd := exact("user", "anna")
	odd.MatchType = matchDefault
	odd2 := exact("user", "anna")
	odd2.MatchType = matchSpecified
	ask("all", 1, false)
	ask("all, version 0", 0, false)
	ask("nothing, strictly", 1, true)
	ask("anna", 1, false, exact("user", "anna"))
	ask("anna alone", 1, true, exact("user", "anna"))
	ask("anna's app", 1, true, exact("user", "anna"), exact("client-id", "app"))
	ask("any client of anna", 1, true, exact("user", "anna"), of("client-id", matchSpecified))
	ask("the default of users", 1, true, of("user", matchDefault))
	ask("any user", 1, true, of("user", matchSpecified))
	ask("any user and more", 1, false, of("user", matchSpecified))
	ask("any ip", 1, false, of("ip", matchSpecified))
	ask("nobody", 1, false, exact("user", "bert"))
	ask("twice", 1, false, exact("user", "anna"), of("user", matchDefault))
	ask("ip beside a user", 1, false, exact("user", "anna"), exact("ip", "10.0.0.1"))
	ask("what", 1, false, exact("host", "x"))
	ask("no type", 1, false, exact("", "x"))
	ask("no name", 1, false, of("user", matchExact))
	ask("a default with a name", 1, false, odd)
	ask("any with a name", 1, false, odd2)
	ask("odd match", 1, false, of("user", 9))
	return all
}

func scramQuestions() []question {
	alter := protocol.NewAlterUserScramCredentialsRequest()
	for _, u := range []struct {
		name      string
		mechanism int8
	}{{"anna", 1}, {"bert", 2}} {
		alter.Upsertions = append(alter.Upsertions, protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion{
			Name: u.name, Mechanism: u.mechanism, Iterations: 4096 + int32(u.mechanism), Salt: []byte("salt"), SaltedPassword: []byte("salted"),
		})
	}
	second := protocol.NewAlterUserScramCredentialsRequest()
	second.Upsertions = append(second.Upsertions, protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion{
		Name: "anna", Mechanism: 2, Iterations: 8192, Salt: []byte("salt"), SaltedPassword: []byte("salted"),
	})
	all := []question{{"credentials are set", alter, 0, true}, {"another credential is set", second, 0, true}}
	ask := func(name string, users ...string) {
		req := protocol.NewDescribeUserScramCredentialsRequest()
		for _, u := range users {
			req.Users = append(req.Users, protocol.DescribeUserScramCredentialsRequestUserName{Name: u})
		}
		all = append(all, question{"credentials: " + name, req, 0, false})
	}
	ask("all")
	ask("anna", "anna")
	ask("some", "bert", "nobody", "anna")
	ask("twice", "anna", "anna", "bert")
	return all
}

func tokenQuestions() []question {
	var all []question
	for v := int16(1); v <= 3; v++ {
		acls := protocol.NewDescribeAclsRequest()
		acls.ResourceTypeFilter, acls.PatternTypeFilter, acls.Operation, acls.PermissionType = 1, 1, 1, 1
		create, describe := protocol.NewCreateDelegationTokenRequest(), protocol.NewDescribeDelegationTokenRequest()
		if v >= 3 {
			create.OwnerPrincipalType, create.OwnerPrincipalName = text("User"), text("anna")
		}
		all = append(all, question{"create a token", create, v, false}, question{"describe tokens", describe, v, false},
			question{"describe acls", acls, v, false})
	}
	for v := int16(1); v <= 2; v++ {
		renew, expire := protocol.NewRenewDelegationTokenRequest(), protocol.NewExpireDelegationTokenRequest()
		renew.Hmac, expire.Hmac = []byte("hmac"), []byte("hmac")
		all = append(all, question{"renew a token", renew, v, false}, question{"expire a token", expire, v, false})
	}
	return all
}

// sortSecurity brings what has no order into one.
func sortSecurity(resp protocol.Response) {
	byText := func(a, b any) int { return strings.Compare(jsonText(a), jsonText(b)) }
	switch r := resp.(type) {
	case *protocol.DescribeClientQuotasResponse:
		for _, e := range r.Entries {
			slices.SortFunc(e.Entity, func(a, b protocol.DescribeClientQuotasResponseEntityData) int {
				return strings.Compare(a.EntityType, b.EntityType)
			})
		}
		slices.SortFunc(r.Entries, func(a, b protocol.DescribeClientQuotasResponseEntryData) int { return byText(a, b) })
	case *protocol.AlterClientQuotasResponse:
		for _, e := range r.Entries {
			slices.SortFunc(e.Entity, func(a, b protocol.AlterClientQuotasResponseEntityData) int {
				return strings.Compare(a.EntityType, b.EntityType)
			})
		}
		slices.SortFunc(r.Entries, func(a, b protocol.AlterClientQuotasResponseEntryData) int { return byText(a, b) })
	case *protocol.DescribeUserScramCredentialsResponse:
		slices.SortFunc(r.Results, func(a, b protocol.DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult) int {
			return strings.Compare(a.User, b.User)
		})
		for _, u := range r.Results {
			slices.SortFunc(u.CredentialInfos, func(a, b protocol.DescribeUserScramCredentialsResponseCredentialInfo) int {
				return int(a.Mechanism) - int(b.Mechanism)
			})
		}
	case *protocol.AlterUserScramCredentialsResponse:
		slices.SortFunc(r.Results, func(a, b protocol.AlterUserScramCredentialsResponseAlterUserScramCredentialsResult) int {
			return strings.Compare(a.User, b.User)
		})
	}
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
