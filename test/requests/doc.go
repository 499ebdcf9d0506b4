// Package requests asks a node over its sockets what re-implementations tend to get wrong: one story per kind of trap, seen as a client
// sees it, with the answers that Apache Kafka 4.4.0 gives. The handlers behind have tests of their own; here the whole process answers,
// from the bytes on the connection to the folder.
//
// With -kafka (and KAFKA_LIBS, see test/interop/libs.sh) the same stories are told to Apache Kafka, which must pass them too, but for
// those few that say where we differ.
package requests
