package raft

import (
	"fmt"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// BeginQuorumEpoch (key 53): the leader of a new epoch tells the voters. EndQuorumEpoch (key 54): a leader that resigns
// tells them, and who has most of its log. v0 KIP-595; v1 directory ids and endpoints, KIP-853.
// Errors in Kafka's order: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (topic; top level), FENCED_LEADER_EPOCH,
// INVALID_REQUEST, INVALID_VOTER_KEY.

type beginEpochRequest struct {
	version int16
	req     *protocol.BeginQuorumEpochRequest
	respond func(*protocol.BeginQuorumEpochResponse)
}

func (beginEpochRequest) event() string { return "begin-epoch" }

// BeginQuorumEpoch learns of a leader. Any goroutine.
func (q *Quorum) BeginQuorumEpoch(ctx *rpc.Context, req *protocol.BeginQuorumEpochRequest, respond func(*protocol.BeginQuorumEpochResponse)) {
	q.post(beginEpochRequest{ctx.APIVersion, req, respond})
}

func beginEpochError(code int16) *protocol.BeginQuorumEpochResponse {
	r := protocol.NewBeginQuorumEpochResponse()
	r.ErrorCode = code
	return r
}

func (q *Quorum) onBeginEpochRequest(ev beginEpochRequest) {
	ev.respond(q.answerBeginEpoch(ev.version, ev.req))
}

func (q *Quorum) answerBeginEpoch(version int16, req *protocol.BeginQuorumEpochRequest) *protocol.BeginQuorumEpochResponse {
	if !q.sameCluster(req.ClusterId) {
		return beginEpochError(kerr.InconsistentClusterId.Code)
	}
	if len(req.Topics) != 1 || req.Topics[0].TopicName != Topic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].PartitionIndex != 0 {
		return beginEpochError(kerr.InvalidRequest.Code)
	}
	p := &req.Topics[0].Partitions[0]
	code := q.checkVoterRequest(p.LeaderId, p.LeaderEpoch)
	if code == 0 {
		var endpoints []Endpoint
		for _, e := range req.LeaderEndpoints {
			endpoints = append(endpoints, Endpoint{e.Name, e.Host, e.Port})
		}
		if len(endpoints) == 0 {
			endpoints = q.endpointsOf(p.LeaderId)
		}
		if !q.maybeTransition(p.LeaderId, p.LeaderEpoch, endpoints) {
			code = kerr.InvalidRequest.Code
		} else if !q.meant(req.VoterId, p.VoterDirectoryId) {
			code = kerr.InvalidVoterKey.Code
		}
	}
	if q.failed {
		return beginEpochError(brokerNotAvailable)
	}
	r := protocol.NewBeginQuorumEpochResponse()
	r.Topics = []protocol.BeginQuorumEpochResponseTopicData{{
		TopicName:  Topic,
		Partitions: []protocol.BeginQuorumEpochResponsePartitionData{{ErrorCode: code, LeaderId: q.election.LeaderID, LeaderEpoch: q.election.Epoch}},
	}}
	if e, ok := q.leaderEndpoint(); ok && version >= 1 {
		r.NodeEndpoints = []protocol.BeginQuorumEpochResponseNodeEndpoint{{NodeId: q.election.LeaderID, Host: e.Host, Port: e.Port}}
	}
	return r
}

