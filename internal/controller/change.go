package controller

import (
	"slices"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/uuid"
)

// election says whom a change may elect if the leader has to go.
type election int

const (
	electOnline    election = iota // from the ISR, or from the ELR when the ISR is empty; the leader stays if it may
	electPreferred                 // the first replica if it may, else as online
	electUnclean                   // as online, and any live replica if there is nobody else
)

// change works out one PartitionChangeRecord from what should become of a partition. Fields that start with target
// are what is wanted; record makes them consistent: it completes a reassignment, keeps the ELR, elects a leader and
// raises epochs where followers must notice.
type change struct {
	partition  *partition
	topicID    uuid.UUID
	id         int32
	version    metadata.Version
	elr        bool // the ELR feature is on (KIP-966)
	minISR     int  // the topic's, at most its replication factor
	elect      election
	acceptable func(broker int32) bool // may be leader: live, and its directory is online
	defaultDir func(broker int32) uuid.UUID

	targetISR      []int32
	targetReplicas []int32
	targetRemoving []int32
	targetAdding   []int32
	targetELR      []int32
	targetRecovery int8
	targetDirs     map[int32]uuid.UUID // instead of the replica's present directory
	unclean        []int32             // replicas that went down without saying so
}

// newChange starts from the partition as it is.
func (m *replication) newChange(p *partition, topic *topic, id int32) *change {
	return &change{
		partition: p, topicID: topic.id, id: id,
		version: m.features.version(), elr: m.features.elrEnabled(), minISR: m.effectiveMinISR(topic),
		acceptable: m.leaderAcceptor(p, m.cluster.isActive), defaultDir: m.defaultDir,
		targetISR: p.isr, targetReplicas: p.replicas, targetRemoving: p.removing, targetAdding: p.adding,
		targetELR: p.elr, targetRecovery: p.leaderRecovery,
	}
}

// record returns the change; ok is false if nothing changes.
func (c *change) record() (v metadata.Versioned, ok bool) {
	r := metadata.NewPartitionChangeRecord()
	r.TopicId, r.PartitionId = c.topicID, c.id

	c.completeReassignment()
	c.populateELR()
	c.tryElection(r)
	if r.Leader == noLeaderChange && !containsAll(c.targetReplicas, c.partition.replicas) {
		r.Leader = c.partition.leader // a replica that goes away must learn it: raise the leader epoch
	}
	c.setELR(r)
	// With ELR the ISR may become empty, without it the last member stays.
	if r.Isr == nil && (len(c.targetISR) > 0 || c.elr) && !slices.Equal(c.targetISR, c.partition.isr) {
		r.Isr = notNil(c.targetISR)
	}
	if c.version.BumpsLeaderEpochOnShrink() && r.Leader == noLeaderChange && r.Isr != nil &&
		!containsAll(r.Isr, c.partition.isr) {
		r.Leader = c.partition.leader // brokers before 3.6 relied on it (KAFKA-15021)
	}
	c.setLastKnownLeader(r)
	c.setAssignment(r)
	if c.targetRecovery != c.partition.leaderRecovery {
		r.LeaderRecoveryState = c.targetRecovery
	}
	if changesNothing(r) {
		return metadata.Versioned{}, false
	}
	return metadata.Versioned{Record: r, Version: c.version.RecordVersion(r)}, true
}

func changesNothing(r *metadata.PartitionChangeRecord) bool {
	return r.Isr == nil && r.EligibleLeaderReplicas == nil && r.LastKnownElr == nil && r.Leader == noLeaderChange &&
		r.Replicas == nil && r.RemovingReplicas == nil && r.AddingReplicas == nil &&
		r.LeaderRecoveryState == noRecoveryChange && r.Directories == nil
}

// completeReassignment ends a reassignment whose new replicas are all in the target ISR: the removed ones leave. If
// more go than come, all that stay must be in sync too.
func (c *change) completeReassignment() {
	if len(c.targetRemoving) == 0 && len(c.targetAdding) == 0 {
		return
	}
	isr := without(c.targetISR, c.targetRemoving...)
	replicas := without(c.targetReplicas, c.targetRemoving...)
	if len(c.targetRemoving) > 0 && (len(isr) == 0 || len(replicas) == 0) {
		return
	}
	if !containsAll(isr, c.targetAdding) {
		return
	}
	if len(c.targetAdding) < len(c.targetRemoving) && !containsAll(isr, replicas) {
		return
	}
	c.targetISR, c.targetReplicas = isr, replicas
	c.targetRemoving, c.targetAdding = nil, nil
}

