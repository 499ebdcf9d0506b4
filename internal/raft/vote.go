package raft

import (
	"fmt"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Vote (key 52). v0 KIP-595; v1 directory ids and endpoints, KIP-853; v2 pre-vote, KIP-996.
// check → epoch → grant (quorum-state is durable) → respond.
// Errors in Kafka's order: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (topic; top level), INVALID_REQUEST (epochs),
// FENCED_LEADER_EPOCH, INVALID_VOTER_KEY.

var brokerNotAvailable = kerr.BrokerNotAvailable.Code

type voteRequest struct {
	version int16
	req     *protocol.VoteRequest
	respond func(*protocol.VoteResponse)
}

func (voteRequest) event() string { return "vote" }

// Vote answers a candidate. Any goroutine.
func (q *Quorum) Vote(ctx *rpc.Context, req *protocol.VoteRequest, respond func(*protocol.VoteResponse)) {
	q.post(voteRequest{ctx.APIVersion, req, respond})
}

func voteError(code int16) *protocol.VoteResponse {
	r := protocol.NewVoteResponse()
	r.ErrorCode = code
	return r
}

func (q *Quorum) onVoteRequest(ev voteRequest) {
	ev.respond(q.answerVote(ev.version, ev.req))
}

func (q *Quorum) answerVote(version int16, req *protocol.VoteRequest) *protocol.VoteResponse {
	if !q.sameCluster(req.ClusterId) {
		return voteError(kerr.InconsistentClusterId.Code)
	}
	if len(req.Topics) != 1 || req.Topics[0].TopicName != Topic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].PartitionIndex != 0 {
		return voteError(kerr.InvalidRequest.Code)
	}
	p := &req.Topics[0].Partitions[0]
	illegal := p.LastOffsetEpoch >= p.ReplicaEpoch
	if p.PreVote {
		illegal = p.LastOffsetEpoch > p.ReplicaEpoch
	}
	if p.LastOffset < 0 || p.LastOffsetEpoch < 0 || illegal {
		return q.voteResponse(version, kerr.InvalidRequest.Code, false)
	}
	if code := q.checkVoterRequest(p.ReplicaId, p.ReplicaEpoch); code != 0 {
		return q.voteResponse(version, code, false)
	}
	if p.ReplicaEpoch > q.election.Epoch {
		q.toUnattached(p.ReplicaEpoch, NoNode)
	}
	if !q.meant(req.VoterId, p.VoterDirectoryId) {
		return q.voteResponse(version, kerr.InvalidVoterKey.Code, false)
	}
	candidate := ReplicaKey{p.ReplicaId, p.ReplicaDirectoryId}
	upToDate := position{p.LastOffsetEpoch, p.LastOffset}.atLeast(q.disk.end())
	granted := q.canGrant(candidate, upToDate, p.PreVote)
	if f, ok := q.state.(*follower); ok && p.PreVote {
		q.yieldTo(f, granted)
	}
	if granted && !p.PreVote && !q.election.hasVoted() {
		q.addVote(candidate)
	}
	if q.failed {
		return voteError(brokerNotAvailable)
	}
	word := "rejected"
	if granted {
		word = "granted"
	}
	q.log.Info(fmt.Sprintf("Vote request from %s with epoch %d, last epoch %d, last offset %d, preVote=%t is %s",
		candidate, p.ReplicaEpoch, p.LastOffsetEpoch, p.LastOffset, p.PreVote, word))
	return q.voteResponse(version, 0, granted)
}

// canGrant decides on a vote in our epoch. For a pre-vote it only says what would be.
func (q *Quorum) canGrant(k ReplicaKey, upToDate, preVote bool) bool {
	switch s := q.state.(type) {
	case *unattached, *prospective:
		switch {
		case preVote:
			return upToDate
		case q.election.hasVoted():
			return q.election.votedFor(k)
		}
		return q.election.LeaderID == NoNode && upToDate
	case *follower:
		// Whoever has a working leader does not help to depose it. One that is no voter, as far as it knows, goes on following a
		// leader that is gone; others may need its vote all the same.
		return preVote && upToDate && (!s.hasFetched || s.lost.refused || q.env.Monotonic() >= s.fetchBy)
	case *candidate, *resigned:
		return preVote && upToDate
	case *leader:
		return false
	}
	return false
}

