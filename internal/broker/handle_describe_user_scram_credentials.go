package broker

import (
	"maps"
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// scramMechanisms are the mechanisms, in the order in which they are told.
var scramMechanisms = []int8{1, 2}

// DescribeUserScramCredentials is key 50, version 0 (KIP-554). Path: one image → the named users, or all that have
// credentials; mechanisms and iterations, never a secret. Errors of a user: 91 has none, 92 named twice.
func (b *Broker) DescribeUserScramCredentials(_ *rpc.Context, req *protocol.DescribeUserScramCredentialsRequest, respond func(*protocol.DescribeUserScramCredentialsResponse)) {
	scram := b.Image().Scram
	named := map[string]int{}
	for _, u := range req.Users {
		named[u.Name]++
	}
	if len(req.Users) == 0 {
		for r := range scram.All() {
			named[r.Name] = 1
		}
	}
	resp := protocol.NewDescribeUserScramCredentialsResponse()
	for _, user := range slices.Sorted(maps.Keys(named)) {
		one := protocol.NewDescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult()
		one.User = user
		fail := func(e *kerr.Error, message string) { one.ErrorCode, one.ErrorMessage = e.Code, &message }
		for _, m := range scramMechanisms {
			if r := scram.Get(m, user); r != nil && named[user] == 1 {
				one.CredentialInfos = append(one.CredentialInfos, protocol.DescribeUserScramCredentialsResponseCredentialInfo{Mechanism: m, Iterations: r.Iterations})
			}
		}
		switch {
		case named[user] > 1:
			fail(kerr.DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: "+user)
		case len(one.CredentialInfos) == 0:
			fail(kerr.ResourceNotFound, "Attempt to describe a user credential that does not exist: "+user)
		}
		resp.Results = append(resp.Results, one)
	}
	respond(resp)
}
