package replica

import (
	"errors"
	"slices"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Apply makes the local partitions what the new image says: leader, follower, or gone. Deletes come first, a
// topic of the same name may be new. The cost is that of the change. Calls come one after the other.
func (m *Manager) Apply(d *image.Delta, img *image.Image) {
	m.img.Store(img)
	changes := d.Topics().LocalChanges(m.cfg.NodeID)
	for _, c := range changes.Deletes {
		m.remove(c)
	}
	for _, c := range changes.Leaders {
		m.become(img, c)
	}
	for _, c := range changes.Followers {
		m.become(img, c)
	}
	m.closeIdleFetchers()
	if len(d.Brokers()) > 0 {
		for _, p := range m.All() {
			p.advanceAndWake() // it may have waited for a follower that is fenced now
		}
	}
}

// ConfigsChanged names topics whose effective settings may have changed.
func (m *Manager) ConfigsChanged(topics []string, img *image.Image) {
	for _, name := range topics {
		m.mu.RLock()
		t := m.byName[name]
		var ps []*Partition
		if t != nil {
			ps = t.partitions
		}
		m.mu.RUnlock()
		if t == nil {
			continue
		}
		settings := m.cfg.Settings(img, name)
		m.logs.Configure(name, settings)
		for _, p := range ps {
			if p != nil {
				p.configure(settings)
				p.wake()
			}
		}
	}
}

// configure takes what the partition itself needs of its topic's settings. The high watermark may have waited for
// a smaller min.insync.replicas.
func (p *Partition) configure(settings config.Topic) {
	p.minISR.Store(int32(settings.Int("min.insync.replicas")))
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.leader {
		p.advance()
	}
}

// become makes a partition leader or follower, and first of all makes it.
func (m *Manager) become(img *image.Image, c image.LocalPartition) {
	s := State{
		Replicas: c.Partition.Replicas, ISR: c.Partition.ISR, Adding: c.Partition.AddingReplicas, Removing: c.Partition.RemovingReplicas,
		Leader: c.Partition.Leader, LeaderEpoch: c.Partition.LeaderEpoch, PartitionEpoch: c.Partition.PartitionEpoch,
		Directory: c.Partition.Directory(m.cfg.NodeID),
	}
	m.mu.RLock()
	p := m.byName[c.Topic.Name].partition(c.ID)
	m.mu.RUnlock()
	var log Log
	if p == nil { // one that is there and has no log is offline, and stays so
		settings := m.cfg.Settings(img, c.Topic.Name)
		var err error
		log, err = m.logs.Open(TopicPartition{Topic: c.Topic.Name, Partition: c.ID}, c.Topic.ID, s.Directory, settings)
		if err != nil {
			// The partition is known and offline: it answers with KafkaStorageError.
			m.env.Logger().Error("log not opened", "topic", c.Topic.Name, "partition", c.ID, "error", err)
			log = nil
		}
		p = &Partition{m: m, Topic: c.Topic.Name, ID: c.Topic.ID, Index: c.ID}
		p.state.PartitionEpoch, p.state.LeaderEpoch, p.state.Leader = -1, -1, NoLeader
		p.minISR.Store(int32(settings.Int("min.insync.replicas")))
	}
	newEpoch, err := p.become(s, log)
	if err != nil {
		m.env.Logger().Error("leader epoch not started", "topic", p.Topic, "partition", p.Index, "error", err)
	}
	m.put(p)
	m.checkDirectory(img, p, s.Directory)
	if newEpoch {
		m.env.Logger().Debug("new leader epoch", "topic", p.Topic, "partition", p.Index, "leader", s.Leader,
			"leaderEpoch", s.LeaderEpoch, "partitionEpoch", s.PartitionEpoch)
	}
	m.assign(p, s)
	p.wake()
}

// checkDirectory compares where a replica is with what the metadata says, and has the controller told (KIP-858).
func (m *Manager) checkDirectory(img *image.Image, p *Partition, said uuid.UUID) {
	if m.cfg.Assign == nil || p.Log() == nil || !img.Features.MetadataVersion().DirectoryAssignment() {
		return
	}
	if dir, ok := m.logs.DirectoryOf(p.Name()); ok && dir != said {
		m.cfg.Assign(p.ID, p.Index, dir)
	}
}

// put makes a partition findable.
func (m *Manager) put(p *Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.byName[p.Topic]
	if t.partition(p.Index) == p {
		return
	}
	next := &topic{name: p.Topic, id: p.ID}
	if t != nil {
		next.partitions = t.partitions
	}
	if grow := int(p.Index) + 1 - len(next.partitions); grow > 0 {
		// Room for those to come; what others see of the old array is not written to.
		next.partitions = slices.Grow(next.partitions, grow)[:p.Index+1]
	} else {
		next.partitions = slices.Clone(next.partitions)
	}
	next.partitions[p.Index] = p
	m.byName[p.Topic], m.byID[p.ID] = next, next
}

// remove deletes the local replica of a partition, with its log.
func (m *Manager) remove(c image.LocalPartition) {
	m.mu.Lock()
	t := m.byName[c.Topic.Name]
	p := t.partition(c.ID)
	if p == nil || p.ID != c.Topic.ID {
		m.mu.Unlock()
		return
	}
	next := &topic{name: t.name, id: t.id, partitions: slices.Clone(t.partitions)}
	next.partitions[c.ID] = nil
	if slices.ContainsFunc(next.partitions, func(p *Partition) bool { return p != nil }) {
		m.byName[t.name], m.byID[t.id] = next, next
	} else {
		delete(m.byName, t.name)
		delete(m.byID, t.id)
	}
	m.mu.Unlock()
	m.unassign(p)
	p.stop()
	if err := m.logs.Delete(p.Name()); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		m.env.Logger().Error("log not deleted", "topic", p.Topic, "partition", p.Index, "error", err)
	}
}
