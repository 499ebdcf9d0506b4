// Package schemas owns the message schemas of Kafka 4.4: requests, responses, headers, records of the
// internal topics and of the metadata log, control records, and the few files that share their notation.
//
// Called by the generator (internal/protocol/gen), by dump-log, which prints records as JSON, and by tests. Never
// by code that runs in a node: what a node needs of a schema is in the generated code.
//
// # Notation
//
// A file holds one API, or one family of records. Its first lines say what it is and which Go package the
// generated code belongs to. A comment (// …) above a message or field travels into the generated code.
// A message is a line without indent, its fields follow with an indent of two:
//
//	request ProduceRequest id=0 versions=3-13 flexible=9+ listeners=broker
//	  Acks       int16                0+
//	  TopicData  []TopicProduceData   0+
//	    Name     string               0-12  entity=topicName ignorable mapkey
//
// The kinds are header, request, response, record (metadata record), key and value (of a coordinator's topic)
// and data. id is the API key or record key; flexible the versions with compact lengths and tagged fields;
// unstable=latest marks a message whose highest version is not released yet. forward=true: a broker forwards the
// request to the controller; clusteraction=true: it asks for the operation ClusterAction.
//
// A field has a name, a type, the versions that have it, and attributes:
//
//	null=V         may be null in versions V
//	default=X      otherwise zero, empty
//	tag=N@V        a tagged field in versions V
//	flexible=none  keeps its old form in flexible versions
//	ignorable      dropped in versions that lack it; without it, a value there is an error
//	mapkey         identifies its element in the array
//	entity=E       what the value names
//	zerocopy       Kafka reads it without copying
//
// Types are bool int8 int16 uint16 int32 uint32 int64 float64 string bytes records uuid, a struct, and []T.
// A struct is declared by the field that uses it, its fields indented below; or, when several fields share it,
// by a line "struct Name versions" at the end of the message.
package schemas
