package image

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/metadata"
)

// Delta collects changes on top of an image. A delta serves once: after Apply it is only read.
type Delta struct {
	base *Image
	// Areas are nil as long as no record concerned them.
	features    *featuresDelta
	cluster     *clusterDelta
	topics      *TopicsDelta
	configs     *configsDelta
	quotas      *quotasDelta
	producerIDs *ProducerIDs
	acls        *aclsDelta
	scram       *scramDelta
	tokens      *tokensDelta
	snapshot    bool
}

// NewDelta returns a delta without changes.
func NewDelta(base *Image) *Delta { return &Delta{base: base} }

// Between returns the delta that leads from one image to another, as it is needed when the other comes from a snapshot. Its
// cost is that of both images; what is equal is not counted as changed.
func Between(base, next *Image) *Delta {
	d := &Delta{
		base: base, features: newFeaturesDelta(base.Features), cluster: newClusterDelta(base.Cluster), topics: newTopicsDelta(base.Topics),
		configs: newConfigsDelta(base.Configs), quotas: newQuotasDelta(base.ClientQuotas), acls: newACLsDelta(base.ACLs),
		scram: newScramDelta(base.Scram), tokens: newTokensDelta(base.DelegationTokens), producerIDs: &ProducerIDs{next.ProducerIDs.Next}, snapshot: true,
	}
	d.features.replaceBy(next.Features)
	d.cluster.replace(next.Cluster)
	d.topics.replace(next.Topics)
	d.configs.replaceBy(next.Configs)
	d.quotas.replaceBy(next.ClientQuotas)
	d.acls.replaceBy(next.ACLs)
	d.scram.replaceBy(next.Scram)
	d.tokens.replaceBy(next.DelegationTokens)
	return d
}

// Base is the image before the changes.
func (d *Delta) Base() *Image { return d.base }

// FromSnapshot reports whether the delta was made by comparing two images: it may lead over many offsets.
func (d *Delta) FromSnapshot() bool { return d.snapshot }

// Topics are the changes of topics; nil, whose methods may be called, if there are none.
func (d *Delta) Topics() *TopicsDelta { return d.topics }

// Brokers are the ids of the brokers that were registered, changed or unregistered, sorted.
func (d *Delta) Brokers() []int32 {
	if d.cluster == nil {
		return nil
	}
	return d.cluster.brokers.keys()
}

// Controllers are the ids of the controllers that were registered, changed or unregistered, sorted.
func (d *Delta) Controllers() []int32 {
	if d.cluster == nil {
		return nil
	}
	return d.cluster.controllers.keys()
}

// Configs are the resources whose settings changed, sorted by type and name. Those of deleted topics are among them.
func (d *Delta) Configs() []ConfigResource {
	if d.configs == nil {
		return nil
	}
	keys := d.configs.keys()
	out := make([]ConfigResource, len(keys))
	for i, key := range keys {
		out[i] = resourceOf(key)
	}
	return out
}

// Features are the names of the features whose level changed, sorted.
func (d *Delta) Features() []string {
	if d.features == nil {
		return nil
	}
	return d.features.keys()
}

// MetadataVersionChanged reports whether metadata.version changed.
func (d *Delta) MetadataVersionChanged() bool {
	return d.features != nil && d.features.apply().MetadataVersion() != d.base.Features.MetadataVersion()
}

// ClientQuotasChanged reports whether quotas changed.
func (d *Delta) ClientQuotasChanged() bool { return d.quotas != nil && d.quotas.work != nil }

// ACLsChanged reports whether access control entries changed.
func (d *Delta) ACLsChanged() bool { return d.acls != nil && d.acls.work != nil }

// ScramChanged reports whether SCRAM credentials changed.
func (d *Delta) ScramChanged() bool { return d.scram != nil && d.scram.work != nil }

// DelegationTokensChanged reports whether delegation tokens changed.
func (d *Delta) DelegationTokensChanged() bool { return d.tokens != nil && d.tokens.work != nil }

// lazy returns an area's delta and makes it at the first use.
func lazy[B, D any](d **D, base *B, make func(*B) *D) *D {
	if *d == nil {
		*d = make(base)
	}
	return *d
}

