package controller

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
)

// securityStep is a request about credentials, quotas, ACLs or tokens.
func (h *randomHistory) securityStep() {
	name := fmt.Sprint("u", h.rng.IntN(3))
	switch h.rng.IntN(7) {
	case 0:
		req := protocol.NewAlterUserScramCredentialsRequest()
		req.Upsertions = append(req.Upsertions, protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion{
			Name: name, Mechanism: int8(h.rng.IntN(4)), Iterations: 4095 + int32(h.rng.IntN(10)), Salt: []byte("salt"), SaltedPassword: []byte(name),
		})
		ask(h, func(done func(*protocol.AlterUserScramCredentialsResponse)) {
			h.c.AlterUserScramCredentials(h.ctx(0), req, done)
		})
	case 1:
		req := protocol.NewAlterUserScramCredentialsRequest()
		req.Deletions = append(req.Deletions, protocol.AlterUserScramCredentialsRequestScramCredentialDeletion{Name: name, Mechanism: int8(1 + h.rng.IntN(2))})
		ask(h, func(done func(*protocol.AlterUserScramCredentialsResponse)) {
			h.c.AlterUserScramCredentials(h.ctx(0), req, done)
		})
	case 2:
		h.alterQuota(name)
	case 3:
		req := protocol.NewCreateAclsRequest()
		for range 1 + h.rng.IntN(3) {
			req.Creations = append(req.Creations, protocol.CreateAclsRequestAclCreation{
				ResourceType: 2, ResourceName: h.name(), ResourcePatternType: 3, Principal: "User:" + name, Host: "*", Operation: 3, PermissionType: 3,
			})
		}
		ask(h, func(done func(*protocol.CreateAclsResponse)) { h.c.CreateAcls(h.ctx(3), req, done) })
	case 4:
		req := protocol.NewDeleteAclsRequest()
		topic := h.name()
		req.Filters = append(req.Filters, protocol.DeleteAclsRequestDeleteAclsFilter{ResourceTypeFilter: 1, ResourceNameFilter: &topic, PatternTypeFilter: 1, Operation: 1, PermissionType: 1})
		ask(h, func(done func(*protocol.DeleteAclsResponse)) { h.c.DeleteAcls(h.ctx(3), req, done) })
	case 5:
		req := protocol.NewCreateDelegationTokenRequest()
		req.MaxLifetimeMs = int64(1 + h.rng.IntN(20000))
		ask(h, func(done func(*protocol.CreateDelegationTokenResponse)) {
			h.c.CreateDelegationToken(h.ctx(3), req, done)
		})
	case 6:
		for hmac := range h.c.state.tokens.byHMAC.All() {
			req := protocol.NewExpireDelegationTokenRequest()
			req.Hmac, req.ExpiryTimePeriodMs = []byte(hmac), int64(h.rng.IntN(3)-1)
			ask(h, func(done func(*protocol.ExpireDelegationTokenResponse)) {
				h.c.ExpireDelegationToken(h.ctx(2), req, done)
			})
			break
		}
	}
}

func (h *randomHistory) alterQuota(name string) {
	req := protocol.NewAlterClientQuotasRequest()
	e := protocol.AlterClientQuotasRequestEntryData{Entity: []protocol.AlterClientQuotasRequestEntityData{{EntityType: quotaUser, EntityName: &name}}}
	if h.rng.IntN(3) == 0 {
		e.Entity = append(e.Entity, protocol.AlterClientQuotasRequestEntityData{EntityType: quotaClient})
	}
	e.Ops = append(e.Ops, protocol.AlterClientQuotasRequestOpData{Key: "producer_byte_rate", Value: float64(h.rng.IntN(4)), Remove: h.rng.IntN(3) == 0})
	req.Entries = append(req.Entries, e)
	ask(h, func(done func(*protocol.AlterClientQuotasResponse)) { h.c.AlterClientQuotas(h.ctx(1), req, done) })
}

// entityOfKey reads a quotaEntity's key.
func entityOfKey(key string) quotaEntity {
	var e quotaEntity
	for part := range strings.SplitSeq(key, ",") {
		kind, name, _ := strings.Cut(part, "=")
		kind, _ = strconv.Unquote(kind)
		d := metadata.ClientQuotaRecordEntityData{EntityType: kind}
		if text, err := strconv.Unquote(name); err == nil {
			d.EntityName = &text
		}
		e = append(e, d)
	}
	return e
}
