// Package cli owns the command line: one file per tool, each with the flags, the output and the exit codes of the
// Kafka tool it stands in for, and the table that finds the tool (commands.go).
//
// Called by cmd/ottla with the arguments of the process. Called through a link named kafka-topics.sh (or
// kafka-topics) it acts as that tool.
//
// Tools that talk to a cluster are ordinary clients on franz-go: they know nothing of the server in the same
// binary and work against Apache Kafka as well. Tools that read files (dump-log, storage) use the packages that
// wrote them. Standard output is what Kafka's tool prints, byte for byte where a script could read it; errors go
// to standard error as one clear line instead of a stack trace.
//
// Never exits the process or touches its streams: Main gets them and returns the exit code.
//
// Sources: the behaviour of the tools of Kafka 4.4.0.
package cli
