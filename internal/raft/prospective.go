package raft

import "fmt"

// prospective asks the voters whether they would vote for it, without a new epoch: a node that was cut off does not
// depose a healthy leader (KIP-996). It may know the leader of its epoch, and may have voted in it.
type prospective struct {
	nominee
	early *earlyRound // nil unless the fetch timeout is not over
}

func (s *prospective) describe(q *Quorum, e Election) string {
	return fmt.Sprintf("ProspectiveState(epoch=%d, leaderId=%s, votedKey=%s, epochElection=%s, electionTimeoutMs=%d, highWatermark=%s)",
		e.Epoch, e.leaderText(), e.votedText(), s.votesText(), s.deadline.ms(), q.highWatermarkText())
}

func (q *Quorum) toProspective() { q.enterProspective(&prospective{nominee: q.newNominee()}) }

func (q *Quorum) enterProspective(s *prospective) {
	q.become(s, q.election, q.leaderEndpoints, false)
	if q.failed {
		return
	}
	if s.won() {
		q.toCandidate()
		return
	}
	q.armElection(s.deadline)
	q.sendVotes(&s.nominee, true)
}

// afterLostPreVote goes back to following, if there is somebody to follow.
func (q *Quorum) afterLostPreVote(s *prospective) {
	e := q.election
	if s.early != nil {
		q.enterFollowerFor(e, q.leaderEndpoints, max(s.early.fetchBy-q.env.Monotonic(), 0))
		return
	}
	if e.LeaderID != NoNode && len(q.leaderEndpoints) > 0 && e.LeaderID != q.cfg.NodeID {
		q.toFollower(e.Epoch, e.LeaderID, q.leaderEndpoints)
		return
	}
	q.toUnattached(e.Epoch, e.LeaderID)
}
