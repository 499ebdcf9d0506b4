// Package compaction has the same batches cleaned by Apache Kafka 4.4.0's cleaner and by Ottla's, and compares what is left: batches,
// offsets, keys, values, delete horizons, segments. Each goes on with a folder that the other has cleaned.
package compaction
