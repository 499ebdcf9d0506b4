package controller

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ottla-io/ottla/internal/acl"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/timeline"
	"github.com/ottla-io/ottla/internal/uuid"
)

// security keeps what the records say about who may do what, and how much: ACLs, SCRAM credentials and client quotas.
// Records are kept whole.
type security struct {
	log      *slog.Logger
	acls     *timeline.Map[uuid.UUID, *metadata.AccessControlEntryRecord]
	bindings *timeline.Map[acl.Binding, int] // what the entries say, and how many say it
	scram    *timeline.Map[scramKey, *metadata.UserScramCredentialRecord]
	quotas   *timeline.Map[quotaKey, float64]
}

type scramKey struct {
	user      string
	mechanism int8
}

func compareBindings(a, b acl.Binding) int {
	return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), cmp.Compare(a.ResourceName, b.ResourceName), cmp.Compare(a.PatternType, b.PatternType),
		cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Permission, b.Permission))
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
		bindings: timeline.NewMap[acl.Binding, int](r, compareBindings),
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
	n, _ := s.bindings.Get(bindingOf(r))
	s.bindings.Put(bindingOf(r), n+1)
	s.log.Info("Replayed AccessControlEntryRecord.", "id", r.Id, "principal", r.Principal, "resource", r.ResourceName)
	return nil
}

func (s *security) replayRemoveACL(r *metadata.RemoveAccessControlEntryRecord) error {
	entry, ok := s.acls.Delete(r.Id)
	if !ok {
		return fmt.Errorf("no ACL with id %s", r.Id)
	}
	if n, _ := s.bindings.Get(bindingOf(entry)); n > 1 {
		s.bindings.Put(bindingOf(entry), n-1)
	} else {
		s.bindings.Delete(bindingOf(entry))
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

func (s *security) replayQuota(r *metadata.ClientQuotaRecord) {
	key := quotaKey{quotaEntity(slices.Clone(r.Entity)).sorted().key(), r.Key}
	if r.Remove {
		s.quotas.Delete(key)
		s.log.Info("Replayed ClientQuotaRecord removing a quota.", "entity", key.entity, "key", r.Key)
		return
	}
	s.quotas.Put(key, r.Value)
	s.log.Info("Replayed ClientQuotaRecord setting a quota.", "entity", key.entity, "key", r.Key, "value", r.Value)
}
