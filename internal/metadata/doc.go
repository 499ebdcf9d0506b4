// Package metadata owns the 27 records of the metadata log, their framing, and the features that say which of
// their versions may be written: metadata.version and the others.
//
// Called by controller, image and the tools that read the log. Never knows what a record does to the state.
//
// The records are generated from schemas/metadata_records.txt by internal/protocol/gen.
//
// Sources: KIP-631 (records), KIP-584 and KIP-1022 (features).
package metadata
