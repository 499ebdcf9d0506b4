package broker

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// OffsetForLeaderEpoch is key 23, versions 2–4 (KIP-101, for consumers KIP-320). v3: replica id. v4 is flexible. Path: partition → leader epochs of
// the log → the largest epoch up to the one asked for, and where it ended; both are -1 if there is none.
//
// Errors of a partition, in this order: 3 unknown, 6 another broker's, 74 or 75 leader epoch, 56 its directory failed, 6 not the leader.
func (b *Broker) OffsetForLeaderEpoch(_ *rpc.Context, req *protocol.OffsetForLeaderEpochRequest, respond func(*protocol.OffsetForLeaderEpochResponse)) {
	resp := protocol.NewOffsetForLeaderEpochResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		r := protocol.OffsetForLeaderEpochResponseOffsetForLeaderTopicResult{Topic: t.Topic}
		for _, p := range t.Partitions {
			answer := protocol.NewOffsetForLeaderEpochResponseEpochEndOffset()
			answer.Partition = p.Partition
			partition, err := b.data.Partition(replica.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			if err == nil {
				answer.LeaderEpoch, answer.EndOffset, err = partition.EndOfEpoch(p.CurrentLeaderEpoch, p.LeaderEpoch)
			}
			answer.ErrorCode = kerr.Code(err)
			r.Partitions = append(r.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, r)
	}
	respond(resp)
}
