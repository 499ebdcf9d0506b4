package image

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"slices"

	"github.com/ottla-io/ottla/internal/metadata"
)

// QuotaEntity is one part of what a quota is for: a user, a client id, an ip. A nil Name is the default entity.
type QuotaEntity struct {
	Type string
	Name *string
}

// ClientQuota are the quotas of one entity.
type ClientQuota struct {
	Entity []QuotaEntity // sorted by type
	Values map[string]float64
}

// ClientQuotas are the client quotas, by entity.
type ClientQuotas struct{ byEntity *table[string, *ClientQuota] }

// All iterates over the quotas in a fixed order. They are shared: they must not be changed.
func (q *ClientQuotas) All() iter.Seq[*ClientQuota] {
	if q == nil {
		return values[string, *ClientQuota](nil)
	}
	return values(q.byEntity)
}

// Get returns the quotas of an entity, whose parts may stand in any order; nil if there are none.
func (q *ClientQuotas) Get(entity ...QuotaEntity) map[string]float64 {
	if q == nil {
		return nil
	}
	if v, _ := q.byEntity.get(quotaKey(sortedEntity(entity))); v != nil {
		return v.Values
	}
	return nil
}

func sortedEntity(entity []QuotaEntity) []QuotaEntity {
	return slices.SortedFunc(slices.Values(entity), func(a, b QuotaEntity) int { return cmp.Compare(a.Type, b.Type) })
}

// quotaKey is a text that is the same for equal entities only.
func quotaKey(entity []QuotaEntity) string {
	var b []byte
	for _, e := range entity {
		b = binary.AppendUvarint(b, uint64(len(e.Type)))
		b = append(b, e.Type...)
		if e.Name == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		b = binary.AppendUvarint(b, uint64(len(*e.Name)))
		b = append(b, *e.Name...)
	}
	return string(b)
}

type quotasDelta struct {
	tableDelta[string, *ClientQuota]
}

func newQuotasDelta(base *ClientQuotas) *quotasDelta {
	d := &quotasDelta{}
	if base != nil {
		d.base = base.byEntity
	}
	return d
}

func (d *quotasDelta) apply() *ClientQuotas { return &ClientQuotas{d.current()} }

func (d *quotasDelta) replay(r *metadata.ClientQuotaRecord) {
	entity := make([]QuotaEntity, 0, len(r.Entity))
	for _, e := range r.Entity {
		entity = append(entity, QuotaEntity{e.EntityType, e.EntityName})
	}
	entity = sortedEntity(entity)
	key := quotaKey(entity)
	next := &ClientQuota{Entity: entity, Values: map[string]float64{}}
	if old, ok := d.get(key); ok {
		next.Values = maps.Clone(old.Values)
	}
	if r.Remove {
		delete(next.Values, r.Key)
	} else {
		next.Values[r.Key] = r.Value
	}
	if len(next.Values) > 0 {
		d.put(key, next)
	} else {
		d.delete(key)
	}
}

func (d *quotasDelta) replaceBy(next *ClientQuotas) {
	if next == nil {
		next = &ClientQuotas{}
	}
	d.replace(next.byEntity, func(a, b *ClientQuota) bool { return maps.Equal(a.Values, b.Values) })
}

// ProducerIDs says which producer ids are not given out yet.
type ProducerIDs struct{ Next int64 }
