package controller

import (
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Config is what a controller has to be told.
type Config struct {
	NodeID    int32
	ClusterID string
	// Node is the node's configuration: the settings that topics inherit.
	Node *config.Node
	// Bootstrap are the records of a new cluster, unless the log's folder has a bootstrap snapshot of its own.
	Bootstrap []metadata.Versioned

	// LocalBroker is the incarnation of the broker in this process, zero if there is none.
	LocalBroker uuid.UUID

	DefaultPartitions        int32
	DefaultReplicationFactor int16
	DeleteTopics             bool          // delete.topic.enable
	UnstableFeatures         bool          // unstable.feature.versions.enable
	Session                  time.Duration // broker.session.timeout.ms: after so much silence a broker is fenced
	MaxIdle                  time.Duration // metadata.max.idle.interval.ms: a NoOp record each; 0: none
	BalanceInterval          time.Duration // leader.imbalance.check.interval.seconds; 0: leaders are not balanced
	UncleanInterval          time.Duration // unclean.leader.election.interval.ms

	ACLs   bool // authorizer.class.name is set: there are ACLs
	Tokens TokenSettings
}

// FromNode takes a controller's settings from a node's configuration.
func FromNode(node *config.Node, clusterID string) Config {
	c := Config{
		NodeID: node.NodeID, ClusterID: clusterID, Node: node,
		Bootstrap:                DefaultBootstrap(metadata.LatestVersion),
		DefaultPartitions:        int32(node.Int("num.partitions")),
		DefaultReplicationFactor: int16(node.Int("default.replication.factor")),
		DeleteTopics:             node.Bool("delete.topic.enable"),
		UnstableFeatures:         node.Bool("unstable.feature.versions.enable"),
		Session:                  time.Duration(node.Long("broker.session.timeout.ms")) * time.Millisecond,
		MaxIdle:                  time.Duration(node.Long("metadata.max.idle.interval.ms")) * time.Millisecond,
		UncleanInterval:          time.Duration(node.Long("unclean.leader.election.interval.ms")) * time.Millisecond,
		ACLs:                     node.String("authorizer.class.name") != "",
		Tokens:                   tokenSettings(node),
	}
	if node.Bool("auto.leader.rebalance.enable") {
		c.BalanceInterval = time.Duration(node.Long("leader.imbalance.check.interval.seconds")) * time.Second
	}
	return c
}

func tokenSettings(node *config.Node) TokenSettings {
	return TokenSettings{
		Secret:      node.String("delegation.token.secret.key"),
		MaxLifetime: time.Duration(node.Long("delegation.token.max.lifetime.ms")) * time.Millisecond,
		RenewPeriod: time.Duration(node.Long("delegation.token.expiry.time.ms")) * time.Millisecond,
		CheckEvery:  time.Duration(node.Long("delegation.token.expiry.check.interval.ms")) * time.Millisecond,
	}
}

// DefaultBootstrap are the records of a new cluster at a metadata.version with the features that come with it.
func DefaultBootstrap(v metadata.Version) []metadata.Versioned {
	var records []metadata.Versioned
	for i := range metadata.Features {
		f := &metadata.Features[i]
		if f.Name == metadata.FeatureKRaft || f.Default(v) == 0 {
			continue
		}
		r := metadata.NewFeatureLevelRecord()
		r.Name, r.FeatureLevel = f.Name, f.Default(v)
		records = append(records, metadata.Versioned{Record: r})
	}
	return records
}
