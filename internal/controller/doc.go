// Package controller owns the cluster's metadata as its active controller sees it: which brokers are registered,
// fenced or shutting down, which topics and partitions there are, who leads them and who is in sync, all dynamic
// settings, features, producer id blocks, quotas, ACLs and credentials.
//
// Called by server (one handler per request, from any goroutine) and by raft, as its Listener. Everything runs on one
// env.Queue. A write event computes records and a response from the state and changes nothing; the records get
// offsets, are replayed into the state, are handed to raft, and the response waits until they are stable. So the state
// is ahead of what is committed, and goes back to the last stable offset when leadership is lost (timeline).
//
// Never reads the log's files, never talks to brokers, never waits. Never answers from state that is not stable.
//
// Where to start: event.go is the life of a write, replay.go the table of the records, handle_*.go the requests by
// area, and next to each the manager that owns the state: cluster.go, topics.go, configs.go, features.go.
//
// Sources: KIP-500, KIP-631 (controller), KIP-841 (fencing and ISR), KIP-858 (directories), KIP-868 (metadata
// transactions), KIP-903 (stale replicas), KIP-966 (eligible leader replicas), KIP-584 and KIP-1022 (features).
package controller
