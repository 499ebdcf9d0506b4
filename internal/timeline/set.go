package timeline

import (
	"cmp"
	"iter"
)

// Set is a sorted set with snapshots.
type Set[K any] struct {
	m *Map[K, struct{}]
}

// NewSet returns an empty set whose members are ordered by compare.
func NewSet[K any](r *Registry, compare func(a, b K) int) *Set[K] {
	return &Set[K]{NewMap[K, struct{}](r, compare)}
}

// NewOrderedSet returns an empty set of members with an order of their own.
func NewOrderedSet[K cmp.Ordered](r *Registry) *Set[K] { return NewSet(r, cmp.Compare[K]) }

// Has reports whether key is a member.
func (s *Set[K]) Has(key K) bool { return s.m.Has(key) }

// HasAt reports whether key was a member at a snapshot.
func (s *Set[K]) HasAt(key K, offset int64) bool {
	_, ok := s.m.GetAt(key, offset)
	return ok
}

// Add makes key a member; false if it was one.
func (s *Set[K]) Add(key K) bool {
	if s.m.Has(key) {
		return false
	}
	s.m.Put(key, struct{}{})
	return true
}

// Delete removes a member; false if it was none.
func (s *Set[K]) Delete(key K) bool {
	_, ok := s.m.Delete(key)
	return ok
}

// Len is the number of members.
func (s *Set[K]) Len() int { return s.m.Len() }

// All iterates in order. The set must not change meanwhile.
func (s *Set[K]) All() iter.Seq[K] { return s.AllAt(Latest) }

// AllAt iterates over the members at a snapshot.
func (s *Set[K]) AllAt(offset int64) iter.Seq[K] {
	all := s.m.AllAt(offset)
	return func(yield func(K) bool) {
		all(func(key K, _ struct{}) bool { return yield(key) })
	}
}

// Value is a single value with snapshots.
type Value[T any] struct {
	registry *Registry
	value    T
	history  history[T]
}

// NewValue returns a value.
func NewValue[T any](r *Registry, value T) *Value[T] { return &Value[T]{registry: r, value: value} }

// Get returns the value.
func (v *Value[T]) Get() T { return v.value }

// GetAt returns the value at a snapshot, or at Latest.
func (v *Value[T]) GetAt(offset int64) T {
	v.registry.mustHave(offset)
	if old, ok := v.history.at(offset); ok {
		return old
	}
	return v.value
}

// Set changes the value.
func (v *Value[T]) Set(value T) {
	v.history.keep(v.registry, v, func() T { return v.value })
	v.value = value
}

func (v *Value[T]) revert(offset int64)  { v.value = v.history.pop(offset) }
func (v *Value[T]) release(offset int64) { v.history.drop(offset) }

func (v *Value[T]) restore(offset int64) {
	if old, ok := v.history.at(offset); ok {
		v.Set(old)
	}
}

// Counter is a number with snapshots.
type Counter struct{ Value[int64] }

// NewCounter returns a counter at zero.
func NewCounter(r *Registry) *Counter { return &Counter{Value[int64]{registry: r}} }

// Add changes the number and returns it.
func (c *Counter) Add(n int64) int64 {
	c.Set(c.Get() + n)
	return c.Get()
}
