package controller

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Types of the parts of a quota's entity.
const (
	quotaUser   = "user"
	quotaClient = "client-id"
	quotaIP     = "ip"
)

// quotaMax are the keys of quotas with their largest values; a fraction is allowed where that is a float's.
var (
	quotaMaxOfIP     = map[string]float64{"connection_creation_rate": math.MaxInt32}
	quotaMaxOfClient = map[string]float64{"producer_byte_rate": math.MaxInt64, "consumer_byte_rate": math.MaxInt64, "request_percentage": math.MaxFloat64, "controller_mutation_rate": math.MaxFloat64}
)

type quotaResult = protocol.AlterClientQuotasResponseEntryData

// quotaEntity is what a quota is for: parts with different types, sorted by type. A nil name is the default.
type quotaEntity []metadata.ClientQuotaRecordEntityData

// entityOf takes the parts of a request. Of several parts of one type the last counts.
func entityOf(parts []protocol.AlterClientQuotasRequestEntityData) quotaEntity {
	var e quotaEntity
	for _, p := range parts {
		e = slices.DeleteFunc(e, func(d metadata.ClientQuotaRecordEntityData) bool { return d.EntityType == p.EntityType })
		e = append(e, metadata.ClientQuotaRecordEntityData{EntityType: p.EntityType, EntityName: p.EntityName})
	}
	return e.sorted()
}

func (e quotaEntity) sorted() quotaEntity {
	slices.SortFunc(e, func(a, b metadata.ClientQuotaRecordEntityData) int {
		return strings.Compare(a.EntityType, b.EntityType)
	})
	return e
}

// key is a text that is the same for equal entities only.
func (e quotaEntity) key() string {
	parts := make([]string, len(e))
	for i, p := range e {
		name := "<default>"
		if p.EntityName != nil {
			name = fmt.Sprintf("%q", *p.EntityName)
		}
		parts[i] = fmt.Sprintf("%q=%s", p.EntityType, name)
	}
	return strings.Join(parts, ",")
}

// String is as Kafka writes an entity into its messages.
func (e quotaEntity) String() string {
	parts := make([]string, len(e))
	for i, p := range e {
		name := "null"
		if p.EntityName != nil {
			name = *p.EntityName
		}
		parts[i] = p.EntityType + "=" + name
	}
	return "ClientQuotaEntity(entries={" + strings.Join(parts, ", ") + "})"
}

func (e quotaEntity) result(err *apiError) quotaResult {
	var r quotaResult
	if err != nil {
		r.ErrorCode, r.ErrorMessage = codeAndMessage(err)
	}
	for _, p := range e {
		r.Entity = append(r.Entity, protocol.AlterClientQuotasResponseEntityData{EntityType: p.EntityType, EntityName: p.EntityName})
	}
	return r
}

// alterQuotas works out the records of an AlterClientQuotas request: each entity for itself. An entity that is there
// twice is an error, but what its first appearance asks for is done, as Kafka does it.
func (s *security) alterQuotas(req *protocol.AlterClientQuotasRequest) (Result[*protocol.AlterClientQuotasResponse], error) {
	resp := protocol.NewAlterClientQuotasResponse()
	var records []metadata.Versioned
	at := map[string]int{} // in the response
	for i := range req.Entries {
		e := entityOf(req.Entries[i].Entity)
		more, err := s.alterQuota(e, req.Entries[i].Ops)
		n, again := at[e.key()]
		switch {
		case again || hasRepeatedKeys(req.Entries[i].Ops):
			err = fail(kerr.InvalidRequest, fmt.Sprintf("Ignoring duplicate entity %s", e))
		case err == nil:
			records = append(records, more...)
		}
		if !again {
			n = len(resp.Entries)
			at[e.key()] = n
			resp.Entries = append(resp.Entries, quotaResult{})
		}
		resp.Entries[n] = e.result(err)
		if len(records) > maxRecordsPerUserOp {
			return Result[*protocol.AlterClientQuotasResponse]{}, errTooManyRecords
		}
	}
	if req.ValidateOnly {
		records = nil
	}
	return Result[*protocol.AlterClientQuotasResponse]{Records: records, Response: resp, Atomic: true}, nil
}

func hasRepeatedKeys(ops []protocol.AlterClientQuotasRequestOpData) bool {
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.Key] {
			return true
		}
		seen[op.Key] = true
	}
	return false
}

// alterQuota works out the records of one entity. What is already so is not written again.
func (s *security) alterQuota(e quotaEntity, ops []protocol.AlterClientQuotasRequestOpData) ([]metadata.Versioned, *apiError) {
	limits, err := checkQuotaEntity(e)
	if err != nil {
		return nil, err
	}
	var records []metadata.Versioned
	for _, op := range ops {
		now, is := s.quotas.Get(quotaKey{e.key(), op.Key})
		if !op.Remove {
			if err := checkQuota(limits, op.Key, op.Value); err != nil {
				return nil, err
			}
		}
		if op.Remove && !is || !op.Remove && is && now == op.Value {
			continue
		}
		r := metadata.NewClientQuotaRecord()
		r.Entity, r.Key, r.Remove = slices.Clone(e), op.Key, op.Remove
		if !op.Remove {
			r.Value = op.Value
		}
		records = append(records, metadata.Versioned{Record: r})
	}
	return records, nil
}

// checkQuotaEntity returns the largest values of the keys that an entity may have.
func checkQuotaEntity(e quotaEntity) (limits map[string]float64, err *apiError) {
	invalid := func(text string) (map[string]float64, *apiError) { return nil, fail(kerr.InvalidRequest, text) }
	has := map[string]bool{}
	for _, p := range e {
		switch {
		case p.EntityType != quotaUser && p.EntityType != quotaClient && p.EntityType != quotaIP:
			return invalid("Unhandled client quota entity type: " + p.EntityType)
		case p.EntityName != nil && *p.EntityName == "":
			return invalid("Empty " + p.EntityType + " not supported")
		}
		has[p.EntityType] = true
	}
	switch {
	case len(e) == 0:
		return invalid("Invalid empty client quota entity")
	case has[quotaIP] && len(e) > 1:
		return invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
	case has[quotaIP] && e[0].EntityName != nil && !rpc.IsAddress(*e[0].EntityName):
		return invalid(*e[0].EntityName + " is not a valid IP or resolvable host.")
	case has[quotaIP]:
		return quotaMaxOfIP, nil
	}
	return quotaMaxOfClient, nil
}

func checkQuota(limits map[string]float64, key string, value float64) *apiError {
	largest, known := limits[key]
	if !known {
		return fail(kerr.InvalidRequest, "Invalid configuration key "+key)
	}
	if value <= 0 {
		return fail(kerr.InvalidRequest, "Quota "+key+" must be greater than 0")
	}
	if largest == math.MaxFloat64 {
		return nil
	}
	if value > largest {
		kind := "a LONG"
		if largest == math.MaxInt32 {
			kind = "an INT"
		}
		return fail(kerr.InvalidRequest, fmt.Sprintf("Proposed value for %s is too large for %s.", key, kind))
	}
	if math.Abs(math.Mod(value, 1)) > 1e-6 {
		return fail(kerr.InvalidRequest, key+" cannot be a fractional value.")
	}
	return nil
}
