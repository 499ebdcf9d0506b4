package raft

import (
	"fmt"
	"slices"
	"strings"
)

// nominee is what Prospective and Candidate share: the voters' answers.
type nominee struct {
	voters   *VoterSet // as of the beginning
	granted  []int32   // sorted
	refused  []int32
	sent     map[int32]bool // a request is under way
	deadline deadline
}

func (n *nominee) majority() int { return n.voters.Len()/2 + 1 }

func (n *nominee) won() bool { return len(n.granted) >= n.majority() }

// rejected: with the answers still to come it cannot be won.
func (n *nominee) rejected() bool { return n.voters.Len()-len(n.refused) < n.majority() }

// record takes an answer; the first one counts.
func (n *nominee) record(id int32, granted bool) {
	if n.voters.Get(id) == nil || slices.Contains(n.granted, id) || slices.Contains(n.refused, id) {
		return
	}
	list := &n.refused
	if granted {
		list = &n.granted
	}
	*list = append(*list, id)
	slices.Sort(*list)
}

func (n *nominee) unrecorded() []int32 {
	return slices.DeleteFunc(n.voters.IDs(), func(id int32) bool {
		return slices.Contains(n.granted, id) || slices.Contains(n.refused, id)
	})
}

func (n *nominee) votesText() string {
	items := make([]string, 0, n.voters.Len())
	for _, v := range n.voters.All() {
		answer := "UNRECORDED"
		switch {
		case slices.Contains(n.granted, v.Key.ID):
			answer = "GRANTED"
		case slices.Contains(n.refused, v.Key.ID):
			answer = "REJECTED"
		}
		items = append(items, fmt.Sprintf("%d=VoterState(replicaKey=%s, state=%s)", v.Key.ID, v.Key, answer))
	}
	return "EpochElection[voterStates={" + strings.Join(items, ", ") + "}]"
}

func (q *Quorum) newNominee() nominee {
	n := nominee{voters: q.voters(), sent: map[int32]bool{}, deadline: q.deadlineIn(q.randomElectionTimeout())}
	n.record(q.cfg.NodeID, true)
	return n
}

// candidate has a new epoch, has voted for itself in it, and asks for the others' votes.
type candidate struct{ nominee }

func (s *candidate) describe(q *Quorum, e Election) string {
	return fmt.Sprintf("CandidateState(localId=%d, localDirectoryId=%s, epoch=%d, epochElection=%s, highWatermark=%s, electionTimeoutMs=%d)",
		q.cfg.NodeID, q.cfg.DirectoryID, e.Epoch, s.votesText(), q.highWatermarkText(), s.deadline.ms())
}

func (q *Quorum) toCandidate() {
	e := Election{Epoch: q.election.Epoch + 1, LeaderID: NoNode, Voted: q.cfg.key()}
	q.enterCandidate(e)
}

func (q *Quorum) enterCandidate(e Election) {
	s := &candidate{q.newNominee()}
	q.become(s, e, nil, true)
	if q.failed {
		return
	}
	if s.won() {
		q.toLeader(s)
		return
	}
	q.armElection(s.deadline)
	q.sendVotes(&s.nominee, false)
}
