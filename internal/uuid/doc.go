// Package uuid owns Kafka's 16-byte ids: topics, log directories, incarnations.
//
// Called by everybody. Never makes an id of its own: random bytes come from the caller's env.
package uuid
