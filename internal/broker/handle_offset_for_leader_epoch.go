package broker

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// OffsetForLeaderEpoch is key 23, versions 2–4 (KIP-101, KIP-279, KIP-320). v3: who asks. Path: partition → where the leader epoch
// ended, or the largest one below it. Errors of a partition: 3 unknown, 6 not the leader, 74 and 75 leader epoch.
func (b *Broker) OffsetForLeaderEpoch(_ *rpc.Context, req *protocol.OffsetForLeaderEpochRequest, respond func(*protocol.OffsetForLeaderEpochResponse)) {
	resp := protocol.NewOffsetForLeaderEpochResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := protocol.OffsetForLeaderEpochResponseOffsetForLeaderTopicResult{Topic: t.Topic}
		for _, p := range t.Partitions {
			r := protocol.NewOffsetForLeaderEpochResponseEpochEndOffset()
			r.Partition = p.Partition
			part, err := b.data.Partition(replica.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			if err == nil {
				r.LeaderEpoch, r.EndOffset, err = part.EndOfEpoch(p.CurrentLeaderEpoch, p.LeaderEpoch)
			}
			r.ErrorCode = kerr.Code(err)
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	respond(resp)
}
