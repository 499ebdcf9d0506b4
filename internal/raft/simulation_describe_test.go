package raft

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/protocol/wire"
)

// describeFrame tells what a request is, for the trace of a seed that is looked at alone. Answers begin with a small number, which no
// key of a request here looks like; they stay what they are.
func describeFrame(frame []byte) string {
	const other = "answer"
	if len(frame) < 8 || frame[0] != 0 || frame[1] == 0 {
		return other
	}
	key, version := int16(frame[1]), int16(frame[2])<<8|int16(frame[3])
	req := protocol.NewRequest(key)
	h, d := protocol.NewRequestHeader(), wire.NewDecoder(append([]byte(nil), frame...))
	if req == nil || h.Decode(d, protocol.RequestHeaderVersion(key, version)) != nil || req.Decode(d, version) != nil {
		return other
	}
	switch r := req.(type) {
	case *protocol.VoteRequest:
		p := &r.Topics[0].Partitions[0]
		return fmt.Sprintf("Vote(preVote=%t epoch=%d end=%d@%d)", p.PreVote, p.ReplicaEpoch, p.LastOffset, p.LastOffsetEpoch)
	case *protocol.BeginQuorumEpochRequest:
		return fmt.Sprintf("BeginQuorumEpoch(epoch=%d)", r.Topics[0].Partitions[0].LeaderEpoch)
	case *protocol.EndQuorumEpochRequest:
		return fmt.Sprintf("EndQuorumEpoch(epoch=%d)", r.Topics[0].Partitions[0].LeaderEpoch)
	case *protocol.FetchRequest:
		p := &r.Topics[0].Partitions[0]
		return fmt.Sprintf("Fetch(epoch=%d end=%d@%d highWatermark=%d)", p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch, p.HighWatermark)
	case *protocol.FetchSnapshotRequest:
		p := &r.Topics[0].Partitions[0]
		return fmt.Sprintf("FetchSnapshot(epoch=%d %d@%d from %d)", p.CurrentLeaderEpoch, p.SnapshotId.EndOffset, p.SnapshotId.Epoch, p.Position)
	case *protocol.ApiVersionsRequest:
		return "ApiVersions"
	}
	return other
}
