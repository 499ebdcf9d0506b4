// Package controller asks a real Kafka 4.4.0 and our controller the same things, one after the other, and compares the
// answers: error codes, texts, counts, settings.
//
// Run with go test -tags interop ./test/interop/controller. KAFKA_LIBS names the folder of Kafka's jars; java is taken
// from the path. Without them the test fails: a comparison that did not happen proves nothing.
package controller
