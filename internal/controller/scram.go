package controller

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
)

// Bounds of the iterations of a SCRAM credential (RFC 5802; Kafka takes no more than that).
const (
	minScramIterations = 4096
	maxScramIterations = 16384
)

// scramHashes are the hashes of the mechanisms, by their numbers.
var scramHashes = map[int8]func() hash.Hash{1: sha256.New, 2: sha512.New}

type scramResult = protocol.AlterUserScramCredentialsResponseAlterUserScramCredentialsResult

// scramUser is what a request wants of one user: one deletion or one upsertion, or the error that it has already.
type scramUser struct {
	name     string
	deletion *protocol.AlterUserScramCredentialsRequestScramCredentialDeletion
	upsert   *protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion
	err      *apiError
}

// alterScram works out the records of an AlterUserScramCredentials request: each user for itself, and once only.
func (s *security) alterScram(req *protocol.AlterUserScramCredentialsRequest, v metadata.Version) (Result[*protocol.AlterUserScramCredentialsResponse], error) {
	res := Result[*protocol.AlterUserScramCredentialsResponse]{Response: protocol.NewAlterUserScramCredentialsResponse(), Atomic: true}
	for _, u := range s.scramUsers(req, v) {
		one := scramResult{User: u.name}
		switch {
		case u.err != nil:
			one.ErrorCode, one.ErrorMessage = codeAndMessage(u.err)
		case u.deletion != nil:
			r := metadata.NewRemoveUserScramCredentialRecord()
			r.Name, r.Mechanism = u.name, u.deletion.Mechanism
			res.Records = append(res.Records, metadata.Versioned{Record: r})
		default:
			res.Records = append(res.Records, metadata.Versioned{Record: scramRecord(u.upsert)})
		}
		res.Response.Results = append(res.Response.Results, one)
	}
	return res, nil
}

// scramUsers are the users of a request in its order, checked.
func (s *security) scramUsers(req *protocol.AlterUserScramCredentialsRequest, v metadata.Version) []*scramUser {
	var users []*scramUser
	add := func(name string, check func() *apiError) *scramUser {
		u := &scramUser{name: name}
		if i := slices.IndexFunc(users, func(u *scramUser) bool { return u.name == name }); i >= 0 {
			if u = users[i]; u.err == nil {
				u.err = fail(kerr.DuplicateResource, "A user credential cannot be altered twice in the same request")
			}
			return u
		}
		users = append(users, u)
		if !v.Scram() {
			u.err = fail(kerr.UnsupportedVersion, "The current metadata.version does not support SCRAM")
			return u
		}
		u.err = check()
		return u
	}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		add(d.Name, func() *apiError { return s.checkScramDeletion(d) }).deletion = d
	}
	for i := range req.Upsertions {
		p := &req.Upsertions[i]
		add(p.Name, func() *apiError { return checkScramUpsertion(p) }).upsert = p
	}
	return users
}

func (s *security) checkScramDeletion(d *protocol.AlterUserScramCredentialsRequestScramCredentialDeletion) *apiError {
	if err := checkScramName(d.Name, d.Mechanism); err != nil {
		return err
	}
	if !s.scram.Has(scramKey{d.Name, d.Mechanism}) {
		return fail(kerr.ResourceNotFound, "Attempt to delete a user credential that does not exist")
	}
	return nil
}

func checkScramUpsertion(p *protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion) *apiError {
	if err := checkScramName(p.Name, p.Mechanism); err != nil {
		return err
	}
	switch {
	case p.Iterations < minScramIterations:
		return fail(kerr.UnacceptableCredential, "Too few iterations")
	case p.Iterations > maxScramIterations:
		return fail(kerr.UnacceptableCredential, "Too many iterations")
	}
	return nil
}

func checkScramName(name string, mechanism int8) *apiError {
	switch {
	case name == "":
		return fail(kerr.UnacceptableCredential, "Username must not be empty")
	case scramHashes[mechanism] == nil:
		return fail(kerr.UnsupportedSaslMechanism, "Unknown SCRAM mechanism")
	}
	return nil
}

// scramRecord keeps what is needed to check a proof, and not the salted password, which would do for a client's part
// (RFC 5802, section 3).
func scramRecord(p *protocol.AlterUserScramCredentialsRequestScramCredentialUpsertion) *metadata.UserScramCredentialRecord {
	newHash := scramHashes[p.Mechanism]
	sign := func(text string) []byte {
		h := hmac.New(newHash, p.SaltedPassword)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := newHash()
	stored.Write(sign("Client Key"))
	r := metadata.NewUserScramCredentialRecord()
	r.Name, r.Mechanism, r.Salt, r.Iterations = p.Name, p.Mechanism, clone(p.Salt), p.Iterations
	r.StoredKey, r.ServerKey = stored.Sum(nil), sign("Server Key")
	return r
}
