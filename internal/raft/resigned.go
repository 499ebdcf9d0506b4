package raft

import (
	"fmt"
	"slices"
)

// resigned was the leader of the epoch and is not any more: by its own will, because a majority no longer fetches, or
// because it was restarted. It appends nothing, grants no votes, and tells the others.
type resigned struct {
	deadline  deadline
	preferred []ReplicaKey // successors, the one with most of the log first
	unacked   []int32
	asked     map[int32]bool
}

func (s *resigned) describe(q *Quorum, e Election) string {
	preferred := make([]string, len(s.preferred))
	for i, k := range s.preferred {
		preferred[i] = k.String()
	}
	return fmt.Sprintf("ResignedState(localId=%d, epoch=%d, voters=%s, electionTimeoutMs=%d, unackedVoters=%s, preferredSuccessors=%v)",
		q.cfg.NodeID, e.Epoch, idList(q.voters().IDs()), s.deadline.ms(), idList(s.unacked), preferred)
}

func (q *Quorum) newResigned(preferred []ReplicaKey) *resigned {
	s := &resigned{deadline: q.deadlineIn(q.randomElectionTimeout()), preferred: preferred, asked: map[int32]bool{}}
	s.unacked = slices.DeleteFunc(q.voters().IDs(), func(id int32) bool { return id == q.cfg.NodeID })
	return s
}

func (q *Quorum) toResigned(l *leader) {
	others := slices.DeleteFunc(slices.Clone(l.replicas), func(r *replica) bool { return r.key.ID == q.cfg.NodeID })
	slices.SortStableFunc(others, func(a, b *replica) int {
		switch {
		case a.end > b.end:
			return -1
		case a.end < b.end:
			return 1
		}
		return 0
	})
	var preferred []ReplicaKey
	for _, r := range others {
		preferred = append(preferred, r.key)
	}
	q.enterResigned(q.newResigned(preferred), false)
}

func (q *Quorum) enterResigned(s *resigned, durable bool) {
	q.become(s, q.election, q.leaderEndpoints, durable)
	if q.failed {
		return
	}
	q.armElection(s.deadline)
	q.sendEndEpoch(s)
}

type resign struct{ epoch int32 }

func (resign) event() string { return "resign" }

func (q *Quorum) onResign(ev resign) {
	l, ok := q.state.(*leader)
	if !ok || ev.epoch != q.election.Epoch {
		q.log.Debug(fmt.Sprintf("Ignoring call to resign from epoch %d in epoch %d", ev.epoch, q.election.Epoch))
		return
	}
	q.log.Info(fmt.Sprintf("Received user request to resign from the current epoch %d", ev.epoch))
	q.toResigned(l)
}
