// Package protocoltest owns what tests of the codec share: every message by name, random messages of a schema
// and version, and their JSON in the form that Kafka's converters use.
//
// Called by tests only.
package protocoltest
