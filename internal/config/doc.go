// Package config owns the settings of a node: what each key of Kafka 4.4.0 is called, which values
// it takes, what it defaults to, and how a server.properties file, KAFKA_* variables and overrides
// become typed values.
//
// Called by cli and node at start-up, by controller (validation of altered settings), by broker
// (DescribeConfigs, effective topic settings).
//
// Never reads a file or the environment by itself: callers hand in bytes and pairs. Cores get
// typed values and never the map of strings.
//
// Sources: the settings of Apache Kafka 4.4.0 (settings.tsv), java.util.Properties for the file format,
// KIP-226 (dynamic settings), KIP-631 (process.roles and the quorum).
package config
