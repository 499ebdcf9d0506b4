package broker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// How a part of an entity is matched.
const (
	matchExact     int8 = 0
	matchDefault   int8 = 1
	matchSpecified int8 = 2 // whatever the name, the default included
)

// quotaFilter says which entities are meant: by type, a name (nil: the default), or only that the type is there.
type quotaFilter struct {
	exact  map[string]*string
	types  map[string]bool
	strict bool // nothing else may be in the entity
}

// DescribeClientQuotas is key 48, versions 0–1 (KIP-546). Path: the filter is checked → one image → entities that match.
// Errors: 42 types twice, matches without or with a name, ip beside others; 35 an unknown type.
func (b *Broker) DescribeClientQuotas(_ *rpc.Context, req *protocol.DescribeClientQuotasRequest, respond func(*protocol.DescribeClientQuotasResponse)) {
	resp := protocol.NewDescribeClientQuotasResponse()
	filter, code, message := newQuotaFilter(req)
	if code != nil {
		resp.ErrorCode, resp.ErrorMessage, resp.Entries = code.Code, &message, nil
		respond(resp)
		return
	}
	resp.Entries = []protocol.DescribeClientQuotasResponseEntryData{}
	for q := range b.Image().ClientQuotas.All() {
		if filter.matches(q.Entity) {
			resp.Entries = append(resp.Entries, describedQuota(q))
		}
	}
	respond(resp)
}

func newQuotaFilter(req *protocol.DescribeClientQuotasRequest) (f quotaFilter, code *kerr.Error, message string) {
	f = quotaFilter{map[string]*string{}, map[string]bool{}, req.Strict}
	invalid := func(format string, args ...any) (quotaFilter, *kerr.Error, string) {
		return f, kerr.InvalidRequest, fmt.Sprintf(format, args...)
	}
	for _, c := range req.Components {
		switch {
		case c.EntityType == "":
			return invalid("Invalid empty entity type.")
		case f.names(c.EntityType):
			return invalid("Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case c.EntityType != "user" && c.EntityType != "client-id" && c.EntityType != "ip":
			return f, kerr.UnsupportedVersion, "Unsupported entity type " + c.EntityType
		}
		switch c.MatchType {
		case matchExact:
			if c.Match == nil {
				return invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
			}
			f.exact[c.EntityType] = c.Match
		case matchDefault:
			if c.Match != nil {
				return invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
			}
			f.exact[c.EntityType] = nil
		case matchSpecified:
			if c.Match != nil {
				return invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
			}
			f.types[c.EntityType] = true
		default:
			return invalid("Unknown match type %d", c.MatchType)
		}
	}
	if f.names("ip") && (f.names("user") || f.names("client-id")) {
		return invalid("Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.")
	}
	return f, nil, ""
}

func (f *quotaFilter) names(entityType string) bool {
	_, exact := f.exact[entityType]
	return exact || f.types[entityType]
}

func (f *quotaFilter) matches(entity []image.QuotaEntity) bool {
	if len(f.exact) == 0 && len(f.types) == 0 {
		return !f.strict
	}
	found := 0
	for _, p := range entity {
		name, exact := f.exact[p.Type]
		switch {
		case exact && sameName(name, p.Name), f.types[p.Type]:
			found++
		case exact || f.strict:
			return false
		}
	}
	return found == len(f.exact)+len(f.types)
}

func sameName(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func describedQuota(q *image.ClientQuota) protocol.DescribeClientQuotasResponseEntryData {
	var e protocol.DescribeClientQuotasResponseEntryData
	for _, p := range q.Entity {
		e.Entity = append(e.Entity, protocol.DescribeClientQuotasResponseEntityData{EntityType: p.Type, EntityName: p.Name})
	}
	for _, k := range slices.Sorted(maps.Keys(q.Values)) {
		e.Values = append(e.Values, protocol.DescribeClientQuotasResponseValueData{Key: k, Value: q.Values[k]})
	}
	return e
}
