// Package group is the group coordinator: the classic group protocol (join, sync, heartbeat, leave), committed
// offsets, and the administration of groups, on the partitions of __consumer_offsets that this node leads.
//
// Called by server (one handler per API), by the image publisher (OnElection, OnResignation, OnTopicsDeleted) and
// by broker's FindCoordinator (PartitionFor); from any goroutine. A handler checks what needs no state, finds the
// shard, and goes on as an event on the shard's queue: handle_<api>.go → shard state → records → answer.
//
// What is in memory: shard.go (all groups and offsets of one partition), classic.go (one classic group), offsets.go,
// modern.go (consumer, share and streams groups that a Kafka node wrote: they are listed, deleted and taken over by
// classic members when empty, and their offsets served; their own heartbeats are not offered).
//
// Never answers a commit before the high watermark has passed its record. Never lets a generation's assignment be
// seen before it is committed. Never reads a clock or a random source other than env's.
//
// Sources: KIP-62 (rebalance timeout), KIP-134 (initial rebalance delay), KIP-211 (expiry of offsets), KIP-345 (static
// members), KIP-389 (group size), KIP-394 (known member id), KIP-447 (stable offsets), KIP-496 (OffsetDelete),
// KIP-518 and KIP-848 (ListGroups filters), KIP-559 (protocol in sync), KIP-800 (reasons), KIP-814 (skip assignment),
// KIP-1043 (DescribeGroups v6).
package group
