package controller

import (
	"crypto/hmac"
	"crypto/sha512"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/timeline"
	"github.com/ottla-io/ottla/internal/uuid"
)

// userType is the only type of principals that tokens are for.
const userType = "User"

// TokenSettings are those of delegation tokens (KIP-48, KIP-900).
type TokenSettings struct {
	Secret      string        // delegation.token.secret.key; empty: there are no tokens
	MaxLifetime time.Duration // delegation.token.max.lifetime.ms
	RenewPeriod time.Duration // delegation.token.expiry.time.ms: so long a token lives if it is not renewed
	CheckEvery  time.Duration // delegation.token.expiry.check.interval.ms
}

// TokenHMAC is what the owner of a token has, and nobody else: the token's id signed with the cluster's secret.
func TokenHMAC(secret, id string) []byte {
	h := hmac.New(sha512.New, []byte(secret))
	h.Write([]byte(id))
	return h.Sum(nil)
}

// tokens owns the delegation tokens. The log has their ids; what their owners send is the HMAC.
type tokens struct {
	log    *slog.Logger
	set    TokenSettings
	now    func() time.Time
	newID  func() uuid.UUID
	byID   *timeline.Map[string, *metadata.DelegationTokenRecord]
	byHMAC *timeline.Map[string, string] // ids; empty without a secret
}

func newTokens(log *slog.Logger, set TokenSettings, now func() time.Time, newID func() uuid.UUID, r *timeline.Registry) *tokens {
	return &tokens{log, set, now, newID, timeline.NewOrderedMap[string, *metadata.DelegationTokenRecord](r), timeline.NewOrderedMap[string, string](r)}
}

func (t *tokens) replay(r *metadata.DelegationTokenRecord) {
	t.byID.Put(r.TokenId, r)
	if t.set.Secret != "" {
		t.byHMAC.Put(string(TokenHMAC(t.set.Secret, r.TokenId)), r.TokenId)
	}
	t.log.Info("Replayed DelegationTokenRecord.", "tokenId", r.TokenId, "owner", r.Owner)
}

func (t *tokens) replayRemove(r *metadata.RemoveDelegationTokenRecord) {
	t.byID.Delete(r.TokenId)
	if t.set.Secret != "" {
		t.byHMAC.Delete(string(TokenHMAC(t.set.Secret, r.TokenId)))
	}
	t.log.Info("Replayed RemoveDelegationTokenRecord.", "tokenId", r.TokenId)
}

// usable fails if there are no tokens, because of the settings or of metadata.version.
func (t *tokens) usable(v metadata.Version) error {
	switch {
	case t.set.Secret == "":
		return fail(kerr.DelegationTokenAuthDisabled, "")
	case !v.DelegationTokens():
		return fail(kerr.UnsupportedVersion, "")
	}
	return nil
}

func (t *tokens) millis() int64 { return t.now().UnixMilli() }

// create works out a new token for an owner. Times are in milliseconds since 1970.
func (t *tokens) create(req *protocol.CreateDelegationTokenRequest, owner, requester string, v metadata.Version) (*metadata.DelegationTokenRecord, error) {
	if err := t.usable(v); err != nil {
		return nil, err
	}
	life := t.set.MaxLifetime.Milliseconds()
	if req.MaxLifetimeMs > 0 {
		life = min(life, req.MaxLifetimeMs)
	}
	r := metadata.NewDelegationTokenRecord()
	r.Owner, r.Requester = owner, requester
	r.Renewers = []string{}
	for _, p := range req.Renewers {
		if p.PrincipalType != userType {
			return nil, fail(kerr.InvalidPrincipalType, "")
		}
		r.Renewers = append(r.Renewers, p.PrincipalType+":"+p.PrincipalName)
	}
	now := t.millis()
	r.TokenId = t.newID().String()
	r.IssueTimestamp, r.MaxTimestamp = now, later(now, life)
	r.ExpirationTimestamp = min(r.MaxTimestamp, later(now, t.set.RenewPeriod.Milliseconds()))
	return r, nil
}

// later adds to a time, up to the end of time.
func later(at, millis int64) int64 {
	if at > math.MaxInt64-millis {
		return math.MaxInt64
	}
	return at + millis
}

