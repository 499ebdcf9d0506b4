package controller

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/timeline"
	"github.com/ottla-io/ottla/internal/uuid"
)

// security keeps what the records say about who may do what, and how much: ACLs, SCRAM credentials, delegation tokens
// and client quotas. Records are kept whole.
type security struct {
	log    *slog.Logger
	acls   *timeline.Map[uuid.UUID, *metadata.AccessControlEntryRecord]
	scram  *timeline.Map[scramKey, *metadata.UserScramCredentialRecord]
	tokens *timeline.Map[string, *metadata.DelegationTokenRecord]
	quotas *timeline.Map[quotaKey, float64]
}

type scramKey struct {
	user      string
	mechanism int8
}

// quotaKey is one quota of one entity. entity is its parts in a canonical text.
type quotaKey struct{ entity, key string }

func newSecurity(log *slog.Logger, r *timeline.Registry) *security {
	return &security{
		log:  log,
		acls: timeline.NewMap[uuid.UUID, *metadata.AccessControlEntryRecord](r, uuid.UUID.Compare),
		scram: timeline.NewMap[scramKey, *metadata.UserScramCredentialRecord](r, func(a, b scramKey) int {
			return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.mechanism, b.mechanism))
		}),
		tokens: timeline.NewOrderedMap[string, *metadata.DelegationTokenRecord](r),
		quotas: timeline.NewMap[quotaKey, float64](r, func(a, b quotaKey) int {
			return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.key, b.key))
		}),
	}
}

func (s *security) replayACL(r *metadata.AccessControlEntryRecord) error {
	if s.acls.Has(r.Id) {
		return fmt.Errorf("an ACL with id %s is there already", r.Id)
	}
	s.acls.Put(r.Id, r)
	s.log.Info("Replayed AccessControlEntryRecord.", "id", r.Id, "principal", r.Principal, "resource", r.ResourceName)
	return nil
}

func (s *security) replayRemoveACL(r *metadata.RemoveAccessControlEntryRecord) error {
	if _, ok := s.acls.Delete(r.Id); !ok {
		return fmt.Errorf("no ACL with id %s", r.Id)
	}
	s.log.Info("Replayed RemoveAccessControlEntryRecord.", "id", r.Id)
	return nil
}

func (s *security) replayScram(r *metadata.UserScramCredentialRecord) {
	c := *r
	c.Salt, c.StoredKey, c.ServerKey = clone(r.Salt), clone(r.StoredKey), clone(r.ServerKey) // they alias the log's buffer
	s.scram.Put(scramKey{r.Name, r.Mechanism}, &c)
	s.log.Info("Replayed UserScramCredentialRecord.", "user", r.Name, "mechanism", r.Mechanism)
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func (s *security) replayRemoveScram(r *metadata.RemoveUserScramCredentialRecord) error {
	if _, ok := s.scram.Delete(scramKey{r.Name, r.Mechanism}); !ok {
		return fmt.Errorf("no SCRAM credential of user %s with mechanism %d", r.Name, r.Mechanism)
	}
	s.log.Info("Replayed RemoveUserScramCredentialRecord.", "user", r.Name, "mechanism", r.Mechanism)
	return nil
}

func (s *security) replayToken(r *metadata.DelegationTokenRecord) {
	s.tokens.Put(r.TokenId, r)
	s.log.Info("Replayed DelegationTokenRecord.", "tokenId", r.TokenId, "owner", r.Owner)
}

func (s *security) replayRemoveToken(r *metadata.RemoveDelegationTokenRecord) {
	s.tokens.Delete(r.TokenId)
	s.log.Info("Replayed RemoveDelegationTokenRecord.", "tokenId", r.TokenId)
}

func (s *security) replayQuota(r *metadata.ClientQuotaRecord) {
	parts := make([]string, len(r.Entity))
	for i, e := range r.Entity {
		name := "<default>"
		if e.EntityName != nil {
			name = fmt.Sprintf("%q", *e.EntityName)
		}
		parts[i] = e.EntityType + "=" + name
	}
	slices.Sort(parts)
	key := quotaKey{strings.Join(parts, ","), r.Key}
	if r.Remove {
		s.quotas.Delete(key)
		s.log.Info("Replayed ClientQuotaRecord removing a quota.", "entity", key.entity, "key", r.Key)
		return
	}
	s.quotas.Put(key, r.Value)
	s.log.Info("Replayed ClientQuotaRecord setting a quota.", "entity", key.entity, "key", r.Key, "value", r.Value)
}
