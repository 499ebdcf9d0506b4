// Package storage owns logs on disk: segments with their indexes, what a log knows of leader epochs and producers, the
// checkpoints beside them, and what is made of all that after a crash.
//
// Called by replica (the logs of partitions), by raft (the metadata log), by format and node for the files at the top of
// a log directory, and by the tools. A Log has one lock for those who change it; readers take none for longer than
// it takes to copy a few words, and keep what they were given by pinning the segment.
//
// Never decides what is committed: the high watermark is told. Never retries a failed sync, never guesses about damage
// in the middle of a log: it says which file and where. Never keeps a timer per log.
//
// Where to start: log.go is what a log is made of, append.go and read.go the two ways through it, load.go what
// happens when it is opened, manager.go and directory.go the directories, open_files.go who has which file open, check.go a look at
// everything without touching it, cleaner.go compaction. Locks: Manager.changes, then Log.cleanMu, Log.flushMu, Log.mu, Manager.mu;
// those of indexes and files come last.
//
// Sources: KIP-32, KIP-33 (time index), KIP-98 (producer state, transaction index), KIP-101 and KIP-279 (leader epochs),
// KIP-107 (log start offset), KIP-112 and KIP-858 (several directories), KIP-516 (partition.metadata), KIP-966 (clean
// shutdown); compaction: KIP-58, KIP-354, KIP-534.
package storage