// populateELR keeps those who leave the ISR while it is below min.insync.replicas: they have all that was committed.
// Unlike Kafka's, the ELR never holds a replica that a reassignment has just removed.
func (c *change) populateELR() {
	if !c.elr {
		return
	}
	if len(c.targetISR) >= c.minISR {
		c.targetELR = nil
		return
	}
	var elr []int32
	for _, id := range slices.Concat(c.targetELR, c.partition.isr) {
		if slices.Contains(c.targetReplicas, id) && !slices.Contains(c.targetISR, id) && !slices.Contains(c.unclean, id) && !slices.Contains(elr, id) {
			elr = append(elr, id)
		}
	}
	slices.Sort(elr)
	c.targetELR = elr
}

// tryElection puts a new leader into the record if the present one has to go or another is preferred.
func (c *change) tryElection(r *metadata.PartitionChangeRecord) {
	leader, unclean := c.electLeader()
	if leader == c.partition.leader {
		return
	}
	if slices.Contains(c.targetELR, leader) {
		c.targetISR = []int32{leader}
		c.targetELR = without(c.targetELR, leader)
	}
	r.Leader = leader
	if unclean {
		// Only the new leader's log counts from now on; what the others had more is lost.
		r.Isr = []int32{leader}
		if c.partition.leaderRecovery != recovering {
			r.LeaderRecoveryState = recovering
		}
	}
}

func (c *change) electLeader() (leader int32, unclean bool) {
	if c.elect == electPreferred && c.mayLead(c.targetReplicas[0]) {
		return c.targetReplicas[0], false
	}
	if c.mayLead(c.partition.leader) {
		return c.partition.leader, false
	}
	for _, id := range c.targetReplicas {
		if c.mayLead(id) {
			return id, false
		}
	}
	if c.mayElectLastKnownLeader() {
		return c.partition.lastKnownELR[0], true
	}
	if c.elect == electUnclean {
		for _, id := range c.targetReplicas {
			if c.acceptable(id) {
				return id, true
			}
		}
	}
	return noLeader, false
}

// mayLead reports whether a replica has all committed records and is live.
func (c *change) mayLead(id int32) bool {
	inSync := slices.Contains(c.targetISR, id) || len(c.targetISR) == 0 && slices.Contains(c.targetELR, id)
	return inSync && c.acceptable(id)
}

// mayElectLastKnownLeader: when nobody is known to be complete, the last leader is the best guess (KIP-966).
func (c *change) mayElectLastKnownLeader() bool {
	return c.elr && len(c.targetISR) == 0 && len(c.targetELR) == 0 &&
		len(c.partition.lastKnownELR) == 1 && c.acceptable(c.partition.lastKnownELR[0])
}

func (c *change) setELR(r *metadata.PartitionChangeRecord) {
	if r.Isr != nil || !c.elr { // an unclean election, or the feature is off
		c.targetELR = nil
	}
	if !slices.Equal(c.targetELR, c.partition.elr) {
		r.EligibleLeaderReplicas = notNil(c.targetELR)
	}
}

// setLastKnownLeader remembers who led when the partition loses its leader, and forgets it when there is one again.
func (c *change) setLastKnownLeader(r *metadata.PartitionChangeRecord) {
	switch known := len(c.partition.lastKnownELR); {
	case !c.elr:
	case r.Leader == noLeader && known == 0:
		r.LastKnownElr = []int32{c.partition.leader}
	case r.Leader >= 0 && known > 0:
		r.LastKnownElr = []int32{}
	}
}

func (c *change) setAssignment(r *metadata.PartitionChangeRecord) {
	if len(c.targetReplicas) > 0 {
		if c.version.DirectoryAssignment() {
			dirs := make([]uuid.UUID, len(c.targetReplicas))
			for i, id := range c.targetReplicas {
				dir, ok := c.targetDirs[id]
				if !ok {
					dir, ok = c.partition.directory(id)
				}
				if !ok {
					dir = c.defaultDir(id)
				}
				dirs[i] = dir
			}
			if !slices.Equal(dirs, c.partition.directories) {
				r.Directories = dirs
			}
		}
		if !slices.Equal(c.targetReplicas, c.partition.replicas) {
			r.Replicas = c.targetReplicas
		}
	}
	if !slices.Equal(c.targetRemoving, c.partition.removing) {
		r.RemovingReplicas = notNil(c.targetRemoving)
	}
	if !slices.Equal(c.targetAdding, c.partition.adding) {
		r.AddingReplicas = notNil(c.targetAdding)
	}
}
