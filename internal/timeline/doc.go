// Package timeline owns state that can be read as it was at an earlier offset, and rolled back to it: a
// Registry of snapshots, and the Map, Set and Value that belong to it.
//
// Called by controller, from one goroutine. A snapshot costs nothing when it is taken; afterwards a structure
// keeps its old version at its first change, as a copy-on-write tree that shares all but the changed paths.
//
// Never asks a clock, never locks. Iteration is sorted, so two runs of the same events see the same order.
//
// Sources: KIP-631 (the controller's state is ahead of what is committed, and must be able to go back).
package timeline
