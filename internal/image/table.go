package image

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/tidwall/btree"
)

// table is a sorted map that images share until it changes. A nil table is empty.
type table[K cmp.Ordered, V any] struct{ m btree.Map[K, V] }

func (t *table[K, V]) get(key K) (v V, ok bool) {
	if t == nil {
		return v, false
	}
	return t.m.Get(key)
}

func (t *table[K, V]) len() int {
	if t == nil {
		return 0
	}
	return t.m.Len()
}

// all iterates in the order of the keys.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t != nil {
			t.m.Scan(yield)
		}
	}
}

// from iterates in the order of the keys, from the first that is not below key.
func (t *table[K, V]) from(key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t != nil {
			t.m.Ascend(key, yield)
		}
	}
}

// tableDelta is a table in the making. It copies base at the first change, and that costs nothing: the trees share their nodes
// until one of them is written to.
type tableDelta[K cmp.Ordered, V any] struct {
	base    *table[K, V]
	work    *table[K, V] // nil as long as nothing changed
	changed map[K]struct{}
}

func (d *tableDelta[K, V]) get(key K) (V, bool) {
	if d.work != nil {
		return d.work.get(key)
	}
	return d.base.get(key)
}

// current is the table with all changes. It must not be changed any more once somebody else has it.
func (d *tableDelta[K, V]) current() *table[K, V] {
	if d.work != nil {
		return d.work
	}
	return d.base
}

func (d *tableDelta[K, V]) mutable(key K) *table[K, V] {
	if d.work == nil {
		d.work = &table[K, V]{}
		if d.base != nil {
			d.work.m = *d.base.m.Copy()
		}
		d.changed = map[K]struct{}{}
	}
	d.changed[key] = struct{}{}
	return d.work
}

func (d *tableDelta[K, V]) put(key K, v V) { d.mutable(key).m.Set(key, v) }

func (d *tableDelta[K, V]) delete(key K) bool {
	if _, ok := d.get(key); !ok {
		return false
	}
	d.mutable(key).m.Delete(key)
	return true
}

// keys are the keys that were put or deleted, sorted.
func (d *tableDelta[K, V]) keys() []K { return slices.Sorted(maps.Keys(d.changed)) }

// replace makes the table what next is. Keys whose values are equal do not count as changed and keep their old value.
func (d *tableDelta[K, V]) replace(next *table[K, V], equal func(a, b V) bool) {
	for key := range d.base.all() {
		if _, ok := next.get(key); !ok {
			d.delete(key)
		}
	}
	for key, v := range next.all() {
		if old, ok := d.base.get(key); !ok || !equal(old, v) {
			d.put(key, v)
		}
	}
}
