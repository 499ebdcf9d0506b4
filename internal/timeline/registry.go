package timeline

import (
	"fmt"
	"math"
	"slices"
)

// Latest stands for the state as it is now, where an offset is asked for.
const Latest int64 = math.MaxInt64

// Registry is the list of snapshots of all structures made with it. Offsets only grow from one to the next.
type Registry struct {
	snapshots []snapshot // by offset, lowest first
}

// snapshot is the state as of an offset. Its versions are kept by the structures that changed afterwards.
type snapshot struct {
	offset  int64
	touched []versioned
}

// versioned is a structure that kept a version for a snapshot.
type versioned interface {
	revert(offset int64)  // makes the version the current state, and forgets it
	release(offset int64) // forgets the version
	restore(offset int64) // makes what held at the snapshot the current state, as a change like any other
}

// NewRegistry returns a registry without snapshots.
func NewRegistry() *Registry { return new(Registry) }

// Snapshot keeps the present state under an offset. Does nothing if that is the last snapshot's; an earlier
// offset is a bug of the caller and panics.
func (r *Registry) Snapshot(offset int64) {
	if n := len(r.snapshots); n > 0 {
		switch last := r.snapshots[n-1].offset; {
		case last == offset:
			return
		case last > offset:
			panic(fmt.Sprintf("timeline: snapshot %d after snapshot %d", offset, last))
		}
	}
	r.snapshots = append(r.snapshots, snapshot{offset: offset})
}

// Has reports whether there is a snapshot of an offset.
func (r *Registry) Has(offset int64) bool {
	_, ok := r.find(offset)
	return ok
}

// Offsets are the offsets of all snapshots, lowest first.
func (r *Registry) Offsets() []int64 {
	offsets := make([]int64, len(r.snapshots))
	for i := range r.snapshots {
		offsets[i] = r.snapshots[i].offset
	}
	return offsets
}

// DeleteUpTo drops the snapshots below an offset, the one of the offset itself stays.
func (r *Registry) DeleteUpTo(offset int64) {
	n := 0
	for ; n < len(r.snapshots) && r.snapshots[n].offset < offset; n++ {
		s := &r.snapshots[n]
		for _, v := range s.touched {
			v.release(s.offset)
		}
	}
	r.snapshots = slices.Delete(r.snapshots, 0, n)
}

// RevertTo makes the state what it was at a snapshot and drops the later ones. The snapshot stays. An offset
// without snapshot is a bug of the caller and panics.
func (r *Registry) RevertTo(offset int64) {
	at, ok := r.find(offset)
	if !ok {
		panic(fmt.Sprintf("timeline: revert to %d, snapshots are %v", offset, r.Offsets()))
	}
	for i := len(r.snapshots) - 1; i >= at; i-- {
		s := &r.snapshots[i]
		for _, v := range s.touched {
			v.revert(s.offset)
		}
		s.touched = nil
	}
	clear(r.snapshots[at+1:])
	r.snapshots = r.snapshots[:at+1]
}

// Restore makes the state what it was at a snapshot, as a new change: unlike RevertTo it can itself be reverted, to
// a later snapshot. An offset without snapshot panics.
func (r *Registry) Restore(offset int64) {
	at, ok := r.find(offset)
	if !ok {
		panic(fmt.Sprintf("timeline: restore %d, snapshots are %v", offset, r.Offsets()))
	}
	// What is touched by restoring is touched already, in the last snapshot or before: collect first.
	var touched []versioned
	for i := at; i < len(r.snapshots); i++ {
		touched = append(touched, r.snapshots[i].touched...)
	}
	for _, v := range touched {
		v.restore(offset)
	}
}

func (r *Registry) find(offset int64) (int, bool) {
	return slices.BinarySearchFunc(r.snapshots, offset, func(s snapshot, offset int64) int {
		switch {
		case s.offset < offset:
			return -1
		case s.offset > offset:
			return 1
		}
		return 0
	})
}

// mustHave panics unless offset is Latest or has a snapshot.
func (r *Registry) mustHave(offset int64) {
	if offset != Latest && !r.Has(offset) {
		panic(fmt.Sprintf("timeline: read as of %d, snapshots are %v", offset, r.Offsets()))
	}
}

// history are the versions that one structure kept, lowest offset first. Each is the state at its snapshot; a
// snapshot without one has the state of the next that has, or the current state.
type history[T any] struct {
	versions []version[T]
}

type version[T any] struct {
	offset int64
	state  T
}

// keep has the structure owner remember state for the last snapshot, before its first change since.
func (h *history[T]) keep(r *Registry, owner versioned, state func() T) {
	n := len(r.snapshots)
	if n == 0 {
		return
	}
	s := &r.snapshots[n-1]
	if k := len(h.versions); k > 0 && h.versions[k-1].offset == s.offset {
		return
	}
	h.versions = append(h.versions, version[T]{s.offset, state()})
	s.touched = append(s.touched, owner)
}

// at returns the kept state that held at offset. ok is false when that is the current one.
func (h *history[T]) at(offset int64) (state T, ok bool) {
	if len(h.versions) == 0 || h.versions[len(h.versions)-1].offset < offset {
		return state, false
	}
	for i := range h.versions {
		if h.versions[i].offset >= offset {
			return h.versions[i].state, true
		}
	}
	return state, false
}

// pop takes the newest version away, which must be that of offset.
func (h *history[T]) pop(offset int64) T {
	n := len(h.versions) - 1
	if n < 0 || h.versions[n].offset != offset {
		panic(fmt.Sprintf("timeline: no version of snapshot %d to go back to", offset))
	}
	state := h.versions[n].state
	h.versions[n] = version[T]{}
	h.versions = h.versions[:n]
	return state
}

// drop takes the oldest version away, which must be that of offset.
func (h *history[T]) drop(offset int64) {
	if len(h.versions) == 0 || h.versions[0].offset != offset {
		panic(fmt.Sprintf("timeline: no version of snapshot %d to drop", offset))
	}
	if len(h.versions) == 1 {
		h.versions = nil
		return
	}
	h.versions = slices.Delete(h.versions, 0, 1)
}
