// Package codec compares the codec with the classes of a real Kafka 4.4.0: every message in every version, both
// directions, byte for byte; its schemas, error codes, APIs, features and metadata versions.
//
// Run with go test -tags interop ./test/interop/codec. KAFKA_LIBS names the folder of Kafka's jars; javac and java
// are taken from the path. Without them the tests fail: a comparison that did not happen proves nothing.
package codec
