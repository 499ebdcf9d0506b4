package raft

import "fmt"

// unattached is a node that knows its epoch but follows nobody: it waits for a leader, asks around who that is, and as a
// voter begins an election when the time is over. It may have voted.
type unattached struct {
	deadline deadline
	discovery
}

func (s *unattached) describe(q *Quorum, e Election) string {
	return fmt.Sprintf("UnattachedState(epoch=%d, leaderId=%s, votedKey=%s, voters=%s, electionTimeoutMs=%d, highWatermark=%s)",
		e.Epoch, e.leaderText(), e.votedText(), idList(q.voters().IDs()), s.deadline.ms(), q.highWatermarkText())
}

// toUnattached enters an epoch of which at most the leader's id is known. Within one epoch the vote stays.
func (q *Quorum) toUnattached(epoch, leaderID int32) {
	d := q.deadlineIn(q.randomElectionTimeout())
	switch s := q.state.(type) { // an election that was near stays near
	case *unattached:
		if q.started {
			d = s.deadline
		}
	case *candidate:
		d = s.deadline
	case *resigned:
		d = s.deadline
	case *prospective:
		if !s.rejected() && s.early == nil {
			d = s.deadline
		}
	case *leader, *follower:
	}
	e := Election{Epoch: epoch, LeaderID: leaderID, Voted: ReplicaKey{ID: NoNode}}
	if epoch == q.election.Epoch {
		e.Voted = q.election.Voted
	}
	q.enterUnattached(e, d)
}

func (q *Quorum) enterUnattached(e Election, d deadline) {
	q.become(&unattached{deadline: d}, e, nil, true)
	s, ok := q.state.(*unattached)
	if !ok || q.failed {
		return
	}
	if q.isVoter() {
		q.armElection(d)
	}
	q.discover(&s.discovery)
}
