// Package format owns what is in the log directories before a node runs for the first time: meta.properties in each, and the bootstrap
// snapshot of the metadata log; and what a node checks of that each time it starts.
//
// Called by node (Verify), by the server command for a folder of its own (Standalone) and by the storage tool.
//
// Never touches a directory that is formatted already unless it was told that this is fine, and never the records in it.
//
// Sources: KIP-631 (formatting), KIP-853 (voters in the bootstrap snapshot), KIP-858 (directory ids).
package format