// find returns the token of an HMAC.
func (t *tokens) find(hmac []byte) (*metadata.DelegationTokenRecord, error) {
	id, ok := t.byHMAC.Get(string(hmac))
	if !ok {
		return nil, fail(kerr.DelegationTokenNotFound, "")
	}
	r, _ := t.byID.Get(id)
	return r, nil
}

func mayRenew(r *metadata.DelegationTokenRecord, who string) error {
	if r.Owner == who {
		return nil
	}
	for _, p := range r.Renewers {
		if p == who {
			return nil
		}
	}
	return fail(kerr.DelegationTokenOwnerMismatch, "")
}

func isOver(r *metadata.DelegationTokenRecord, now int64) bool {
	return r.MaxTimestamp < now || r.ExpirationTimestamp < now
}

// expiring is a token with another end.
func expiring(r *metadata.DelegationTokenRecord, at int64) metadata.Versioned {
	next := *r
	next.ExpirationTimestamp = at
	return metadata.Versioned{Record: &next}
}

// renew gives a token more time, up to its longest life. It returns when it will end.
func (t *tokens) renew(req *protocol.RenewDelegationTokenRequest, who string, v metadata.Version) (Result[int64], error) {
	if err := t.usable(v); err != nil {
		return Result[int64]{}, err
	}
	r, err := t.find(req.Hmac)
	if err != nil {
		return Result[int64]{}, err
	}
	now := t.millis()
	if isOver(r, now) {
		return Result[int64]{}, fail(kerr.DelegationTokenExpired, "")
	}
	if err := mayRenew(r, who); err != nil {
		return Result[int64]{}, err
	}
	period := t.set.RenewPeriod.Milliseconds()
	if req.RenewPeriodMs > 0 {
		period = min(period, req.RenewPeriodMs)
	}
	at := min(r.MaxTimestamp, later(now, period))
	return Result[int64]{Records: []metadata.Versioned{expiring(r, at)}, Response: at, Atomic: true}, nil
}

// expire ends a token at once if the period is negative, else after the period. It returns when it ends.
func (t *tokens) expire(req *protocol.ExpireDelegationTokenRequest, who string, v metadata.Version) (Result[int64], error) {
	if err := t.usable(v); err != nil {
		return Result[int64]{}, err
	}
	r, err := t.find(req.Hmac)
	if err == nil {
		err = mayRenew(r, who)
	}
	if err != nil {
		return Result[int64]{}, err
	}
	now := t.millis()
	switch {
	case req.ExpiryTimePeriodMs < 0:
		return Result[int64]{Records: []metadata.Versioned{removeToken(r.TokenId)}, Response: now, Atomic: true}, nil
	case isOver(r, now):
		return Result[int64]{}, fail(kerr.DelegationTokenExpired, "")
	}
	at := min(r.MaxTimestamp, later(now, req.ExpiryTimePeriodMs))
	return Result[int64]{Records: []metadata.Versioned{expiring(r, at)}, Response: at, Atomic: true}, nil
}

func removeToken(id string) metadata.Versioned {
	r := metadata.NewRemoveDelegationTokenRecord()
	r.TokenId = id
	return metadata.Versioned{Record: r}
}

// sweep removes the tokens whose time is over.
func (t *tokens) sweep() []metadata.Versioned {
	var records []metadata.Versioned
	now := t.millis()
	for id, r := range t.byID.All() {
		if isOver(r, now) && len(records) < maxRecordsPerBatch {
			t.log.Info("Delegation token expired.", "tokenId", id, "owner", r.Owner)
			records = append(records, removeToken(id))
		}
	}
	return records
}

// ownerOf is for whom a token is asked: for the requester if nobody is named.
func ownerOf(req *protocol.CreateDelegationTokenRequest, requester string) string {
	if req.OwnerPrincipalName == nil || *req.OwnerPrincipalName == "" {
		return requester
	}
	kind := ""
	if req.OwnerPrincipalType != nil {
		kind = *req.OwnerPrincipalType
	}
	return kind + ":" + *req.OwnerPrincipalName
}

// splitPrincipal takes type:name apart.
func splitPrincipal(p string) (kind, name string) {
	kind, name, _ = strings.Cut(p, ":")
	return kind, name
}

// noTime is what stands for a time in an answer that has none.
const noTime int64 = -1
