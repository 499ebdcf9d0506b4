package broker

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Replica ids that are no broker's.
const (
	consumerReplica  int32 = -1
	debuggingReplica int32 = -2
)

// specialTimestamps are the timestamps that stand for a position, with the version that brought each.
var specialTimestamps = map[int64]int16{
	replica.LatestTimestamp: 1, replica.EarliestTimestamp: 1, replica.MaxTimestamp: 7, replica.EarliestLocalTimestamp: 8,
	replica.LatestTieredTimestamp: 9, replica.EarliestPendingUploadTimestamp: 11,
}

// ListOffsets is key 2, versions 1–11. v2: isolation. v4: leader epochs (KIP-320). v7: the largest timestamp (KIP-734). v8: the
// earliest local offset (KIP-405). v9: the last tiered one (KIP-1005). v10: a time-out, for what is tiered (KIP-1075). v11: the
// earliest that is not tiered yet (KIP-1023). Path: partition → Partition.FindOffset. Errors of a partition: 42 named twice, 35 a
// position that the version does not know, 3 unknown, 6 not the leader, 74 and 75 leader epoch, 78 a new leader that does not know
// yet.
func (b *Broker) ListOffsets(ctx *rpc.Context, req *protocol.ListOffsetsRequest, respond func(*protocol.ListOffsetsResponse)) {
	resp := protocol.NewListOffsetsResponse()
	seen := map[replica.TopicPartition]int{}
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			seen[replica.TopicPartition{Topic: req.Topics[i].Name, Partition: p.PartitionIndex}]++
		}
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := protocol.ListOffsetsResponseListOffsetsTopicResponse{Name: t.Name}
		for j := range t.Partitions {
			tp := replica.TopicPartition{Topic: t.Name, Partition: t.Partitions[j].PartitionIndex}
			out.Partitions = append(out.Partitions, b.listOffset(ctx.APIVersion, req, tp, &t.Partitions[j], seen[tp] > 1))
		}
		resp.Topics = append(resp.Topics, out)
	}
	respond(resp)
}

func (b *Broker) listOffset(version int16, req *protocol.ListOffsetsRequest, tp replica.TopicPartition, p *protocol.ListOffsetsRequestListOffsetsPartition,
	twice bool) protocol.ListOffsetsResponseListOffsetsPartitionResponse {
	out := protocol.NewListOffsetsResponseListOffsetsPartitionResponse()
	out.PartitionIndex = p.PartitionIndex
	since, special := specialTimestamps[p.Timestamp]
	switch {
	case twice:
		out.ErrorCode = kerr.InvalidRequest.Code
		return out
	case p.Timestamp < 0 && (!special || version < since):
		out.ErrorCode = kerr.UnsupportedVersion.Code
		return out
	}
	part, err := b.data.Partition(tp)
	if err == nil {
		var found replica.TimestampOffset
		found, err = part.FindOffset(replica.OffsetQuery{
			Timestamp: p.Timestamp, CurrentLeaderEpoch: p.CurrentLeaderEpoch, Client: req.ReplicaId == consumerReplica,
			ReadCommitted: req.IsolationLevel == 1, AnyReplica: req.ReplicaId == debuggingReplica,
		})
		if err == nil {
			out.Timestamp, out.Offset, out.LeaderEpoch = found.Timestamp, found.Offset, found.LeaderEpoch
		}
	}
	if out.ErrorCode = kerr.Code(err); out.ErrorCode == kerr.OffsetNotAvailable.Code && version < 5 {
		out.ErrorCode = kerr.LeaderNotAvailable.Code
	}
	return out
}
