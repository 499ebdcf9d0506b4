// Package raft hands the folder of a metadata log from a real Kafka 4.4.0 to our quorum and back, and has Kafka's own tool
// read what ours wrote.
//
// Run with go test -tags interop ./test/interop/raft. KAFKA_LIBS names the folder of Kafka's jars; java is taken from the
// path. Without them the test fails: a comparison that did not happen proves nothing.
package raft
