package group

import (
	"errors"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// OffsetFetch (9), versions 1-10: v2 null topics for all, and an error of the group; v5 leader epoch (KIP-320); v6 flexible;
// v7 only stable offsets (KIP-447); v8 several groups (KIP-709); v9 member epoch (KIP-848); v10 topic ids.
//
// Path: shard.fetch → all that was written before is committed → respond.
// Errors in order: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; by partition
// UNKNOWN_TOPIC_ID, UNSTABLE_OFFSET_COMMIT. An unknown group has no offsets, which is no error.
func (s *Service) OffsetFetch(ctx *rpc.Context, req *protocol.OffsetFetchRequest, respond func(*protocol.OffsetFetchResponse)) {
	if ctx.APIVersion < 8 {
		s.fetchOneGroup(ctx.APIVersion, req, respond)
		return
	}
	byID := ctx.APIVersion >= 10
	all := newGather(len(req.Groups), func(groups []protocol.OffsetFetchResponseGroup) {
		resp := protocol.NewOffsetFetchResponse()
		resp.Groups = groups
		respond(resp)
	})
	for i, g := range req.Groups {
		r := &fetchRequest{groupID: g.GroupId, memberID: g.MemberId, epoch: g.MemberEpoch, stable: req.RequireStable, all: g.Topics == nil}
		var unknown []protocol.OffsetFetchResponseTopics
		for _, t := range g.Topics {
			f := fetchTopic{name: t.Name, partitions: t.PartitionIndexes}
			if byID {
				topic, ok := s.topics.TopicByID(t.TopicId)
				if !ok {
					unknown = append(unknown, unknownTopic(t.TopicId, t.PartitionIndexes))
					continue
				}
				f.name, f.id = topic.Name, topic.ID
			} else if topic, ok := s.topics.TopicByName(t.Name); ok {
				f.id = topic.ID
			}
			r.topics = append(r.topics, f)
		}
		s.fetchGroup(r, func(topics []fetchedTopic, err error) {
			a := protocol.NewOffsetFetchResponseGroup()
			a.GroupId, a.ErrorCode = r.groupID, kerr.Code(err)
			if err == nil {
				a.Topics = make([]protocol.OffsetFetchResponseTopics, 0, len(topics)+len(unknown))
				for _, t := range topics {
					if at, ok := s.fetched(t, byID); ok {
						a.Topics = append(a.Topics, at)
					}
				}
				a.Topics = append(a.Topics, unknown...)
			}
			all.set(i, a)
		})
	}
}

// fetched is a topic's answer. Of all topics, those that are asked for by id and are no more are left out.
func (s *Service) fetched(t fetchedTopic, byID bool) (protocol.OffsetFetchResponseTopics, bool) {
	a := protocol.NewOffsetFetchResponseTopics()
	a.Name, a.TopicId = t.name, t.id
	if byID && a.TopicId == uuid.Zero {
		topic, ok := s.topics.TopicByName(t.name)
		if !ok {
			return a, false
		}
		a.TopicId = topic.ID
	}
	for _, p := range t.partitions {
		ap := protocol.NewOffsetFetchResponsePartitions()
		ap.PartitionIndex, ap.ErrorCode = p.partition, p.err
		ap.CommittedOffset, ap.CommittedLeaderEpoch = p.offset.offset, p.offset.leaderEpoch
		ap.Metadata = &p.offset.metadata
		a.Partitions = append(a.Partitions, ap)
	}
	return a, true
}

func unknownTopic(id uuid.UUID, partitions []int32) protocol.OffsetFetchResponseTopics {
	a := protocol.NewOffsetFetchResponseTopics()
	a.TopicId = id
	for _, p := range partitions {
		ap := protocol.NewOffsetFetchResponsePartitions()
		ap.PartitionIndex, ap.CommittedOffset, ap.ErrorCode = p, -1, kerr.UnknownTopicId.Code
		ap.Metadata = new(string)
		a.Partitions = append(a.Partitions, ap)
	}
	return a
}

// fetchOneGroup is the form up to v7.
func (s *Service) fetchOneGroup(version int16, req *protocol.OffsetFetchRequest, respond func(*protocol.OffsetFetchResponse)) {
	r := &fetchRequest{groupID: req.GroupId, epoch: -1, stable: req.RequireStable, all: version >= 2 && req.Topics == nil}
	for _, t := range req.Topics {
		f := fetchTopic{name: t.Name, partitions: t.PartitionIndexes}
		if topic, ok := s.topics.TopicByName(t.Name); ok {
			f.id = topic.ID
		}
		r.topics = append(r.topics, f)
	}
	s.fetchGroup(r, func(topics []fetchedTopic, err error) {
		resp := protocol.NewOffsetFetchResponse()
		switch {
		case err != nil && version >= 2:
			resp.ErrorCode = kerr.Code(err)
			topics = nil
		case err != nil: // v1 has errors by partition only
			topics = nil
			for _, t := range r.topics {
				a := fetchedTopic{name: t.name}
				for _, p := range t.partitions {
					a.partitions = append(a.partitions, fetchedPartition{p, noOffset, kerr.Code(err)})
				}
				topics = append(topics, a)
			}
		}
		resp.Topics = make([]protocol.OffsetFetchResponseTopic, 0, len(topics))
		for _, t := range topics {
			a := protocol.NewOffsetFetchResponseTopic()
			a.Name = t.name
			for _, p := range t.partitions {
				ap := protocol.NewOffsetFetchResponsePartition()
				ap.PartitionIndex, ap.ErrorCode = p.partition, p.err
				ap.CommittedOffset, ap.CommittedLeaderEpoch = p.offset.offset, p.offset.leaderEpoch
				ap.Metadata = &p.offset.metadata
				a.Partitions = append(a.Partitions, ap)
			}
			resp.Topics = append(resp.Topics, a)
		}
		respond(resp)
	})
}

// fetchGroup reads the offsets of a group and answers when what it has read is committed: an offset that was seen
// once never goes back.
func (s *Service) fetchGroup(r *fetchRequest, done func([]fetchedTopic, error)) {
	s.do("OffsetFetch", r.groupID, func(sh *shard) {
		topics, err := sh.fetch(r)
		if err != nil {
			done(nil, err)
			return
		}
		sh.rt.WhenCommitted(func(err error) {
			if errors.Is(err, kerr.CoordinatorNotAvailable) {
				err = kerr.NotCoordinator // which consumers before 3.9 retry, and this one they do not
			}
			done(topics, err)
		})
	}, func(err error) { done(nil, err) })
}
