package raft

import (
	"fmt"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
)

// state is what a node holds beyond its Election. One file per state: unattached.go, prospective.go, candidate.go,
// leader.go, follower.go, resigned.go.
type state interface {
	// describe is the state in Kafka's words, with an election that may be about to become true.
	describe(q *Quorum, e Election) string
}

// become changes the state. What must survive a crash is durable before any of it is true; entering Prospective and
// Resigned changes nothing that must.
func (q *Quorum) become(next state, e Election, endpoints []Endpoint, durable bool) {
	if q.failed {
		return
	}
	from := "null"
	if q.started {
		from = q.state.describe(q, q.election)
	}
	to := next.describe(q, e)
	if durable {
		q.log.Info("Attempting durable transition to " + to + " from " + from)
		level, voters, _, _ := q.history.current()
		if err := WriteElection(q.env.FS(), q.disk.dir, e, level, voters); err != nil {
			q.fault(err)
			return
		}
	}
	q.leave(next)
	q.stopTimers()
	q.generation++
	q.election, q.leaderEndpoints, q.state, q.started = e, endpoints, next, true
	q.log.Info("Completed transition to " + to + " from " + from)
	q.fireLeaderChange()
}

// leave ends what belongs to the present state.
func (q *Quorum) leave(next state) {
	switch s := q.state.(type) {
	case *leader:
		q.prepare.close()
		q.tail = nil
		q.endChange(s, kerr.NotLeaderOrFollower, "")
		q.wakeFetches(true)
	case *follower:
		if n, ok := next.(*follower); ok {
			n.hasFetched = false
		}
		q.dropFetchedSnapshot(s)
	case *unattached, *prospective, *candidate, *resigned:
	}
}

// randomElectionTimeout is between one and two election timeouts.
func (q *Quorum) randomElectionTimeout() time.Duration {
	ms := int(q.cfg.ElectionTimeout / time.Millisecond)
	if ms <= 0 {
		return 0
	}
	return time.Duration(ms+q.env.Rand().IntN(ms)) * time.Millisecond
}

// deadline is an election timeout that has begun.
type deadline struct {
	timeout time.Duration // as drawn
	at      time.Duration // of the monotonic clock
}

func (q *Quorum) deadlineIn(d time.Duration) deadline {
	return deadline{d, q.env.Monotonic() + d}
}

func (q *Quorum) remaining(d deadline) time.Duration { return max(d.at-q.env.Monotonic(), 0) }

func (d deadline) ms() int64 { return d.timeout.Milliseconds() }

type electionTimeout struct{ generation uint64 }

func (electionTimeout) event() string { return "election-timeout" }

func (q *Quorum) armElection(d deadline) { q.after(q.remaining(d), electionTimeout{q.generation}) }

// onElectionTimeout goes on to the next state when the time for the present one is over.
func (q *Quorum) onElectionTimeout(ev electionTimeout) {
	if ev.generation != q.generation || q.stopping != nil {
		return
	}
	switch s := q.state.(type) {
	case *unattached:
		if q.isVoter() {
			q.toProspective()
		}
	case *prospective:
		q.log.Info("Election timed out before receiving sufficient vote responses to become candidate. Current epoch election state: " + s.votesText())
		q.afterLostPreVote(s)
	case *candidate:
		q.log.Info("Election was not granted, transitioning to prospective")
		q.toProspective()
	case *resigned:
		q.toUnattached(q.election.Epoch+1, NoNode)
	case *leader, *follower:
	}
}

// maybeTransition follows what another node says of leader and epoch: a later epoch, or the leader of ours if we do not
// know it. Never back. It reports false, and does nothing, if the claim contradicts what we know: two leaders in one
// epoch, or leadership of ours that we know nothing of. We go by what we know.
func (q *Quorum) maybeTransition(leaderID, epoch int32, endpoints []Endpoint) bool {
	if !q.consistentLeader(leaderID, epoch) {
		q.log.Error(fmt.Sprintf("Received request or response with leader %d and epoch %d which is inconsistent with current leader %d and epoch %d",
			leaderID, epoch, q.election.LeaderID, q.election.Epoch))
		return false
	}
	switch {
	case epoch > q.election.Epoch && leaderID != NoNode:
		q.toFollower(epoch, leaderID, endpoints)
	case epoch > q.election.Epoch:
		q.toUnattached(epoch, NoNode)
	case leaderID != NoNode && leaderID != q.cfg.NodeID && epoch == q.election.Epoch && q.newsOfLeader(endpoints):
		q.toFollower(epoch, leaderID, endpoints)
	}
	return true
}

// newsOfLeader reports whether this node did not know the leader of its epoch, or knew less of where it listens. One that has
// given its leader up and asks for votes is not told anything new by those who have not.
func (q *Quorum) newsOfLeader(endpoints []Endpoint) bool {
	return q.election.LeaderID == NoNode || len(endpoints) > len(q.leaderEndpoints)
}

// consistentLeader says whether a claim about an epoch agrees with what we know.
func (q *Quorum) consistentLeader(leaderID, epoch int32) bool {
	if leaderID == q.cfg.NodeID {
		// Only we make ourselves leader. As a former leader we may hear of it, but not of a later epoch than we know.
		return epoch <= q.election.Epoch && (epoch < q.election.Epoch || q.election.LeaderID == leaderID)
	}
	return epoch != q.election.Epoch || leaderID == NoNode || q.election.LeaderID == NoNode || q.election.LeaderID == leaderID
}

func (q *Quorum) highWatermarkText() string {
	if q.highWatermark < 0 {
		return "Optional.empty"
	}
	return fmt.Sprintf("Optional[LogOffsetMetadata(offset=%d, metadata=Optional.empty)]", q.highWatermark)
}

func endpointsText(endpoints []Endpoint) string {
	items := make([]string, len(endpoints))
	for i, e := range endpoints {
		items[i] = fmt.Sprintf("ListenerName(%s)=%s/<unresolved>:%d", e.Name, e.Host, e.Port)
	}
	return "Endpoints(endpoints={" + strings.Join(items, ", ") + "})"
}

// leaderAddress is where to reach a node of which some endpoints are known.
func (q *Quorum) pickEndpoint(endpoints []Endpoint) (Endpoint, bool) {
	for _, e := range endpoints {
		if strings.EqualFold(e.Name, q.cfg.ListenerName) {
			return e, true
		}
	}
	if len(endpoints) > 0 {
		return endpoints[0], true
	}
	return Endpoint{}, false
}

// endpointsOf are those of a voter.
func (q *Quorum) endpointsOf(id int32) []Endpoint {
	if v := q.voters().Get(id); v != nil {
		return v.Endpoints
	}
	return nil
}
