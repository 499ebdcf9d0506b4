package group

import (
	"errors"
	"slices"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// commitRequest is an OffsetCommit of topics that exist.
type commitRequest struct {
	groupID, memberID string
	instanceID        *string
	generation        int32 // or member epoch; -1 from those who belong to no generation
	retentionMs       int64 // -1: the retention of the node
	version           int16
	topics            []commitTopic
}

type commitTopic struct {
	name       string
	id         uuid.UUID
	partitions []protocol.OffsetCommitRequestPartition
	errors     []int16 // by index of partitions: filled in by commit
}

// commit is OffsetCommit: done is called when the offsets are committed, or with the error of all of them.
func (s *shard) commit(r *commitRequest, done func(error)) {
	if err := s.validateCommit(r); err != nil {
		done(err)
		return
	}
	now := s.nowMs()
	expire := int64(-1)
	if r.retentionMs != -1 {
		expire = now + r.retentionMs
	}
	var records []coordinator.Record
	for i := range r.topics {
		t := &r.topics[i]
		t.errors = make([]int16, len(t.partitions))
		for j, p := range t.partitions {
			metadata := deref(p.CommittedMetadata, "")
			if javaLength(metadata) > s.cfg.OffsetMetadataMaxBytes {
				t.errors[j] = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			records = append(records, offsetRecord(r.groupID, t.name, p.PartitionIndex, offset{
				offset: p.CommittedOffset, leaderEpoch: p.CommittedLeaderEpoch, metadata: metadata,
				commitTimeMs: now, expireTimeMs: expire, topicID: t.id,
			}))
		}
	}
	s.rt.Write(records, done)
}

// validateCommit checks that whoever commits may, and counts a member's commit as a heartbeat.
func (s *shard) validateCommit(r *commitRequest) error {
	switch g := s.groups[r.groupID].(type) {
	case nil:
		switch {
		case r.generation < 0:
			s.rt.Logger().Info("Creating a simple consumer group via manual offset commit", "group", r.groupID)
			return nil
		case r.version >= 9:
			return kerr.GroupIdNotFound
		default:
			return kerr.IllegalGeneration
		}
	case *modernGroup:
		if err := g.validateOffsets(&r.memberID, r.generation, true); err != nil {
			if errors.Is(err, kerr.StaleMemberEpoch) && r.version < 9 {
				return kerr.UnsupportedVersion // old clients do not know the error
			}
			return err
		}
		return nil
	case *classicGroup:
		if err := g.validateCommit(r.memberID, r.instanceID, r.generation); err != nil {
			return err
		}
		if m, ok := g.byID[r.memberID]; ok && (g.state == stable || g.state == preparingRebalance) {
			s.heard(m)
		}
		return nil
	default:
		panic("group of unknown kind")
	}
}

func (g *classicGroup) validateCommit(memberID string, instanceID *string, generation int32) error {
	if generation < 0 && g.state == empty {
		return nil // an administrator, or a consumer that assigns partitions to itself
	}
	if generation >= 0 || memberID != "" || instanceID != nil {
		if err := g.validate(memberID, instanceID, "offset-commit"); err != nil {
			return err
		}
		if generation != g.generation {
			return kerr.IllegalGeneration
		}
	} else if g.state != empty {
		return kerr.UnknownMemberId
	}
	if g.state == completingRebalance {
		// It has the new generation but not its assignment, so what it commits belongs to the old one.
		return kerr.RebalanceInProgress
	}
	return nil
}

// fetchRequest is what an OffsetFetch asks of one group.
type fetchRequest struct {
	groupID  string
	memberID *string
	epoch    int32 // -1 none
	stable   bool  // offsets that open transactions may change are errors (KIP-447)
	all      bool
	topics   []fetchTopic
}

type fetchTopic struct {
	name       string
	id         uuid.UUID // zero: not to be compared
	partitions []int32
}

// fetchedTopic is the answer for a topic, partitions in order.
type fetchedTopic struct {
	name       string
	id         uuid.UUID
	partitions []fetchedPartition
}

type fetchedPartition struct {
	partition int32
	offset    offset
	err       int16
}

// noOffset is the answer where nothing is committed.
var noOffset = offset{offset: -1, leaderEpoch: -1}

// fetch is OffsetFetch of one group, as the state is now.
func (s *shard) fetch(r *fetchRequest) ([]fetchedTopic, error) {
	group, known := s.groups[r.groupID]
	if g, ok := group.(*modernGroup); ok {
		if err := g.validateOffsets(r.memberID, r.epoch, false); err != nil {
			return nil, err
		}
	}
	var committed topicOffsets
	if known {
		committed = s.offsets.committed[r.groupID]
	}
	topics := r.topics
	if r.all {
		topics = nil
		for tp := range committed.all() {
			if len(topics) == 0 || topics[len(topics)-1].name != tp.topic {
				topics = append(topics, fetchTopic{name: tp.topic})
			}
			t := &topics[len(topics)-1]
			t.partitions = append(t.partitions, tp.partition)
		}
	}
	answer := make([]fetchedTopic, 0, len(topics))
	for _, t := range topics {
		a := fetchedTopic{t.name, t.id, make([]fetchedPartition, 0, len(t.partitions))}
		for _, p := range t.partitions {
			f := fetchedPartition{partition: p, offset: noOffset}
			if r.stable && s.offsets.hasPending(r.groupID, t.name, p) {
				f.err = kerr.UnstableOffsetCommit.Code
			} else if o, ok := committed.get(t.name, p); ok && o.usable(t.id) {
				f.offset = o
			}
			a.partitions = append(a.partitions, f)
		}
		answer = append(answer, a)
	}
	return answer, nil
}

// deleteOffsets is OffsetDelete of topics that exist: done gets an error by topic and partition.
func (s *shard) deleteOffsets(groupID string, topics []protocol.OffsetDeleteRequestTopic, done func([]protocol.OffsetDeleteResponseTopic, error)) {
	group, ok := s.groups[groupID]
	if !ok {
		done(nil, kerr.GroupIdNotFound)
		return
	}
	if g, ok := group.(*classicGroup); ok && !g.isEmpty() && !g.usesConsumerProtocol() {
		done(nil, kerr.NonEmptyGroup) // which topics it uses cannot be told
		return
	}
	var records []coordinator.Record
	answer := make([]protocol.OffsetDeleteResponseTopic, 0, len(topics))
	for _, t := range topics {
		a := protocol.NewOffsetDeleteResponseTopic()
		a.Name = t.Name
		inUse := group.subscribedTo(t.Name)
		for _, p := range t.Partitions {
			ap := protocol.NewOffsetDeleteResponsePartition()
			ap.PartitionIndex = p.PartitionIndex
			_, committed := s.offsets.committed[groupID].get(t.Name, p.PartitionIndex)
			switch {
			case inUse:
				ap.ErrorCode = kerr.GroupSubscribedToTopic.Code
			case committed || s.offsets.hasPending(groupID, t.Name, p.PartitionIndex):
				records = append(records, offsetTombstone(groupID, t.Name, p.PartitionIndex))
			}
			a.Partitions = append(a.Partitions, ap)
		}
		answer = append(answer, a)
	}
	s.rt.Write(records, func(err error) { done(answer, err) })
}

// deleteTopics removes the offsets of topics that are no more, of all groups. Offsets of another topic of that name stay.
func (s *shard) deleteTopics(topics []Topic) {
	var records []coordinator.Record
	for _, g := range s.sorted() {
		for _, tp := range s.offsets.allOf(g.groupID()) {
			i := slices.IndexFunc(topics, func(t Topic) bool { return t.Name == tp.topic })
			if i < 0 {
				continue
			}
			if o, ok := s.offsets.committed[g.groupID()].get(tp.topic, tp.partition); ok && !o.usable(topics[i].ID) {
				continue
			}
			records = append(records, offsetTombstone(g.groupID(), tp.topic, tp.partition))
		}
	}
	if len(records) == 0 {
		return
	}
	s.rt.Logger().Info("Deleting offsets of deleted topics", "tombstones", len(records))
	s.rt.Write(records, func(err error) {
		if err != nil {
			s.rt.Logger().Error("Could not delete offsets for deleted topics", "error", err)
		}
	})
}
