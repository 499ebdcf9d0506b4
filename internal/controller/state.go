package controller

import (
	"github.com/ottla-io/ottla/internal/timeline"
	"github.com/ottla-io/ottla/internal/uuid"
)

// state is all that the records of the log say, by area. Only replay changes it.
type state struct {
	registry    *timeline.Registry
	features    *features
	cluster     *cluster
	configs     *configs
	replication *replication
	producerIDs *producerIDs
	security    *security
	tokens      *tokens
	// transactionStart is the offset of an open metadata transaction's first record, -1 if there is none (KIP-868).
	transactionStart *timeline.Value[int64]
}

func (c *Controller) newState() *state {
	s := &state{registry: timeline.NewRegistry()}
	s.transactionStart = timeline.NewValue(s.registry, int64(-1))
	s.features = newFeatures(c.log, c.cfg.NodeID, c.cfg.UnstableFeatures, s.registry)
	s.cluster = newCluster(c.log, c.cfg.ClusterID, s.features, s.registry)
	s.cluster.local = c.cfg.LocalBroker
	s.configs = newConfigs(c.log, c.cfg.Node, c.cfg.NodeID, s.features, s.registry)
	s.configs.exists = c.resourceExists
	s.replication = newReplication(c.log, s, topicDefaults{c.cfg.DefaultPartitions, c.cfg.DefaultReplicationFactor}, c.newID, c.env.Rand().IntN)
	s.producerIDs = newProducerIDs(c.log, s.cluster, s.registry)
	s.security = newSecurity(c.log, s.registry)
	s.tokens = newTokens(c.log, c.cfg.Tokens, c.env.Now, c.newID, s.registry)
	return s
}

func (c *Controller) newID() uuid.UUID { return uuid.Draw(c.env.Rand().Read) }
