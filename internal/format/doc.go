// Package format owns what is in the log directories before a node runs for the first time: meta.properties in each, and the
// bootstrap snapshot of the metadata log; and what a node checks of that each time it starts.
//
// Called by node (Verify), by the server command for a folder of its own (Standalone) and by the storage tool.
//
// Never touches a directory that is formatted already unless it was told that this is fine, and never the records in it.
// Complains in Kafka's words: people's scripts wait for them.
//
// Where to start: format.go is the order of things, ensemble.go what all directories say together, features.go and scram.go make the
// records of the snapshot, voters.go those who vote first.
//
// Sources: KIP-631 (formatting), KIP-853 (voters in the bootstrap snapshot), KIP-858 (directory ids), KIP-900 (SCRAM
// credentials), KIP-1022 (features).
package format
