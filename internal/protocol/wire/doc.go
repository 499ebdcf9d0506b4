// Package wire owns the primitives of Kafka's encoding that generated code is made of: big-endian numbers,
// lengths in their old and compact forms, tagged fields.
//
// Called by the generated code of packages protocol and metadata, and by whoever frames it (headers, records).
// Never knows a message. Never allocates more than a small multiple of the input it decodes; never panics on it.
//
// Limits are Kafka 4.4's: 1,000,000 elements in an array, 10,000 tagged fields in a struct, 32,767 bytes in a
// string.
//
// Sources: KIP-482 (compact forms and tagged fields).
package wire
