package group

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// OffsetDelete (47), version 0 (KIP-496).
//
// Errors in order: by partition UNKNOWN_TOPIC_OR_PARTITION; INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
// GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (not of consumers); by partition GROUP_SUBSCRIBED_TO_TOPIC.
func (s *Service) OffsetDelete(_ *rpc.Context, req *protocol.OffsetDeleteRequest, respond func(*protocol.OffsetDeleteResponse)) {
	answer := func(topics []protocol.OffsetDeleteResponseTopic, err error) {
		resp := protocol.NewOffsetDeleteResponse()
		resp.ErrorCode = kerr.Code(err)
		if err == nil {
			resp.Topics = topics
		}
		respond(resp)
	}
	if req.GroupId == "" {
		answer(nil, kerr.InvalidGroupId)
		return
	}
	var known []protocol.OffsetDeleteRequestTopic
	var unknown []protocol.OffsetDeleteResponseTopic
	for _, t := range req.Topics {
		topic, ok := s.topics.TopicByName(t.Name)
		k := protocol.NewOffsetDeleteRequestTopic()
		k.Name = t.Name
		u := protocol.NewOffsetDeleteResponseTopic()
		u.Name = t.Name
		for _, p := range t.Partitions {
			if ok && p.PartitionIndex >= 0 && p.PartitionIndex < topic.Partitions {
				k.Partitions = append(k.Partitions, p)
				continue
			}
			up := protocol.NewOffsetDeleteResponsePartition()
			up.PartitionIndex, up.ErrorCode = p.PartitionIndex, kerr.UnknownTopicOrPartition.Code
			u.Partitions = append(u.Partitions, up)
		}
		if len(k.Partitions) > 0 {
			known = append(known, k)
		}
		if len(u.Partitions) > 0 {
			unknown = append(unknown, u)
		}
	}
	s.do("OffsetDelete", req.GroupId, func(sh *shard) {
		sh.deleteOffsets(req.GroupId, known, func(topics []protocol.OffsetDeleteResponseTopic, err error) {
			answer(mergeTopics(topics, unknown), err)
		})
	}, func(err error) { answer(nil, err) })
}

// mergeTopics adds answers of the same topic together.
func mergeTopics(to, from []protocol.OffsetDeleteResponseTopic) []protocol.OffsetDeleteResponseTopic {
next:
	for _, f := range from {
		for i := range to {
			if to[i].Name == f.Name {
				to[i].Partitions = append(to[i].Partitions, f.Partitions...)
				continue next
			}
		}
		to = append(to, f)
	}
	return to
}
