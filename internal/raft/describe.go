package raft

import (
	"cmp"
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// DescribeQuorum (key 55). v0 KIP-642; v1 timestamps, KIP-836; v2 directory ids, endpoints and messages, KIP-853.
// Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, both of the partition.

type describeRequest struct {
	version int16
	req     *protocol.DescribeQuorumRequest
	respond func(*protocol.DescribeQuorumResponse)
}

func (describeRequest) event() string { return "describe" }

// DescribeQuorum tells what the leader knows of voters and observers. Any goroutine.
func (q *Quorum) DescribeQuorum(ctx *rpc.Context, req *protocol.DescribeQuorumRequest, respond func(*protocol.DescribeQuorumResponse)) {
	q.post(describeRequest{ctx.APIVersion, req, respond})
}

func describeError(code int16) *protocol.DescribeQuorumResponse {
	r := protocol.NewDescribeQuorumResponse()
	r.ErrorCode = code
	return r
}

func (q *Quorum) onDescribeRequest(ev describeRequest) {
	l, leads := q.state.(*leader)
	valid := len(ev.req.Topics) == 1 && ev.req.Topics[0].TopicName == Topic && len(ev.req.Topics[0].Partitions) == 1 && ev.req.Topics[0].Partitions[0].PartitionIndex == 0
	r := protocol.NewDescribeQuorumResponse()
	switch {
	case !valid:
		for _, t := range ev.req.Topics {
			out := protocol.DescribeQuorumResponseTopicData{TopicName: t.TopicName}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, partitionError(p.PartitionIndex, kerr.UnknownTopicOrPartition, "This server does not host this topic-partition."))
			}
			r.Topics = append(r.Topics, out)
		}
	case !leads:
		r.Topics = []protocol.DescribeQuorumResponseTopicData{{TopicName: Topic, Partitions: []protocol.DescribeQuorumResponsePartitionData{
			partitionError(0, kerr.NotLeaderOrFollower, notLeaderMessage),
		}}}
	default:
		q.describe(l, ev.version, r)
	}
	ev.respond(r)
}

func partitionError(index int32, e *kerr.Error, message string) protocol.DescribeQuorumResponsePartitionData {
	p := protocol.NewDescribeQuorumResponsePartitionData()
	p.PartitionIndex, p.ErrorCode, p.ErrorMessage = index, e.Code, &message
	return p
}

func (q *Quorum) describe(l *leader, version int16, r *protocol.DescribeQuorumResponse) {
	p := protocol.NewDescribeQuorumResponsePartitionData()
	p.LeaderId, p.LeaderEpoch, p.HighWatermark = q.cfg.NodeID, q.election.Epoch, -1
	if l.established {
		p.HighWatermark = q.highWatermark
	}
	state := func(rep *replica) protocol.DescribeQuorumResponseReplicaState {
		s := protocol.DescribeQuorumResponseReplicaState{
			ReplicaId: rep.key.ID, LogEndOffset: rep.end, LastFetchTimestamp: rep.lastFetch, LastCaughtUpTimestamp: rep.lastCaughtUp,
		}
		if rep.key.ID == q.cfg.NodeID {
			now := q.env.Now().UnixMilli()
			s.LastFetchTimestamp, s.LastCaughtUpTimestamp = now, now
		}
		if version >= 2 {
			s.ReplicaDirectoryId = rep.key.DirectoryID
		}
		return s
	}
	for _, rep := range l.replicas {
		p.CurrentVoters = append(p.CurrentVoters, state(rep))
	}
	q.forgetObservers(l)
	for _, rep := range l.observers {
		p.Observers = append(p.Observers, state(rep))
	}
	slices.SortFunc(p.Observers, func(a, b protocol.DescribeQuorumResponseReplicaState) int {
		return cmp.Or(cmp.Compare(a.ReplicaId, b.ReplicaId), slices.Compare(dirBytes(a.ReplicaDirectoryId), dirBytes(b.ReplicaDirectoryId)))
	})
	r.Topics = []protocol.DescribeQuorumResponseTopicData{{TopicName: Topic, Partitions: []protocol.DescribeQuorumResponsePartitionData{p}}}
	if version < 2 {
		return
	}
	for _, v := range q.voters().All() {
		n := protocol.DescribeQuorumResponseNode{NodeId: v.Key.ID}
		for _, e := range v.Endpoints {
			n.Listeners = append(n.Listeners, protocol.DescribeQuorumResponseListener{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		r.Nodes = append(r.Nodes, n)
	}
}

func dirBytes(id uuid.UUID) []byte { return id[:] }