// sendBeginEpoch tells one voter that we lead.
func (q *Quorum) sendBeginEpoch(l *leader, id int32) {
	voter := q.voters().Get(id)
	if id == q.cfg.NodeID || voter == nil || l.asked[id] {
		return
	}
	to, ok := q.destination(id, voter.Endpoints)
	if !ok {
		return
	}
	l.asked[id] = true
	req := protocol.NewBeginQuorumEpochRequest()
	req.ClusterId, req.VoterId = &q.cfg.ClusterID, id
	req.Topics = []protocol.BeginQuorumEpochRequestTopicData{{
		TopicName: Topic,
		Partitions: []protocol.BeginQuorumEpochRequestPartitionData{{
			VoterDirectoryId: voter.Key.DirectoryID, LeaderId: q.cfg.NodeID, LeaderEpoch: q.election.Epoch,
		}},
	}}
	for _, e := range q.cfg.Listeners {
		req.LeaderEndpoints = append(req.LeaderEndpoints, protocol.BeginQuorumEpochRequestLeaderEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	generation := q.generation
	q.send(to, req, 1, func(resp protocol.Response, err error) Event {
		r, _ := resp.(*protocol.BeginQuorumEpochResponse)
		return beginEpochResponse{generation, id, r, err}
	})
}

type beginEpochResponse struct {
	generation uint64
	from       int32
	resp       *protocol.BeginQuorumEpochResponse
	err        error
}

func (beginEpochResponse) event() string { return "begin-epoch-response" }

func (q *Quorum) onBeginEpochResponse(ev beginEpochResponse) {
	l, ok := q.state.(*leader)
	if ok = ok && ev.generation == q.generation; ok {
		delete(l.asked, ev.from)
	}
	if ev.err == nil && ev.resp != nil && ev.resp.ErrorCode == 0 && len(ev.resp.Topics) == 1 && len(ev.resp.Topics[0].Partitions) == 1 {
		p := &ev.resp.Topics[0].Partitions[0]
		q.common(p.ErrorCode, p.LeaderId, p.LeaderEpoch, nil)
		if ok && ev.generation == q.generation && p.ErrorCode == 0 {
			for _, r := range l.replicas {
				r.acknowledged = r.acknowledged || r.key.ID == ev.from
			}
			return
		}
	}
	// Whoever has not heard of us by then is told again by the timer of the epoch.
}

type endEpochRequest struct {
	version int16
	req     *protocol.EndQuorumEpochRequest
	respond func(*protocol.EndQuorumEpochResponse)
}

func (endEpochRequest) event() string { return "end-epoch" }

// EndQuorumEpoch learns that a leader has resigned. Any goroutine.
func (q *Quorum) EndQuorumEpoch(ctx *rpc.Context, req *protocol.EndQuorumEpochRequest, respond func(*protocol.EndQuorumEpochResponse)) {
	q.post(endEpochRequest{ctx.APIVersion, req, respond})
}

func endEpochError(code int16) *protocol.EndQuorumEpochResponse {
	r := protocol.NewEndQuorumEpochResponse()
	r.ErrorCode = code
	return r
}

func (q *Quorum) onEndEpochRequest(ev endEpochRequest) {
	ev.respond(q.answerEndEpoch(ev.version, ev.req))
}

func (q *Quorum) answerEndEpoch(version int16, req *protocol.EndQuorumEpochRequest) *protocol.EndQuorumEpochResponse {
	if !q.sameCluster(req.ClusterId) {
		return endEpochError(kerr.InconsistentClusterId.Code)
	}
	if len(req.Topics) != 1 || req.Topics[0].TopicName != Topic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].PartitionIndex != 0 {
		return endEpochError(kerr.InvalidRequest.Code)
	}
	p := &req.Topics[0].Partitions[0]
	code := q.checkVoterRequest(p.LeaderId, p.LeaderEpoch)
	if code == 0 {
		endpoints := q.endpointsOf(p.LeaderId)
		if len(req.LeaderEndpoints) > 0 {
			endpoints = nil
			for _, e := range req.LeaderEndpoints {
				endpoints = append(endpoints, Endpoint{e.Name, e.Host, e.Port})
			}
		}
		if !q.maybeTransition(p.LeaderId, p.LeaderEpoch, endpoints) {
			code = kerr.InvalidRequest.Code
		} else if f, ok := q.state.(*follower); ok && q.election.LeaderID == p.LeaderId && q.isVoter() {
			q.voteSoon(f, p)
		}
	}
	if q.failed {
		return endEpochError(brokerNotAvailable)
	}
	r := protocol.NewEndQuorumEpochResponse()
	r.Topics = []protocol.EndQuorumEpochResponseTopicData{{
		TopicName:  Topic,
		Partitions: []protocol.EndQuorumEpochResponsePartitionData{{ErrorCode: code, LeaderId: q.election.LeaderID, LeaderEpoch: q.election.Epoch}},
	}}
	if e, ok := q.leaderEndpoint(); ok && version >= 1 {
		r.NodeEndpoints = []protocol.EndQuorumEpochResponseNodeEndpoint{{NodeId: q.election.LeaderID, Host: e.Host, Port: e.Port}}
	}
	return r
}

// voteSoon lets the election of a successor begin: at once for the voter with most of the log, later for the others.
func (q *Quorum) voteSoon(f *follower, p *protocol.EndQuorumEpochRequestPartitionData) {
	var order []int32
	for _, c := range p.PreferredCandidates {
		order = append(order, c.CandidateId)
	}
	if len(order) == 0 {
		order = p.PreferredSuccessors
	}
	wait := q.cfg.ElectionBackoffMax
	if i := slices.Index(order, q.cfg.NodeID); i == 0 {
		wait = 0
	} else if i > 0 {
		// The longer it is behind in the order, the longer it waits, and never as long as two would wait the same.
		ceiling := min(int64(q.cfg.ElectionBackoffMax/time.Millisecond), int64(q.cfg.RetryBackoff/time.Millisecond)<<min(i, 20))
		if ceiling > 1 {
			ceiling = ceiling/2 + int64(q.env.Rand().IntN(int(ceiling/2+1)))
		}
		wait = time.Duration(ceiling) * time.Millisecond
	}
	q.log.Debug(fmt.Sprintf("Overriding follower fetch timeout to %d after receiving EndQuorumEpoch request from leader %d in epoch %d",
		wait.Milliseconds(), p.LeaderId, p.LeaderEpoch))
	f.fetchBy = q.env.Monotonic() + wait
	f.resigned = true
	q.after(wait, fetchTimeout{q.generation})
}

// sendEndEpoch tells the voters that have not acknowledged it that we resigned.
func (q *Quorum) sendEndEpoch(s *resigned) {
	for _, id := range s.unacked {
		voter := q.voters().Get(id)
		if voter == nil || s.asked[id] {
			continue
		}
		to, ok := q.destination(id, voter.Endpoints)
		if !ok {
			continue
		}
		s.asked[id] = true
		req := protocol.NewEndQuorumEpochRequest()
		req.ClusterId = &q.cfg.ClusterID
		p := protocol.EndQuorumEpochRequestPartitionData{LeaderId: q.cfg.NodeID, LeaderEpoch: q.election.Epoch}
		for _, k := range s.preferred {
			p.PreferredCandidates = append(p.PreferredCandidates, protocol.EndQuorumEpochRequestReplicaInfo{CandidateId: k.ID, CandidateDirectoryId: k.DirectoryID})
		}
		req.Topics = []protocol.EndQuorumEpochRequestTopicData{{TopicName: Topic, Partitions: []protocol.EndQuorumEpochRequestPartitionData{p}}}
		for _, e := range q.cfg.Listeners {
			req.LeaderEndpoints = append(req.LeaderEndpoints, protocol.EndQuorumEpochRequestLeaderEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		generation := q.generation
		q.send(to, req, 1, func(resp protocol.Response, err error) Event {
			r, _ := resp.(*protocol.EndQuorumEpochResponse)
			return endEpochResponse{generation, id, r, err}
		})
	}
}

type endEpochResponse struct {
	generation uint64
	from       int32
	resp       *protocol.EndQuorumEpochResponse
	err        error
}

func (endEpochResponse) event() string { return "end-epoch-response" }

func (q *Quorum) onEndEpochResponse(ev endEpochResponse) {
	s, ok := q.state.(*resigned)
	if ok = ok && ev.generation == q.generation; ok {
		delete(s.asked, ev.from)
	}
	if ev.err == nil && ev.resp != nil && ev.resp.ErrorCode == 0 && len(ev.resp.Topics) == 1 && len(ev.resp.Topics[0].Partitions) == 1 {
		p := &ev.resp.Topics[0].Partitions[0]
		q.common(p.ErrorCode, p.LeaderId, p.LeaderEpoch, nil)
		if ok && ev.generation == q.generation && p.ErrorCode == 0 {
			s.unacked = slices.DeleteFunc(s.unacked, func(id int32) bool { return id == ev.from })
			return
		}
	}
	if ok && ev.generation == q.generation {
		q.after(q.cfg.RetryBackoff, sendAgain{q.generation})
	}
}
