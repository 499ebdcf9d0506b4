// Package clients lets the Go clients of Apache Kafka (franz-go, sarama, kafka-go) write to Ottla and read back, with each codec. It is a
// module of its own, so that the clients are no dependencies of Ottla.
package clients
