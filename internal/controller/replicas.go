package controller

import "slices"

// Helpers over lists of broker ids. Lists are never changed in place.

// without returns the ids of a list that are not in drop, in order. The result is never nil.
func without(list []int32, drop ...int32) []int32 {
	out := make([]int32, 0, len(list))
	for _, id := range list {
		if !slices.Contains(drop, id) {
			out = append(out, id)
		}
	}
	return out
}

// containsAll reports whether every id of sub is in list.
func containsAll(list, sub []int32) bool {
	for _, id := range sub {
		if !slices.Contains(list, id) {
			return false
		}
	}
	return true
}

// hasDuplicates reports whether an id is in the list twice.
func hasDuplicates(list []int32) bool {
	for i, id := range list {
		if slices.Contains(list[:i], id) {
			return true
		}
	}
	return false
}

// validISR reports whether an ISR is a set of replicas.
func validISR(replicas, isr []int32) bool { return containsAll(replicas, isr) && !hasDuplicates(isr) }

// notNil returns an empty list for a nil one: in a record nil means unchanged.
func notNil(list []int32) []int32 {
	if list == nil {
		return []int32{}
	}
	return list
}
