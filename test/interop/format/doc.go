// Package format compares what the storage tool does to folders, and what a node says to them when it starts, with Apache Kafka.
//
// Run with -tags interop; KAFKA_LIBS names the folder of Kafka's jars.
package format
