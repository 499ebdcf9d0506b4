package image

import (
	"maps"
	"slices"

	"github.com/ottla-io/ottla/internal/metadata"
)

// Writer takes the records of a snapshot. Each call is one batch.
type Writer interface {
	Append(records []metadata.Versioned) error
}

// batchRecords is how many records go into one batch of a snapshot: enough that a batch header costs nothing, few enough
// that a batch of large partitions stays below the 8 MiB a batch of the metadata log may have.
const batchRecords = 1024

// WriteOptions say how an image is written as records.
type WriteOptions struct {
	// Version is the metadata.version whose record versions are used; 0 means the image's own.
	Version metadata.Version
	// OnLoss is called, if set, with what cannot be said at that version.
	OnLoss func(what string)
}

// Write writes the image as records, in the order in which Kafka writes a snapshot: a reader that replays them into an empty
// image has this one.
func (img *Image) Write(w Writer, o WriteOptions) error {
	if o.Version == 0 {
		o.Version = max(img.Features.MetadataVersion(), metadata.MinVersion)
	}
	if o.OnLoss == nil {
		o.OnLoss = func(string) {}
	}
	r := &rewriter{w: w, WriteOptions: o}
	r.features(img.Features)
	r.cluster(img.Cluster)
	r.topics(img.Topics)
	for resource, settings := range img.Configs.All() {
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			value := settings[name]
			r.add(&metadata.ConfigRecord{ResourceType: resource.Type, ResourceName: resource.Name, Name: name, Value: &value})
		}
	}
	for q := range img.ClientQuotas.All() {
		r.quota(q)
	}
	if img.ProducerIDs.Next > 0 {
		r.add(&metadata.ProducerIdsRecord{BrokerId: -1, BrokerEpoch: -1, NextProducerId: img.ProducerIDs.Next})
	}
	for acl := range img.ACLs.All() {
		r.add(acl)
	}
	for credential := range img.Scram.All() {
		if !o.Version.Scram() {
			o.OnLoss("scram credentials")
			break
		}
		r.add(credential)
	}
	for token := range img.DelegationTokens.All() {
		if !o.Version.DelegationTokens() {
			o.OnLoss("delegation tokens")
			break
		}
		r.add(token)
	}
	r.flush()
	return r.err
}

// rewriter collects records into batches. After an error it drops what it gets.
type rewriter struct {
	WriteOptions
	w     Writer
	batch []metadata.Versioned
	err   error
}

func (r *rewriter) add(rec metadata.Record) {
	r.batch = append(r.batch, r.Version.Versioned(rec))
	if len(r.batch) >= batchRecords {
		r.flush()
	}
}

func (r *rewriter) flush() {
	if r.err == nil && len(r.batch) > 0 {
		r.err = r.w.Append(r.batch)
	}
	r.batch = nil
}

func (r *rewriter) features(f *Features) {
	if f.MetadataVersion() != 0 {
		// First: it says which versions the records after it have.
		r.add(&metadata.FeatureLevelRecord{Name: metadata.FeatureMetadata, FeatureLevel: int16(r.Version)})
	}
	for name, level := range f.All() {
		if name != metadata.FeatureMetadata {
			r.add(&metadata.FeatureLevelRecord{Name: name, FeatureLevel: level})
		}
	}
}

func (r *rewriter) cluster(c *Cluster) {
	for b := range c.Brokers() {
		rec := &metadata.RegisterBrokerRecord{
			BrokerId: b.ID, IncarnationId: b.IncarnationID, BrokerEpoch: b.Epoch, Rack: b.Rack, Fenced: b.Fenced,
			InControlledShutdown: b.InControlledShutdown,
		}
		for _, e := range b.Endpoints {
			rec.EndPoints = append(rec.EndPoints, metadata.RegisterBrokerRecordBrokerEndpoint{Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: e.SecurityProtocol})
		}
		for _, f := range b.Features {
			rec.Features = append(rec.Features, metadata.RegisterBrokerRecordBrokerFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
		}
		version := r.Version.RecordVersion(rec)
		if version >= 2 {
			rec.IsMigratingZkBroker = b.IsMigratingZkBroker
		} else if b.IsMigratingZkBroker {
			r.OnLoss("the isMigratingZkBroker state of one or more brokers")
		}
		if r.Version.DirectoryAssignment() {
			rec.LogDirs = b.Directories
		} else if len(b.Directories) > 0 {
			r.OnLoss("the online log directories of one or more brokers")
		}
		if r.Version.CordonedLogDirs() {
			rec.CordonedLogDirs = b.CordonedDirs
		} else if len(b.CordonedDirs) > 0 {
			r.OnLoss("the cordoned log directories of one or more brokers")
		}
		r.add(rec)
	}
	for ctrl := range c.Controllers() {
		if !r.Version.ControllerRegistration() {
			r.OnLoss("controller registration data")
			return
		}
		rec := &metadata.RegisterControllerRecord{ControllerId: ctrl.ID, IncarnationId: ctrl.IncarnationID, ZkMigrationReady: ctrl.ZkMigrationReady}
		for _, e := range ctrl.Endpoints {
			rec.EndPoints = append(rec.EndPoints, metadata.RegisterControllerRecordControllerEndpoint{Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: e.SecurityProtocol})
		}
		for _, f := range ctrl.Features {
			rec.Features = append(rec.Features, metadata.RegisterControllerRecordControllerFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
		}
		r.add(rec)
	}
}

func (r *rewriter) topics(t *Topics) {
	for topic := range t.All() {
		r.add(&metadata.TopicRecord{Name: topic.Name, TopicId: topic.ID})
		for id, p := range topic.Partitions {
			r.add(r.partition(topic, int32(id), p))
		}
	}
}

func (r *rewriter) partition(topic *Topic, id int32, p *Partition) *metadata.PartitionRecord {
	rec := &metadata.PartitionRecord{
		PartitionId: id, TopicId: topic.ID, Replicas: p.Replicas, Isr: p.ISR, RemovingReplicas: p.RemovingReplicas,
		AddingReplicas: p.AddingReplicas, Leader: p.Leader, LeaderRecoveryState: p.LeaderRecoveryState,
		LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch,
	}
	if r.Version.ELR() { // nil lists are left out, which saves their space
		rec.EligibleLeaderReplicas, rec.LastKnownElr = p.ELR, p.LastKnownELR
	} else if len(p.ELR)+len(p.LastKnownELR) > 0 {
		r.OnLoss("the eligible leader replicas of one or more partitions")
	}
	if r.Version.DirectoryAssignment() {
		rec.Directories = p.Directories
	} else {
		for _, dir := range p.Directories {
			if !dir.IsZero() {
				r.OnLoss("the directory assignment state of one or more replicas")
				break
			}
		}
	}
	return rec
}

func (r *rewriter) quota(q *ClientQuota) {
	var entity []metadata.ClientQuotaRecordEntityData
	for _, e := range q.Entity {
		entity = append(entity, metadata.ClientQuotaRecordEntityData{EntityType: e.Type, EntityName: e.Name})
	}
	for _, key := range slices.Sorted(maps.Keys(q.Values)) {
		r.add(&metadata.ClientQuotaRecord{Entity: entity, Key: key, Value: q.Values[key]})
	}
}
