// Package replica owns the partitions of one broker: log ends, the in-sync replicas as the leader
// sees them, the high watermark, the requests that wait for it (the purgatory), and the fetch
// sessions.
//
// Called by broker (produce, fetch and the other data requests), by the coordinators (their own
// appends, and word of the high watermark) and by the image publisher (become leader, become
// follower, delete); from any goroutine. Locks, in the order in which they may be taken: Manager,
// waiter, Partition, follower state, log; lists of waiters and the heap of deadlines come last. No
// callback runs under any of them.
//
// Never decides the ISR: it acts on what the image says. Never waits: a request that cannot be
// answered yet is a continuation in the purgatory. Never reads a clock other than env's.
//
// Sources: KIP-101, KIP-279, KIP-320 (leader epochs), KIP-107 (delete records), KIP-227 (fetch
// sessions), KIP-516 (topic ids), KIP-903 (replica epochs), KIP-951 (leader hints), KIP-966 (the
// high watermark stands still below min.insync.replicas).
package replica
