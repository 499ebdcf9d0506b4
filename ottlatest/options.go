package ottlatest

import (
	"log/slog"

	"github.com/ottla-io/ottla/internal/cluster"
)

// Option says what Start is to make.
type Option func(*options)

type options struct {
	brokers, controllers int
	topics               []topic
	settings             []cluster.Setting
	level                slog.Level
}

type topic struct {
	name       string
	partitions int
}

// Brokers asks for n brokers, with the ids 1 to n. Default: 1.
func Brokers(n int) Option { return func(o *options) { o.brokers = n } }

// Controllers asks for n controllers in processes of their own, as it were, with ids from 101. Without it there is one: broker 1 if it is
// the only broker, else a node of its own.
func Controllers(n int) Option { return func(o *options) { o.controllers = n } }

// Topic makes a topic before Start returns. Its replicas are on three brokers, or on as many as there are; it can be used at once.
func Topic(name string, partitions int) Option {
	return func(o *options) { o.topics = append(o.topics, topic{name, partitions}) }
}

// Setting sets a key of server.properties on all nodes, such as ("min.insync.replicas", "2").
func Setting(key, value string) Option {
	return func(o *options) { o.settings = append(o.settings, cluster.Setting{Key: key, Value: value}) }
}

// LogLevel sets from which level on the nodes' logs go to the output of the test. Default: slog.LevelError.
func LogLevel(level slog.Level) Option { return func(o *options) { o.level = level } }
