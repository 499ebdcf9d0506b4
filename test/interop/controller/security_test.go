//go:build interop

package controller

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/protocol"
)

// TestSameSecurity asks both nodes the same about credentials, quotas and ACLs. Without an authorizer there are no ACLs.
func TestSameSecurity(t *testing.T) {
	with := []string{"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS"}
	kafka, ours := startKafka(t, with...), startOurs(t, with...)
	askBoth(t, kafka, ours, securityQuestions())
	t.Run("records", func(t *testing.T) { compareRecords(t, kafka, ours) })
}

func securityQuestions() []question {
	return []question{
		{"create", 7, create(false, "a partitions=1 rf=1")}, // records are compared from here on
		{"scram", 0, scram("set u 1 4096\nset v 2 16384\nset w 1 4095\nset x 1 16385\nset y 3 5000\nset \"\" 1 5000\nset z 0 5000")},
		{"scram again", 0, scram("set u 1 5000\nset u 2 5000")},
		{"scram delete", 0, scram("delete v 2\ndelete v2 2\ndelete u 2\ndelete w 9\ndelete \"\" 1")},
		{"scram twice", 0, scram("delete u 1\ndelete u 1\ndelete u 1")},
		{"scram both", 0, scram("delete u 1\nset u 1 5000\nset q 1 5000\nset q 1 5000\nset r 1 6000")},
		{"scram nothing", 0, protocol.NewAlterUserScramCredentialsRequest()},

		{"quotas", 1, quotas(false, "user=u producer_byte_rate=100 consumer_byte_rate=7.5\nuser=u,client-id=c request_percentage=12.5\nuser= producer_byte_rate=1000000\nip=127.0.0.1 connection_creation_rate=5\nip= connection_creation_rate=5\nclient-id=c controller_mutation_rate=0.25")},
		{"quotas accepted", 1, quotas(false, "user=u producer_byte_rate=100 consumer_byte_rate=7\nuser= client-id=\nclient-id= controller_mutation_rate=0.25")},
		{"quotas again", 1, quotas(false, "user=u producer_byte_rate=100 consumer_byte_rate=8 request_percentage=-")},
		{"quotas removed", 1, quotas(false, "user=u producer_byte_rate=- nothing=-\nuser=nobody producer_byte_rate=-")},
		{"quotas of what", 1, quotas(false, "\nhost=h producer_byte_rate=1\nuser=\"\" producer_byte_rate=1\nip=1.2.3.4,user=u producer_byte_rate=1\nip=1.2.3.4 producer_byte_rate=1\nip=no.such.host.invalid connection_creation_rate=1\nuser=t connection_creation_rate=1")},
		{"quotas of how much", 1, quotas(false, "user=a producer_byte_rate=0\nuser=b producer_byte_rate=-1\nuser=c producer_byte_rate=1e300\nip=1.1.1.1 connection_creation_rate=1e10\nip=1.1.1.2 connection_creation_rate=1.5\nuser=d nothing=1\nuser=e request_percentage=1e10")},
		{"quotas twice", 1, quotas(false, "user=k producer_byte_rate=1\nuser=k consumer_byte_rate=2\nuser=l producer_byte_rate=1 producer_byte_rate=2")},
		{"quotas validate only", 1, quotas(true, "user=m producer_byte_rate=1")},
		{"quotas version 0", 0, quotas(false, "user=n producer_byte_rate=1")},

		{"acls", 3, acls("2 orders 3 User:a * 3 3\n2 ord 4 User:a * 4 3\n3 g 3 User:a 10.0.0.1 3 2\n4 kafka-cluster 3 User:b * 7 3\n7 User:c 3 User:b * 13 3\n5 t 3 User:b * 15 3\n6 t 3 User:b * 8 3")},
		{"acls again", 3, acls("2 orders 3 User:a * 3 3\n2 new 3 User:a * 3 3\n2 new 3 User:a * 3 3")},
		{"acls of another cluster", 3, acls("4 cluster 3 User:a * 3 3\n2 \"\" 3 User:a * 3 3\n2 good 3 User:a * 3 3")},
		{"acls of unknown things", 3, acls("2 x 3 User:a * 99 3")},
		{"acls without a type of principal", 3, acls("2 x 3 nobody * 3 3")},
		{"acls version 1", 1, acls("2 one 3 User:a * 3 3")},
		{"delete acls", 3, deleteACLs("2 orders 2 - - 1 1\n2 orders 3 - - 1 1\n2 - 1 User:z - 1 1\n1 - 1 - 10.0.0.1 1 2")},
		{"delete acls of an operation", 1, deleteACLs("1 - 1 - - 7 1\n1 nothing 1 - - 1 1")},
		{"delete the rest", 2, deleteACLs("1 - 1 - - 1 1")},
		{"delete nothing", 3, protocol.NewDeleteAclsRequest()},
	}
}

