package timeline

import (
	"cmp"
	"iter"

	"github.com/tidwall/btree"
)

// Map is a sorted map with snapshots.
type Map[K, V any] struct {
	registry *Registry
	compare  func(a, b K) int
	tree     *btree.BTreeG[entry[K, V]]
	history  history[*btree.BTreeG[entry[K, V]]]
}

type entry[K, V any] struct {
	key   K
	value V
}

// treeDegree keeps nodes small: a copied path is what a change after a snapshot costs.
const treeDegree = 16

// NewMap returns an empty map whose keys are ordered by compare.
func NewMap[K, V any](r *Registry, compare func(a, b K) int) *Map[K, V] {
	less := func(a, b entry[K, V]) bool { return compare(a.key, b.key) < 0 }
	return &Map[K, V]{
		registry: r,
		compare:  compare,
		tree:     btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: treeDegree}),
	}
}

// NewOrderedMap returns an empty map of keys with an order of their own.
func NewOrderedMap[K cmp.Ordered, V any](r *Registry) *Map[K, V] {
	return NewMap[K, V](r, cmp.Compare[K])
}

// Get returns the value of a key.
func (m *Map[K, V]) Get(key K) (V, bool) {
	e, ok := m.tree.Get(entry[K, V]{key: key})
	return e.value, ok
}

// GetAt returns the value that a key had at a snapshot, or has at Latest.
func (m *Map[K, V]) GetAt(key K, offset int64) (V, bool) {
	e, ok := m.treeAt(offset).Get(entry[K, V]{key: key})
	return e.value, ok
}

// Has reports whether there is a value for a key.
func (m *Map[K, V]) Has(key K) bool {
	_, ok := m.tree.Get(entry[K, V]{key: key})
	return ok
}

// Put sets the value of a key.
func (m *Map[K, V]) Put(key K, value V) {
	m.history.keep(m.registry, m, m.tree.Copy)
	m.tree.Set(entry[K, V]{key, value})
}

// Delete removes a key, and returns the value it had.
func (m *Map[K, V]) Delete(key K) (V, bool) {
	e, ok := m.tree.Get(entry[K, V]{key: key})
	if ok {
		m.history.keep(m.registry, m, m.tree.Copy)
		m.tree.Delete(e)
	}
	return e.value, ok
}

// Len is the number of keys.
func (m *Map[K, V]) Len() int { return m.tree.Len() }

// LenAt is the number of keys that there were at a snapshot.
func (m *Map[K, V]) LenAt(offset int64) int { return m.treeAt(offset).Len() }

// All iterates in the order of the keys. The map must not change meanwhile.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.AllAt(Latest) }

// AllAt iterates over the state of a snapshot.
func (m *Map[K, V]) AllAt(offset int64) iter.Seq2[K, V] {
	tree := m.treeAt(offset)
	return func(yield func(K, V) bool) {
		tree.Scan(func(e entry[K, V]) bool { return yield(e.key, e.value) })
	}
}

// From iterates from the first key that is not below a key.
func (m *Map[K, V]) From(key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m.tree.Ascend(entry[K, V]{key: key}, func(e entry[K, V]) bool { return yield(e.key, e.value) })
	}
}

func (m *Map[K, V]) treeAt(offset int64) *btree.BTreeG[entry[K, V]] {
	m.registry.mustHave(offset)
	if tree, ok := m.history.at(offset); ok {
		return tree
	}
	return m.tree
}

func (m *Map[K, V]) revert(offset int64)  { m.tree = m.history.pop(offset) }
func (m *Map[K, V]) release(offset int64) { m.history.drop(offset) }

func (m *Map[K, V]) restore(offset int64) {
	tree, ok := m.history.at(offset)
	if !ok {
		return // nothing changed since
	}
	m.history.keep(m.registry, m, m.tree.Copy)
	m.tree = tree.Copy()
}
