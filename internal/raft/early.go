package raft

import (
	"errors"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/rpc"
)

// lostLeader is what a follower has learned from the operating system of its leader's machine. A connection that broke says
// little, and is made again at once; if that is refused, the process is gone. Silence says nothing here: the fetch timeout is for
// that. Whatever a fetch brings makes it all forgotten.
type lostLeader struct {
	broke   bool          // the connection has broken, since the last fetch that brought something
	redial  bool          // the next fetch goes to the leader whatever failed before
	refused bool          // the leader's machine says that nobody listens there
	voteAt  time.Duration // of the monotonic clock: when to ask for pre-votes
}

// earlyRound is a round of pre-votes before the fetch timeout is over. If it is lost, all is as it was.
type earlyRound struct {
	fetchBy time.Duration // of the follower that began it
}

// fetchFailed goes on after a fetch that brought nothing.
func (q *Quorum) fetchFailed(f *follower, to destination, err error) {
	f.failures++
	wait := q.retryBackoff(f.failures)
	if q.cfg.EarlyPreVote && to.id == q.election.LeaderID {
		switch {
		case errors.Is(err, rpc.ErrDisconnected) && !f.lost.broke:
			f.lost.broke, f.lost.redial = true, true
			wait = 0
		case errors.Is(err, env.ErrRefused):
			q.leaderRefuses(f)
		}
	}
	q.after(wait, fetchAgain{q.generation})
}

// leaderRefuses prepares a round of pre-votes, once for each time that the leader was heard of. The voters take turns, in the order
// of their ids, or they would ask each other at the same moment and then all vote for themselves.
func (q *Quorum) leaderRefuses(f *follower) {
	if f.lost.refused || !f.hasFetched || !f.watching || f.resigned {
		return
	}
	f.lost.refused = true
	others := slices.DeleteFunc(q.voters().IDs(), func(id int32) bool { return id == q.election.LeaderID })
	turn := time.Duration(max(slices.Index(others, q.cfg.NodeID), 0))
	wait := q.cfg.RetryBackoff + turn*q.earlyTurn()
	f.lost.voteAt = q.env.Monotonic() + wait
	q.after(wait, earlyPreVote{q.generation})
}

// earlyTurn is the time that a voter has for its round before the next one begins.
func (q *Quorum) earlyTurn() time.Duration { return q.cfg.FetchTimeout / 20 }

// yieldTo gives another voter that asks for pre-votes the time to be elected, or, if its log is too short, takes its turn.
func (q *Quorum) yieldTo(f *follower, granted bool) {
	switch {
	case !f.lost.refused:
	case granted:
		f.lost.voteAt = q.env.Monotonic() + 5*q.earlyTurn()
	default:
		f.lost.voteAt = q.env.Monotonic()
		q.after(0, earlyPreVote{q.generation})
	}
}

type earlyPreVote struct{ generation uint64 }

func (earlyPreVote) event() string { return "early-pre-vote" }

func (q *Quorum) onEarlyPreVote(ev earlyPreVote) {
	f, ok := q.state.(*follower)
	if !ok || ev.generation != q.generation || q.stopping != nil || !f.lost.refused || f.resigned || !q.isVoter() {
		return
	}
	if left := f.lost.voteAt - q.env.Monotonic(); left > 0 {
		q.after(left, ev)
		return
	}
	q.log.Info("Transitioning to Prospective state because the leader's machine refuses connections", "leader", q.election.LeaderID)
	s := &prospective{nominee: q.newNominee(), early: &earlyRound{f.fetchBy}}
	s.deadline = q.deadlineIn(min(max(f.fetchBy-q.env.Monotonic(), 0), 5*q.earlyTurn()))
	q.enterProspective(s)
}
