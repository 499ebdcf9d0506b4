// Package compaction owns the decisions of log compaction: how dirty a log is and up to where it may be cleaned, which segments
// become one, which keys have a later record, which transactions are gone, and what is left of a batch.
//
// Called by the cleaner of package storage, which reads and writes the files; one goroutine at a time for each value.
//
// Never touches a file, a clock or a log: batches come in as bytes and go out as bytes, the time is an argument.
//
// What is decided here has to be what Apache Kafka decides, since replicas of one partition are cleaned by different brokers and a
// consumer may read one after the other.
//
// Sources: KIP-58 (min.compaction.lag.ms), KIP-98 (transactions), KIP-354 (max.compaction.lag.ms), KIP-534 (delete horizon).
package compaction
