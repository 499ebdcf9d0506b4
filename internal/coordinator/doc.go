// Package coordinator is the runtime under a coordinator whose state lives in a partition of an internal topic:
// one Shard per partition that this node leads, each a core on its own queue. A shard is loaded by replaying the
// partition's log in bounded chunks. Afterwards an event computes records and an answer from state, the records
// are appended as one batch, replayed, and the answer waits until the high watermark has passed them.
//
// Called by coordinator/group; by the image publisher (Load on election, Unload on resignation), from any
// goroutine. All methods of Shard and of the State above it run on the shard's queue.
//
// Never changes state for records that the log refused: append comes first, replay second, so there is nothing
// to roll back. What was appended and may still be lost (the node was deposed) is forgotten together with the
// whole shard, and everybody who waits for it is told to look for the new coordinator.
//
// Sources: KIP-848 (section on the new group coordinator), KIP-447 (fetching waits for pending offsets).
package coordinator
