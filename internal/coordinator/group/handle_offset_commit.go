package group

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// OffsetCommit (8), versions 2-10: v5 without retention time, v6 leader epoch (KIP-320), v7 static members, v8 flexible,
// v9 member epoch and GROUP_ID_NOT_FOUND (KIP-848), v10 topic ids.
//
// Path: topics → shard.commit → the records are committed → respond.
// Errors in order: by partition UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID; then for all others NOT_COORDINATOR,
// COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND (v9+) or ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
// ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS; by partition OFFSET_METADATA_TOO_LARGE.
func (s *Service) OffsetCommit(ctx *rpc.Context, req *protocol.OffsetCommitRequest, respond func(*protocol.OffsetCommitResponse)) {
	resp := protocol.NewOffsetCommitResponse()
	resp.Topics = make([]protocol.OffsetCommitResponseTopic, 0, len(req.Topics))
	r := &commitRequest{
		groupID: req.GroupId, memberID: req.MemberId, instanceID: req.GroupInstanceId,
		generation: req.GenerationIdOrMemberEpoch, retentionMs: req.RetentionTimeMs, version: ctx.APIVersion,
	}
	// places says for each partition of r.topics where its answer is in resp.
	type place struct{ topic, partition int }
	var places [][]place
	for _, t := range req.Topics {
		topic, ok, unknown := s.findTopic(ctx.APIVersion >= 10, t.Name, t.TopicId)
		a := protocol.NewOffsetCommitResponseTopic()
		a.Name, a.TopicId = t.Name, t.TopicId
		c := commitTopic{name: topic.Name, id: topic.ID}
		var at []place
		for _, p := range t.Partitions {
			ap := protocol.NewOffsetCommitResponsePartition()
			ap.PartitionIndex = p.PartitionIndex
			switch {
			case !ok:
				ap.ErrorCode = unknown.Code
			case p.PartitionIndex < 0 || p.PartitionIndex >= topic.Partitions:
				ap.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				c.partitions = append(c.partitions, p)
				at = append(at, place{len(resp.Topics), len(a.Partitions)})
			}
			a.Partitions = append(a.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, a)
		if len(c.partitions) > 0 {
			r.topics, places = append(r.topics, c), append(places, at)
		}
	}
	if len(r.topics) == 0 {
		respond(resp)
		return
	}
	done := func(err error) {
		for i, t := range r.topics {
			for j, at := range places[i] {
				code := kerr.Code(err)
				if err == nil {
					code = t.errors[j]
				}
				resp.Topics[at.topic].Partitions[at.partition].ErrorCode = code
			}
		}
		respond(resp)
	}
	s.do("OffsetCommit", r.groupID, func(sh *shard) { sh.commit(r, done) }, done)
}

// findTopic finds the topic of a request that names it, or gives its id; the error is for when it is not there.
func (s *Service) findTopic(byID bool, name string, id [16]byte) (t Topic, ok bool, unknown *kerr.Error) {
	if byID {
		t, ok = s.topics.TopicByID(id)
		return t, ok, kerr.UnknownTopicId
	}
	t, ok = s.topics.TopicByName(name)
	return t, ok, kerr.UnknownTopicOrPartition
}
