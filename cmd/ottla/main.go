// Command ottla is a Kafka 4.4 cluster as one static binary: server and tools.
package main

func main() {}