// TestNoAuthorizer: where nobody is authorized there are no ACLs.
func TestNoAuthorizer(t *testing.T) {
	askBoth(t, startKafka(t), startOurs(t), []question{
		{"create", 3, acls("2 orders 3 User:a * 3 3\n2 ord 4 User:a * 4 3")},
		{"delete", 3, deleteACLs("1 - 1 - - 1 1")},
	})
}

// scram reads: set name mechanism iterations, or delete name mechanism, one a line.
func scram(lines string) *protocol.AlterUserScramCredentialsRequest {
	req := protocol.NewAlterUserScramCredentialsRequest()
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		name := strings.Trim(f[1], `"`)
		mechanism, _ := strconv.Atoi(f[2])
		if f[0] == "delete" {
			req.Deletions = append(req.Deletions, protocol.AlterUserScramCredentialsRequestScramCredentialDeletion{Name: name, Mechanism: int8(mechanism)})
			continue
		}
		n, _ := strconv.Atoi(f[3])
		req.Upsertions = append(req.Upsertions, protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion{
			Name: name, Mechanism: int8(mechanism), Iterations: int32(n), Salt: []byte("salt"), SaltedPassword: []byte("salted password of " + name),
		})
	}
	return req
}

// quotas reads: type=name[,type=name] key=value..., one a line; no name is the default, "" an empty one; - removes.
func quotas(validateOnly bool, lines string) *protocol.AlterClientQuotasRequest {
	req := protocol.NewAlterClientQuotasRequest()
	req.ValidateOnly = validateOnly
	for line := range strings.SplitSeq(lines, "\n") {
		f := strings.Fields(line + " .")
		e := protocol.AlterClientQuotasRequestEntryData{}
		for part := range strings.SplitSeq(f[0], ",") {
			kind, name, ok := strings.Cut(part, "=")
			if !ok {
				continue
			}
			d := protocol.AlterClientQuotasRequestEntityData{EntityType: kind}
			if name != "" {
				name = strings.Trim(name, `"`)
				d.EntityName = &name
			}
			e.Entity = append(e.Entity, d)
		}
		for _, kv := range f[1:] {
			k, v, ok := strings.Cut(kv, "=")
			if !ok {
				continue
			}
			n, err := strconv.ParseFloat(v, 64)
			e.Ops = append(e.Ops, protocol.AlterClientQuotasRequestOpData{Key: k, Value: n, Remove: err != nil})
		}
		req.Entries = append(req.Entries, e)
	}
	return req
}

// acls reads: resource name pattern principal host operation permission, one a line.
func acls(lines string) *protocol.CreateAclsRequest {
	req := protocol.NewCreateAclsRequest()
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		req.Creations = append(req.Creations, protocol.CreateAclsRequestAclCreation{
			ResourceType: number(f[0]), ResourceName: strings.Trim(f[1], `"`), ResourcePatternType: number(f[2]),
			Principal: f[3], Host: f[4], Operation: number(f[5]), PermissionType: number(f[6]),
		})
	}
	return req
}

// deleteACLs reads the same, with - for any text.
func deleteACLs(lines string) *protocol.DeleteAclsRequest {
	req := protocol.NewDeleteAclsRequest()
	text := func(s string) *string {
		if s == "-" {
			return nil
		}
		return &s
	}
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		req.Filters = append(req.Filters, protocol.DeleteAclsRequestDeleteAclsFilter{
			ResourceTypeFilter: number(f[0]), ResourceNameFilter: text(f[1]), PatternTypeFilter: number(f[2]),
			PrincipalFilter: text(f[3]), HostFilter: text(f[4]), Operation: number(f[5]), PermissionType: number(f[6]),
		})
	}
	return req
}

func number(s string) int8 {
	n, _ := strconv.Atoi(s)
	return int8(n)
}
