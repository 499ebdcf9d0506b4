package broker

import (
	"errors"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
)

// debuggingReplica is the replica id of those who may ask any replica.
const debuggingReplica = -2

// ListOffsets is key 2, versions 1–11. v2: isolation level. v4: leader epochs. v5: error 78. v7: timestamp -3 (KIP-734). v8: -4 (KIP-405). v9: -5
// (KIP-1005). v10: timeout, for tiered logs. v11: -6 (KIP-1023). Path: partition → log → answer. Offset and timestamp are -1, without error, if
// there is no such record.
//
// Errors of a partition, in this order: 42 named twice, 35 a timestamp that the version does not have, 3 unknown, 6 another broker's, 74 or
// 75 leader epoch, 56 its directory failed, 6 not the leader, 78 (5 before v5) the high watermark of a new leader is not known yet.
func (b *Broker) ListOffsets(ctx *rpc.Context, req *protocol.ListOffsetsRequest, respond func(*protocol.ListOffsetsResponse)) {
	resp := protocol.NewListOffsetsResponse()
	resp.Topics = make([]protocol.ListOffsetsResponseListOffsetsTopicResponse, len(req.Topics))
	twice := duplicates(req)
	for i := range req.Topics {
		t, r := &req.Topics[i], &resp.Topics[i]
		r.Name = t.Name
		r.Partitions = make([]protocol.ListOffsetsResponseListOffsetsPartitionResponse, 0, len(t.Partitions))
		for j := range t.Partitions {
			tp := replica.TopicPartition{Topic: t.Name, Partition: t.Partitions[j].PartitionIndex}
			answer := protocol.NewListOffsetsResponseListOffsetsPartitionResponse()
			answer.PartitionIndex = tp.Partition
			switch again, ok := twice[tp]; {
			case ok && again:
				answer.ErrorCode = kerr.InvalidRequest.Code
				delete(twice, tp)
			case !ok:
				continue // it has its answer
			default:
				b.listOffset(ctx.APIVersion, req, &t.Partitions[j], tp, &answer)
			}
			r.Partitions = append(r.Partitions, answer)
		}
	}
	respond(resp)
}

// duplicates says of the partitions of a request whether it names them twice.
func duplicates(req *protocol.ListOffsetsRequest) map[replica.TopicPartition]bool {
	seen := map[replica.TopicPartition]bool{}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			tp := replica.TopicPartition{Topic: req.Topics[i].Name, Partition: req.Topics[i].Partitions[j].PartitionIndex}
			_, again := seen[tp]
			seen[tp] = again
		}
	}
	return seen
}

func (b *Broker) listOffset(version int16, req *protocol.ListOffsetsRequest, p *protocol.ListOffsetsRequestListOffsetsPartition,
	tp replica.TopicPartition, answer *protocol.ListOffsetsResponseListOffsetsPartitionResponse) {
	found, err := b.findOffset(version, req, tp, p)
	if err != nil {
		answer.ErrorCode = kerr.Code(err)
		return
	}
	answer.Timestamp, answer.Offset = found.Timestamp, found.Offset
	if version >= 4 {
		answer.LeaderEpoch = found.LeaderEpoch
	}
}

func (b *Broker) findOffset(version int16, req *protocol.ListOffsetsRequest, tp replica.TopicPartition,
	p *protocol.ListOffsetsRequestListOffsetsPartition) (replica.TimestampOffset, error) {
	if !timestampKnown(p.Timestamp, version) {
		return replica.TimestampOffset{}, kerr.UnsupportedVersion
	}
	partition, err := b.data.Partition(tp)
	if err != nil {
		return replica.TimestampOffset{}, err
	}
	found, err := partition.FindOffset(replica.OffsetQuery{
		Timestamp: p.Timestamp, CurrentLeaderEpoch: p.CurrentLeaderEpoch, Client: req.ReplicaId == -1, ReadCommitted: req.IsolationLevel == 1,
		AnyReplica: req.ReplicaId == debuggingReplica,
	})
	if version < 5 && errors.Is(err, kerr.OffsetNotAvailable) {
		err = kerr.LeaderNotAvailable // older clients do not know the other
	}
	return found, err
}

// timestampKnown: negative timestamps are names of positions, and came one after the other.
func timestampKnown(timestamp int64, version int16) bool {
	switch timestamp {
	case replica.LatestTimestamp, replica.EarliestTimestamp:
		return true
	case replica.MaxTimestamp:
		return version >= 7
	case replica.EarliestLocalTimestamp:
		return version >= 8
	case replica.LatestTieredTimestamp:
		return version >= 9
	case replica.EarliestPendingUploadTimestamp:
		return version >= 11
	}
	return timestamp >= 0
}
