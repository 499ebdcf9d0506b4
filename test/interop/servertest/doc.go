// Package servertest runs servers and tools for the interop tests: Ottla as a binary of its own, Apache Kafka 4.4.0 in a JVM, each on
// free ports of the loopback interface and in temporary folders.
//
// KAFKA_LIBS names the folder with Kafka's jars (test/interop/libs.sh prints it). Whatever is missing fails the test: nothing here is
// skipped.
package servertest
