// Package record owns the record batch, format version 2: the bytes that travel from a producer's
// socket to the disk and on to a consumer without being taken apart. It reads and changes batch
// headers in place, walks the records inside, checks what a producer sends, builds new batches
// (data, control records, transaction markers), and speaks Kafka's four codecs in the framing that
// Kafka's clients use.
//
// Called by storage, replica, raft, coordinator, broker and the tools; from any goroutine, but one
// Decompressor, Builder or Iter belongs to one goroutine at a time.
//
// Never keeps a caller's bytes beyond the call, never allocates per record, never lets a declared
// size or count decide how much memory is taken: what is held while reading is bounded by a small
// multiple of the batch, whatever it decompresses to. Never reads a clock: the time is an argument.
//
// Sources: KIP-32 (timestamps), KIP-98 (format 2, idempotence, transactions), KIP-110 (zstd),
// KIP-390 and KIP-780 (levels), KIP-467 (errors per record), KIP-534 (delete horizon),
// KIP-595 and KIP-853 (KRaft control records), KIP-937 (timestamp bounds); the LZ4 frame format 1.6.
package record