// addVote makes a vote durable, in the state we are in.
func (q *Quorum) addVote(k ReplicaKey) {
	e := q.election
	e.Voted = k
	switch s := q.state.(type) {
	case *unattached:
		q.enterUnattached(e, s.deadline)
	case *prospective:
		// The vote ends the hope for one's own election in this epoch, not the wish for the next one.
		n := &prospective{nominee: s.nominee}
		n.sent = map[int32]bool{}
		q.become(n, e, q.leaderEndpoints, true)
		q.armElection(n.deadline)
		q.sendVotes(&n.nominee, true)
	case *candidate, *leader, *follower, *resigned:
		panic(fmt.Sprintf("raft: vote for %s in %s", k, q.state.describe(q, q.election)))
	}
}

func (q *Quorum) voteResponse(version, code int16, granted bool) *protocol.VoteResponse {
	r := protocol.NewVoteResponse()
	r.Topics = []protocol.VoteResponseTopicData{{
		TopicName: Topic,
		Partitions: []protocol.VoteResponsePartitionData{{
			ErrorCode: code, LeaderId: q.election.LeaderID, LeaderEpoch: q.election.Epoch, VoteGranted: granted,
		}},
	}}
	if e, ok := q.leaderEndpoint(); ok && version >= 1 {
		r.NodeEndpoints = []protocol.VoteResponseNodeEndpoint{{NodeId: q.election.LeaderID, Host: e.Host, Port: e.Port}}
	}
	return r
}

// sameCluster accepts requests without a cluster id.
func (q *Quorum) sameCluster(id *string) bool { return id == nil || *id == q.cfg.ClusterID }

// checkVoterRequest is what requests among voters have in common.
func (q *Quorum) checkVoterRequest(replicaID, epoch int32) int16 {
	switch {
	case epoch < q.election.Epoch:
		return kerr.FencedLeaderEpoch.Code
	case replicaID < 0:
		return kerr.InvalidRequest.Code
	}
	return 0
}

// meant reports whether a request that names a voter means this replica.
func (q *Quorum) meant(id int32, dir uuid.UUID) bool {
	return id < 0 || id == q.cfg.NodeID && (dir == uuid.Zero || dir == q.cfg.DirectoryID)
}

// leaderEndpoint is where the leader of the epoch listens, as far as known.
func (q *Quorum) leaderEndpoint() (Endpoint, bool) {
	if q.election.LeaderID == NoNode {
		return Endpoint{}, false
	}
	if q.election.LeaderID == q.cfg.NodeID {
		return q.pickEndpoint(q.cfg.Listeners)
	}
	return q.pickEndpoint(q.leaderEndpoints)
}

// sendAgain is the time to send a request again that failed.
type sendAgain struct{ generation uint64 }

func (sendAgain) event() string { return "send-again" }

func (q *Quorum) onSendAgain(ev sendAgain) {
	if ev.generation != q.generation {
		return
	}
	switch s := q.state.(type) {
	case *prospective:
		q.sendVotes(&s.nominee, true)
	case *candidate:
		q.sendVotes(&s.nominee, false)
	case *resigned:
		q.sendEndEpoch(s)
	case *unattached, *leader, *follower:
	}
}

// sendVotes asks the voters that have not answered and are not being asked.
func (q *Quorum) sendVotes(n *nominee, preVote bool) {
	end := q.disk.end()
	for _, id := range n.unrecorded() {
		voter := n.voters.Get(id)
		if n.sent[id] {
			continue
		}
		to, ok := q.destination(id, voter.Endpoints)
		if !ok {
			continue
		}
		n.sent[id] = true
		req := protocol.NewVoteRequest()
		req.ClusterId, req.VoterId = &q.cfg.ClusterID, id
		req.Topics = []protocol.VoteRequestTopicData{{
			TopicName: Topic,
			Partitions: []protocol.VoteRequestPartitionData{{
				ReplicaEpoch: q.election.Epoch, ReplicaId: q.cfg.NodeID, ReplicaDirectoryId: q.cfg.DirectoryID,
				VoterDirectoryId: voter.Key.DirectoryID, LastOffsetEpoch: end.epoch, LastOffset: end.offset, PreVote: preVote,
			}},
		}}
		generation := q.generation
		q.send(to, req, 2, func(resp protocol.Response, err error) Event {
			r, _ := resp.(*protocol.VoteResponse)
			return voteResponse{generation, id, r, err}
		})
	}
}

