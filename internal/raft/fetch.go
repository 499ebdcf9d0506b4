package raft

import (
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Fetch (key 1) of the metadata partition. v12 diverging epoch and snapshot id, KIP-595 and KIP-630; v13 topic ids; v15
// replica state; v17 directory id and endpoints, KIP-853; v18 high watermark, KIP-1166.
// check → place of the follower's log → acknowledge → respond, or wait until there is something.
// Errors in Kafka's order: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (topic; top level), INVALID_REQUEST (offsets),
// FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE.

type fetchRequest struct {
	version int16
	req     *protocol.FetchRequest
	respond func(*rpc.FetchReply)
}

func (fetchRequest) event() string { return "fetch" }

// waitingFetch has nothing to bring yet.
type waitingFetch struct {
	asked fetchRequest
	timer env.Timer
}

// Fetch gives a replica what it does not have yet, and takes the offset for an acknowledgement. Any goroutine.
func (q *Quorum) Fetch(ctx *rpc.Context, req *protocol.FetchRequest, respond func(*rpc.FetchReply)) {
	q.post(fetchRequest{ctx.APIVersion, req, respond})
}

func fetchError(code int16) *rpc.FetchReply {
	r := protocol.NewFetchResponse()
	r.ErrorCode = code
	return &rpc.FetchReply{Response: r, Release: func() {}}
}

func (q *Quorum) onFetchRequest(ev fetchRequest) {
	if !q.sameCluster(ev.req.ClusterId) {
		ev.respond(fetchError(kerr.InconsistentClusterId.Code))
		return
	}
	p := metadataPartition(ev.version, ev.req)
	if p == nil {
		ev.respond(fetchError(kerr.InvalidRequest.Code))
		return
	}
	if ev.req.MaxWaitMs < 0 || p.FetchOffset < 0 || p.LastFetchedEpoch < 0 || p.LastFetchedEpoch > p.CurrentLeaderEpoch {
		ev.respond(q.fetchReply(ev, kerr.InvalidRequest.Code))
		return
	}
	reply, something := q.tryFetch(ev, p)
	if something || ev.req.MaxWaitMs == 0 {
		ev.respond(reply)
		return
	}
	reply.Release()
	w := &waitingFetch{asked: ev}
	w.timer = q.queue.After(time.Duration(ev.req.MaxWaitMs)*time.Millisecond, "fetch-expired", func() { q.Handle(fetchExpired{w}) })
	q.waiting = append(q.waiting, w)
}

// metadataPartition is the one partition that a fetch here may name.
func metadataPartition(version int16, req *protocol.FetchRequest) *protocol.FetchRequestFetchPartition {
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != 0 {
		return nil
	}
	t := &req.Topics[0]
	if version >= 13 && t.TopicId != uuid.Metadata || version < 13 && t.Topic != Topic {
		return nil
	}
	return &t.Partitions[0]
}

// tryFetch makes the answer of now, and reports whether it says something.
func (q *Quorum) tryFetch(ev fetchRequest, p *protocol.FetchRequestFetchPartition) (*rpc.FetchReply, bool) {
	if code := q.checkLeaderRequest(p.CurrentLeaderEpoch); code != 0 {
		return q.fetchReply(ev, code), true
	}
	l := q.state.(*leader)
	where, at := q.disk.validate(p.FetchOffset, p.LastFetchedEpoch)
	if id, ok := q.disk.latestSnapshot(); ok && id != bootstrapID && p.FetchOffset == 0 {
		// An empty log and a snapshot: cheaper than the log, which may not begin at 0 anyway.
		where, at = below, position{id.Epoch, id.EndOffset}
	}
	reply := q.fetchReply(ev, 0)
	out := &reply.Response.Responses[0].Partitions[0]
	switch where {
	case diverged:
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = at.epoch, at.offset
		return reply, true
	case below:
		out.SnapshotId.Epoch, out.SnapshotId.EndOffset = at.epoch, at.offset
		return reply, true
	case valid:
	}
	replicaID := ev.req.ReplicaState.ReplicaId
	if ev.version < 15 {
		replicaID = ev.req.ReplicaId
	}
	q.replicaFetched(l, ReplicaKey{replicaID, p.ReplicaDirectoryId}, p.FetchOffset)
	if l.established {
		out.HighWatermark = q.highWatermark
	}
	something := p.HighWatermark < out.HighWatermark
	if p.FetchOffset < l.durable {
		region, err := q.disk.Read(p.FetchOffset, q.fetchBytes(ev.req, p))
		if err != nil {
			q.log.Error("read metadata log for a fetch", "offset", p.FetchOffset, "err", err)
			return q.fetchReply(ev, kerr.UnknownServerError.Code), true
		}
		if region.Part.Size() > 0 {
			out.Records = nil
			reply.External = []env.Part{region.Part}
			reply.Release = region.Release
			return reply, true
		}
		region.Release()
	}
	return reply, something
}

func (q *Quorum) fetchBytes(req *protocol.FetchRequest, p *protocol.FetchRequestFetchPartition) int {
	return int(max(min(req.MaxBytes, p.PartitionMaxBytes, int32(DefaultMaxBatchBytes)), 1))
}

// checkLeaderRequest is what requests to the leader have in common.
func (q *Quorum) checkLeaderRequest(epoch int32) int16 {
	_, leads := q.state.(*leader)
	switch {
	case epoch < q.election.Epoch:
		return kerr.FencedLeaderEpoch.Code
	case epoch > q.election.Epoch:
		return kerr.UnknownLeaderEpoch.Code
	case !leads:
		return kerr.NotLeaderOrFollower.Code
	case q.stopping != nil:
		return kerr.BrokerNotAvailable.Code
	}
	return 0
}

// fetchReply is an answer without records.
func (q *Quorum) fetchReply(ev fetchRequest, code int16) *rpc.FetchReply {
	p := protocol.NewFetchResponsePartitionData()
	p.ErrorCode, p.HighWatermark = code, -1
	if code == 0 {
		p.LogStartOffset = q.disk.StartOffset()
	}
	p.CurrentLeader.LeaderId, p.CurrentLeader.LeaderEpoch = q.election.LeaderID, q.election.Epoch
	p.Records = []byte{}
	topic := protocol.NewFetchResponseFetchableTopicResponse()
	topic.Topic, topic.TopicId = Topic, uuid.Metadata
	topic.Partitions = append(topic.Partitions, p)
	r := protocol.NewFetchResponse()
	r.Responses = append(r.Responses, topic)
	if e, ok := q.leaderEndpoint(); ok && ev.version >= 17 {
		r.NodeEndpoints = append(r.NodeEndpoints, protocol.FetchResponseNodeEndpoint{NodeId: q.election.LeaderID, Host: e.Host, Port: int32(e.Port)})
	}
	return &rpc.FetchReply{Response: r, Release: func() {}}
}

// wakeFetches answers the waiting fetches for which there is something; all of them if this node no longer leads.
func (q *Quorum) wakeFetches(all bool) {
	waiting := q.waiting
	q.waiting = nil
	for _, w := range waiting {
		p := metadataPartition(w.asked.version, w.asked.req)
		if all {
			w.timer.Stop()
			w.asked.respond(q.fetchReply(w.asked, kerr.NotLeaderOrFollower.Code))
			continue
		}
		l, ok := q.state.(*leader)
		if !ok || p.FetchOffset < l.durable || l.established && p.HighWatermark < q.highWatermark {
			w.timer.Stop()
			reply, _ := q.tryFetch(w.asked, p)
			w.asked.respond(reply)
			continue
		}
		q.waiting = append(q.waiting, w)
	}
}

type fetchExpired struct{ w *waitingFetch }

func (fetchExpired) event() string { return "fetch-expired" }

func (q *Quorum) onFetchExpired(ev fetchExpired) {
	for i, w := range q.waiting {
		if w == ev.w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			reply, _ := q.tryFetch(w.asked, metadataPartition(w.asked.version, w.asked.req))
			w.asked.respond(reply)
			return
		}
	}
}
