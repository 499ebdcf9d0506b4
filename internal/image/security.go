package image

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ACLs are the access control entries.
type ACLs struct {
	byID *table[string, *metadata.AccessControlEntryRecord]
}

// Get returns an entry by its id; nil if there is none. It is shared: it must not be changed.
func (a *ACLs) Get(id uuid.UUID) *metadata.AccessControlEntryRecord {
	if a == nil {
		return nil
	}
	r, _ := a.byID.get(idKey(id))
	return r
}

// Len is the number of entries.
func (a *ACLs) Len() int {
	if a == nil {
		return 0
	}
	return a.byID.len()
}

// All iterates over the entries, sorted by id.
func (a *ACLs) All() iter.Seq[*metadata.AccessControlEntryRecord] {
	if a == nil {
		return values[string, *metadata.AccessControlEntryRecord](nil)
	}
	return values(a.byID)
}

func values[K interface{ ~string | ~int32 }, V any](t *table[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range t.all() {
			if !yield(v) {
				return
			}
		}
	}
}

// Scram are the SCRAM credentials.
type Scram struct {
	byUser *table[string, *metadata.UserScramCredentialRecord]
}

func scramKey(mechanism int8, user string) string { return string([]byte{byte(mechanism)}) + user }

// Get returns the credential of a user for a mechanism (1: SHA-256, 2: SHA-512); nil if there is none. It is shared: it
// must not be changed.
func (s *Scram) Get(mechanism int8, user string) *metadata.UserScramCredentialRecord {
	if s == nil {
		return nil
	}
	r, _ := s.byUser.get(scramKey(mechanism, user))
	return r
}

// All iterates over the credentials, sorted by mechanism and user.
func (s *Scram) All() iter.Seq[*metadata.UserScramCredentialRecord] {
	if s == nil {
		return values[string, *metadata.UserScramCredentialRecord](nil)
	}
	return values(s.byUser)
}

// DelegationTokens are the delegation tokens.
type DelegationTokens struct {
	byID *table[string, *metadata.DelegationTokenRecord]
}

// Get returns a token by its id; nil if there is none. It is shared: it must not be changed.
func (t *DelegationTokens) Get(id string) *metadata.DelegationTokenRecord {
	if t == nil {
		return nil
	}
	r, _ := t.byID.get(id)
	return r
}

// All iterates over the tokens, sorted by id.
func (t *DelegationTokens) All() iter.Seq[*metadata.DelegationTokenRecord] {
	if t == nil {
		return values[string, *metadata.DelegationTokenRecord](nil)
	}
	return values(t.byID)
}

// The records stand for themselves in the image: they hold nothing but what they say.

type aclsDelta struct {
	tableDelta[string, *metadata.AccessControlEntryRecord]
}

func newACLsDelta(base *ACLs) *aclsDelta {
	d := &aclsDelta{}
	if base != nil {
		d.base = base.byID
	}
	return d
}

func (d *aclsDelta) apply() *ACLs { return &ACLs{d.current()} }

func (d *aclsDelta) remove(r *metadata.RemoveAccessControlEntryRecord) error {
	if !d.delete(idKey(r.Id)) {
		return fmt.Errorf("no access control entry with id %s", r.Id)
	}
	return nil
}

func (d *aclsDelta) replaceBy(next *ACLs) {
	if next == nil {
		next = &ACLs{}
	}
	d.replace(next.byID, func(a, b *metadata.AccessControlEntryRecord) bool { return reflect.DeepEqual(a, b) })
}

type scramDelta struct {
	tableDelta[string, *metadata.UserScramCredentialRecord]
}

func newScramDelta(base *Scram) *scramDelta {
	d := &scramDelta{}
	if base != nil {
		d.base = base.byUser
	}
	return d
}

func (d *scramDelta) apply() *Scram { return &Scram{d.current()} }

func (d *scramDelta) replay(r *metadata.UserScramCredentialRecord) {
	c := *r // the record's bytes belong to the log's buffer
	c.Salt, c.StoredKey, c.ServerKey = bytes.Clone(r.Salt), bytes.Clone(r.StoredKey), bytes.Clone(r.ServerKey)
	d.put(scramKey(r.Mechanism, r.Name), &c)
}

func (d *scramDelta) remove(r *metadata.RemoveUserScramCredentialRecord) error {
	if !d.delete(scramKey(r.Mechanism, r.Name)) {
		return fmt.Errorf("user %s has no credential of mechanism %d", r.Name, r.Mechanism)
	}
	return nil
}

func (d *scramDelta) replaceBy(next *Scram) {
	if next == nil {
		next = &Scram{}
	}
	d.replace(next.byUser, func(a, b *metadata.UserScramCredentialRecord) bool { return reflect.DeepEqual(a, b) })
}

type tokensDelta struct {
	tableDelta[string, *metadata.DelegationTokenRecord]
}

func newTokensDelta(base *DelegationTokens) *tokensDelta {
	d := &tokensDelta{}
	if base != nil {
		d.base = base.byID
	}
	return d
}

func (d *tokensDelta) apply() *DelegationTokens { return &DelegationTokens{d.current()} }

func (d *tokensDelta) remove(r *metadata.RemoveDelegationTokenRecord) error {
	if !d.delete(r.TokenId) {
		return fmt.Errorf("no delegation token with id %s", r.TokenId)
	}
	return nil
}

func (d *tokensDelta) replaceBy(next *DelegationTokens) {
	if next == nil {
		next = &DelegationTokens{}
	}
	d.replace(next.byID, func(a, b *metadata.DelegationTokenRecord) bool { return reflect.DeepEqual(a, b) })
}