func (d *Delta) getFeatures() *featuresDelta {
	return lazy(&d.features, d.base.Features, newFeaturesDelta)
}
func (d *Delta) getCluster() *clusterDelta { return lazy(&d.cluster, d.base.Cluster, newClusterDelta) }
func (d *Delta) getTopics() *TopicsDelta   { return lazy(&d.topics, d.base.Topics, newTopicsDelta) }
func (d *Delta) getConfigs() *configsDelta { return lazy(&d.configs, d.base.Configs, newConfigsDelta) }
func (d *Delta) getQuotas() *quotasDelta   { return lazy(&d.quotas, d.base.ClientQuotas, newQuotasDelta) }
func (d *Delta) getACLs() *aclsDelta       { return lazy(&d.acls, d.base.ACLs, newACLsDelta) }
func (d *Delta) getScram() *scramDelta     { return lazy(&d.scram, d.base.Scram, newScramDelta) }
func (d *Delta) getTokens() *tokensDelta {
	return lazy(&d.tokens, d.base.DelegationTokens, newTokensDelta)
}

// Replay adds what a record says. Slices of the record become part of the image. After an error, which means that
// the record does not fit the state, the delta is as it was before.
func (d *Delta) Replay(rec metadata.Record) error {
	if err := d.replay(rec); err != nil {
		return fmt.Errorf("replay %s: %w", metadata.Name(rec.RecordKey()), err)
	}
	return nil
}

func (d *Delta) replay(rec metadata.Record) error {
	switch r := rec.(type) {
	case *metadata.TopicRecord:
		return d.getTopics().replayTopic(r)
	case *metadata.PartitionRecord:
		return d.getTopics().replayPartition(r)
	case *metadata.PartitionChangeRecord:
		return d.getTopics().replayPartitionChange(r)
	case *metadata.RemoveTopicRecord:
		name, err := d.getTopics().remove(r.TopicId)
		if err == nil {
			d.getConfigs().remove(ResourceTopic, name) // no record says so
		}
		return err
	case *metadata.ClearElrRecord:
		return d.getTopics().clearELR(r.TopicName)
	case *metadata.ConfigRecord:
		d.getConfigs().replay(r)
	case *metadata.RegisterBrokerRecord:
		d.getCluster().registerBroker(r)
	case *metadata.UnregisterBrokerRecord:
		return d.getCluster().unregisterBroker(r)
	case *metadata.BrokerRegistrationChangeRecord:
		return d.getCluster().replayRegistrationChange(r)
	case *metadata.FenceBrokerRecord:
		return d.getCluster().changeBroker(r.Id, r.Epoch, func(b *Broker) { b.Fenced = true })
	case *metadata.UnfenceBrokerRecord:
		return d.getCluster().changeBroker(r.Id, r.Epoch, func(b *Broker) { b.Fenced = false })
	case *metadata.RegisterControllerRecord:
		d.getCluster().registerController(r)
	case *metadata.UnregisterControllerRecord:
		return d.getCluster().unregisterController(r)
	case *metadata.FeatureLevelRecord:
		d.getFeatures().replay(r)
	case *metadata.ClientQuotaRecord:
		d.getQuotas().replay(r)
	case *metadata.ProducerIdsRecord:
		d.producerIDs = &ProducerIDs{Next: r.NextProducerId}
	case *metadata.AccessControlEntryRecord:
		d.getACLs().put(idKey(r.Id), r)
	case *metadata.RemoveAccessControlEntryRecord:
		return d.getACLs().remove(r)
	case *metadata.UserScramCredentialRecord:
		d.getScram().replay(r)
	case *metadata.RemoveUserScramCredentialRecord:
		return d.getScram().remove(r)
	case *metadata.DelegationTokenRecord:
		d.getTokens().put(r.TokenId, r)
	case *metadata.RemoveDelegationTokenRecord:
		return d.getTokens().remove(r)
	case *metadata.NoOpRecord, *metadata.ZkMigrationStateRecord:
		// Nothing to remember: the first only moves the offset, the second is of a past migration.
	case *metadata.BeginTransactionRecord, *metadata.EndTransactionRecord, *metadata.AbortTransactionRecord:
		// The Loader, which sees the batches, acts on these.
	default:
		return fmt.Errorf("unknown record %T", rec)
	}
	return nil
}

// Apply returns the image with the changes. The delta must not be replayed into afterwards.
func (d *Delta) Apply(p Provenance) *Image {
	img := *d.base
	img.Provenance = p
	if d.features != nil {
		img.Features = d.features.apply()
	}
	if d.cluster != nil {
		img.Cluster = d.cluster.apply()
	}
	if d.topics != nil {
		img.Topics = d.topics.apply()
	}
	if d.configs != nil {
		img.Configs = d.configs.apply()
	}
	if d.quotas != nil {
		img.ClientQuotas = d.quotas.apply()
	}
	if d.producerIDs != nil {
		img.ProducerIDs = *d.producerIDs
	}
	if d.acls != nil {
		img.ACLs = d.acls.apply()
	}
	if d.scram != nil {
		img.Scram = d.scram.apply()
	}
	if d.tokens != nil {
		img.DelegationTokens = d.tokens.apply()
	}
	return &img
}
