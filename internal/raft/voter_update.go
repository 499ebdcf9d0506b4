package raft

import (
	"fmt"
	"strings"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// UpdateRaftVoter (key 82), KIP-853: a voter tells the leader where it listens and which levels of kraft.version it knows.
// check → append the new voter set, or with kraft.version 0 keep it in memory for the upgrade → respond, before it is committed.
// Errors in Kafka's order: INCONSISTENT_CLUSTER_ID, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER,
// BROKER_NOT_AVAILABLE, INVALID_REQUEST (key, endpoints, versions), REQUEST_TIMED_OUT (another change, nothing committed in this
// epoch, or a voter set that is not), INVALID_REQUEST (versions without the level in force), VOTER_NOT_FOUND.

type updateVoterRequest struct {
	req     *protocol.UpdateRaftVoterRequest
	respond func(*protocol.UpdateRaftVoterResponse)
}

func (updateVoterRequest) event() string { return "update-voter" }

// UpdateRaftVoter changes what is known of a voter. Any goroutine.
func (q *Quorum) UpdateRaftVoter(_ *rpc.Context, req *protocol.UpdateRaftVoterRequest, respond func(*protocol.UpdateRaftVoterResponse)) {
	q.post(updateVoterRequest{req, respond})
}

func (q *Quorum) onUpdateVoterRequest(ev updateVoterRequest) {
	code := q.updateVoter(ev.req)
	if q.failed {
		ev.respond(updateVoterError(brokerNotAvailable))
		return
	}
	r := updateVoterError(code)
	r.CurrentLeader.LeaderId, r.CurrentLeader.LeaderEpoch = q.election.LeaderID, q.election.Epoch
	if e, ok := q.leaderEndpoint(); ok {
		r.CurrentLeader.Host, r.CurrentLeader.Port = e.Host, int32(e.Port)
	}
	ev.respond(r)
}

func updateVoterError(code int16) *protocol.UpdateRaftVoterResponse {
	r := protocol.NewUpdateRaftVoterResponse()
	r.ErrorCode = code
	return r
}

func (q *Quorum) updateVoter(req *protocol.UpdateRaftVoterRequest) int16 {
	if !q.sameCluster(req.ClusterId) {
		return kerr.InconsistentClusterId.Code
	}
	if code := q.checkLeaderRequest(req.CurrentLeaderEpoch); code != 0 {
		return code
	}
	l := q.state.(*leader)
	v := Voter{
		Key:      ReplicaKey{req.VoterId, req.VoterDirectoryId},
		MinKRaft: req.KRaftVersionFeature.MinSupportedVersion, MaxKRaft: req.KRaftVersionFeature.MaxSupportedVersion,
	}
	for _, e := range req.Listeners {
		v.Endpoints = append(v.Endpoints, Endpoint{strings.ToUpper(e.Name), e.Host, e.Port})
	}
	if v.Key.ID < 0 || v.Key.DirectoryID == uuid.Zero || !hasListener(v.Endpoints, q.cfg.ListenerName) || v.MinKRaft < 0 || v.MaxKRaft < v.MinKRaft {
		return kerr.InvalidRequest.Code
	}
	level, voters, at, inLog := q.history.current()
	known := voters.Contains(v.Key)
	if level < 1 {
		// Static voters have no directories: that of the first to say so is taken, as their votes are.
		voters, known = l.volatile, voters.Get(v.Key.ID) != nil
	}
	switch {
	case l.change != nil || !l.established:
		return kerr.RequestTimedOut.Code
	case level >= 1 && (!inLog || at >= q.highWatermark):
		return kerr.RequestTimedOut.Code
	case level < v.MinKRaft || level > v.MaxKRaft:
		return kerr.InvalidRequest.Code
	case !known:
		return kerr.VoterNotFound.Code
	}
	set := NewVoterSet(append(voters.others(v.Key.ID), v)...)
	if level < 1 {
		q.log.Info(fmt.Sprintf("Updated in-memory voters from %s to %s", voters, set))
		l.volatile = set
	} else if !q.appendVoters(l, nil, set) {
		return kerr.NotLeaderOrFollower.Code
	}
	q.heardFrom(l, v.Key.ID)
	return 0
}

// voterPeriod is the time to look at one's own place in the voter set.
type voterPeriod struct{ generation uint64 }

func (voterPeriod) event() string { return "voter-period" }

// onVoterPeriod has a follower say what has changed: a voter what is known of it, a controller that is to join that it is here.
func (q *Quorum) onVoterPeriod(ev voterPeriod) {
	f, ok := q.state.(*follower)
	if !ok || ev.generation != q.generation || q.stopping != nil {
		return
	}
	q.after(q.cfg.FetchTimeout, ev)
	to, ok := q.destination(q.election.LeaderID, q.leaderEndpoints)
	if !ok {
		return
	}
	level, voters, _, _ := q.history.current()
	own := q.cfg.key()
	switch old := voters.Get(own.ID); {
	case q.isVoter():
		if _, changed := voters.with(q.ownVoter()); level >= 1 && changed || level < 1 && !f.toldLeader {
			q.sendUpdateVoter(to)
		}
	case level < 1 || !q.cfg.AutoJoin || q.wasRemoved(voters):
	case old != nil: // this node with the disk that it had before
		q.sendRemoveVoter(to, old.Key)
	default:
		q.sendAddVoter(to)
	}
}

// wasRemoved reports whether somebody has taken this replica out of the voter set, as far as this life or the log knows. It does not
// come back by itself then: whoever wants it back says so.
func (q *Quorum) wasRemoved(now *VoterSet) bool {
	q.noteWasVoter(q.highWatermark)
	return q.wasVoter && !now.Contains(q.cfg.key())
}

// noteWasVoter remembers whether this replica was a voter by what lies below an offset and is committed. To be called before the history
// forgets some of that.
func (q *Quorum) noteWasVoter(committed int64) {
	q.wasVoter = q.wasVoter || q.history.hadVoter(q.cfg.key(), committed)
}

// hadVoter reports whether a replica was in a voter set that was committed.
func (h *history) hadVoter(k ReplicaKey, hw int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.voters {
		if e.offset < hw && e.value.Contains(k) {
			return true
		}
	}
	return false
}

func (q *Quorum) sendUpdateVoter(to destination) {
	v := q.ownVoter()
	req := protocol.NewUpdateRaftVoterRequest()
	req.ClusterId, req.CurrentLeaderEpoch = &q.cfg.ClusterID, q.election.Epoch
	req.VoterId, req.VoterDirectoryId = v.Key.ID, v.Key.DirectoryID
	for _, e := range v.Endpoints {
		req.Listeners = append(req.Listeners, protocol.UpdateRaftVoterRequestListener{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	req.KRaftVersionFeature.MinSupportedVersion, req.KRaftVersionFeature.MaxSupportedVersion = v.MinKRaft, v.MaxKRaft
	generation := q.generation
	q.send(to, req, 0, func(resp protocol.Response, err error) Event {
		r, _ := resp.(*protocol.UpdateRaftVoterResponse)
		return updateVoterResponse{generation, r, err}
	})
}

type updateVoterResponse struct {
	generation uint64
	resp       *protocol.UpdateRaftVoterResponse
	err        error
}

func (updateVoterResponse) event() string { return "update-voter-response" }

func (q *Quorum) onUpdateVoterResponse(ev updateVoterResponse) {
	if ev.err != nil || ev.resp == nil {
		q.log.Debug("no answer to UpdateRaftVoter", "err", ev.err)
		return
	}
	at := &ev.resp.CurrentLeader
	var endpoints []Endpoint
	if at.LeaderId != NoNode && at.Host != "" && at.Port > 0 && at.Port <= 65535 {
		endpoints = []Endpoint{{q.cfg.ListenerName, at.Host, uint16(at.Port)}}
	}
	if q.common(ev.resp.ErrorCode, at.LeaderId, at.LeaderEpoch, endpoints) || ev.generation != q.generation {
		return
	}
	f, ok := q.state.(*follower)
	switch code := ev.resp.ErrorCode; {
	case ok && (code == 0 || code == kerr.UnsupportedVersion.Code):
		f.toldLeader = true
		q.fetched(f)
	case code != 0:
		q.log.Error(fmt.Sprintf("Unexpected error %s in UPDATE_RAFT_VOTER response", kerr.Name(code)))
	}
}

func (q *Quorum) sendAddVoter(to destination) {
	req := protocol.NewAddRaftVoterRequest()
	req.ClusterId, req.TimeoutMs = &q.cfg.ClusterID, int32(q.cfg.RequestTimeout.Milliseconds())
	req.VoterId, req.VoterDirectoryId, req.AckWhenCommitted = q.cfg.NodeID, q.cfg.DirectoryID, false
	for _, e := range q.cfg.Listeners {
		req.Listeners = append(req.Listeners, protocol.AddRaftVoterRequestListener{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	q.send(to, req, 1, func(resp protocol.Response, err error) Event {
		r, _ := resp.(*protocol.AddRaftVoterResponse)
		if r != nil && err == nil {
			err = kerr.FromCode(r.ErrorCode)
		}
		return joinResponse{"ADD_RAFT_VOTER", err}
	})
}

func (q *Quorum) sendRemoveVoter(to destination, k ReplicaKey) {
	req := protocol.NewRemoveRaftVoterRequest()
	req.ClusterId, req.VoterId, req.VoterDirectoryId = &q.cfg.ClusterID, k.ID, k.DirectoryID
	q.send(to, req, 0, func(resp protocol.Response, err error) Event {
		r, _ := resp.(*protocol.RemoveRaftVoterResponse)
		if r != nil && err == nil {
			err = kerr.FromCode(r.ErrorCode)
		}
		return joinResponse{"REMOVE_RAFT_VOTER", err}
	})
}

// joinResponse ends an attempt to join; the next period shows what came of it.
type joinResponse struct {
	api string
	err error
}

func (joinResponse) event() string { return "join-response" }

func (q *Quorum) onJoinResponse(ev joinResponse) {
	if ev.err != nil {
		q.log.Info(fmt.Sprintf("%s of this controller was not carried out", ev.api), "err", ev.err)
	}
}
