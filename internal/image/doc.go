// Package image owns a node's view of the cluster: an immutable Image of everything the metadata log says, the Delta
// that leads from one to the next, the Loader that follows the log, and the snapshots that are written of it.
//
// Called by raft (commits, snapshots and leaders go to the Loader) and by broker and controller (publishers, readers of the
// current image). An Image may be read from any goroutine; a Delta belongs to the Loader's queue until it is published.
//
// Never decides anything: what the log says is replayed as it stands. Never publishes a state that lies before the high
// watermark it found at its start, or that is in the middle of a metadata transaction.
//
// A new image shares with the old one all that did not change: one new topic among 100,000 costs what one costs.
//
// Sources: KIP-631 (records, broker lifecycle), KIP-630 (snapshots), KIP-868 (metadata transactions), KIP-966 (eligible leader replicas).
package image
