// Package protocol owns Kafka's messages: requests and responses, their headers, the records of the coordinators'
// topics, control records and some file formats. Their code is generated from schemas/.
//
// Called by everybody who speaks the protocol or reads what it wrote. Never decides what a message means.
//
// # Use
//
// A zero struct is not the default of its schema: NewFetchRequest is, with ReplicaId -1 and so on.
// Encode appends and fails where Kafka fails: a value in a field that the version lacks (unless the schema says
// that it may be dropped), a null that may not be, a version that does not exist. Decode sets defaults first; it
// leaves what follows the message to its caller. Fields of bytes and records alias the decoder's input.
// A nil slice of a field that may be null is null; elsewhere nil is empty. An empty nullable string may point to
// a shared variable: pointers to strings are never written through.
//
// Responses with records (Fetch, FetchSnapshot, ShareFetch) can be encoded with EncodeSplit, which leaves the
// records out and says where they belong, so that they can be sent from a file.
//
// Unknown tagged fields are kept in UnknownTags by everything that is stored, skipped in requests and responses.
//
// Sources: KIP-482 (flexible versions); the schemas of Kafka 4.4.0.
package protocol

//go:generate go run ./gen ../..