type voteResponse struct {
	generation uint64
	from       int32
	resp       *protocol.VoteResponse
	err        error
}

func (voteResponse) event() string { return "vote-response" }

func (q *Quorum) onVoteResponse(ev voteResponse) {
	var n *nominee
	if ev.generation == q.generation {
		switch s := q.state.(type) {
		case *prospective:
			n = &s.nominee
		case *candidate:
			n = &s.nominee
		case *unattached, *leader, *follower, *resigned:
		}
	}
	if n != nil {
		delete(n.sent, ev.from)
	}
	ok := ev.err == nil && ev.resp != nil && ev.resp.ErrorCode == 0 && len(ev.resp.Topics) == 1 && len(ev.resp.Topics[0].Partitions) == 1
	if ok {
		p := &ev.resp.Topics[0].Partitions[0]
		var endpoints []Endpoint
		for _, e := range ev.resp.NodeEndpoints {
			if e.NodeId == p.LeaderId {
				endpoints = append(endpoints, Endpoint{q.cfg.ListenerName, e.Host, e.Port})
			}
		}
		generation := q.generation
		answered := q.common(p.ErrorCode, p.LeaderId, p.LeaderEpoch, endpoints)
		if generation != q.generation || n == nil {
			return // no longer the nominee that asked
		}
		if ok = !answered && p.ErrorCode == 0; ok {
			n.record(ev.from, p.VoteGranted)
			if s, ok := q.state.(*prospective); ok && s.early != nil && ev.from == q.election.LeaderID && !p.VoteGranted {
				q.afterLostPreVote(s) // it lives
				return
			}
			q.countVotes()
			return
		}
	} else if ev.err != nil {
		q.log.Debug("no answer to a vote request", "from", ev.from, "err", ev.err)
	} else if ev.resp != nil {
		q.log.Info("Vote request was refused", "from", ev.from, "error", kerr.FromCode(ev.resp.ErrorCode))
	}
	if n != nil {
		q.after(q.cfg.RetryBackoff, sendAgain{q.generation})
	}
}

// countVotes goes on if the election is decided.
func (q *Quorum) countVotes() {
	switch s := q.state.(type) {
	case *prospective:
		switch {
		case s.won():
			q.toCandidate()
		case s.rejected():
			q.log.Info("Insufficient remaining votes to become candidate. Current epoch election state is " + s.votesText() + ".")
			q.afterLostPreVote(s)
		}
	case *candidate:
		switch {
		case s.won():
			q.toLeader(s)
		case s.rejected():
			q.log.Info(fmt.Sprintf("Insufficient remaining votes to become leader. Candidate will wait the remaining election timeout (%d) before transitioning back to Prospective. Current epoch election state is %s.",
				q.remaining(s.deadline).Milliseconds(), s.votesText()))
		}
	case *unattached, *leader, *follower, *resigned:
	}
}

// common handles what an answer says of leader and epoch. It reports whether that was all there is to it.
func (q *Quorum) common(code int16, leaderID, epoch int32, endpoints []Endpoint) bool {
	if len(endpoints) == 0 && leaderID != NoNode {
		endpoints = q.endpointsOf(leaderID)
	}
	switch {
	case epoch < q.election.Epoch || code == kerr.UnknownLeaderEpoch.Code:
		return true
	case epoch > q.election.Epoch || code == kerr.FencedLeaderEpoch.Code || code == kerr.NotLeaderOrFollower.Code:
		q.maybeTransition(leaderID, epoch, endpoints)
		return true
	case leaderID != NoNode && leaderID != q.cfg.NodeID && q.newsOfLeader(endpoints):
		q.maybeTransition(leaderID, epoch, endpoints)
		return code != 0
	case code == kerr.BrokerNotAvailable.Code:
		return true
	}
	return false
}
