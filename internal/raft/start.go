package raft

import (
	"errors"
	"fmt"
	"time"
)

type start struct{}

func (start) event() string { return "start" }

// onStart takes up what quorum-state says, and begins an election at once if nobody else has a vote.
func (q *Quorum) onStart() {
	if q.started {
		return
	}
	e, voters := q.election, q.voters()
	own := q.cfg.key()
	switch last := q.disk.lastEpoch(); {
	case e.Epoch < last:
		q.log.Warn(fmt.Sprintf("Epoch from quorum store file (%s) is %d, which is smaller than last written epoch %d in the log", q.disk.dir, e.Epoch, last))
		q.enterUnattached(Election{Epoch: last, LeaderID: NoNode, Voted: ReplicaKey{ID: NoNode}}, q.deadlineIn(q.randomElectionTimeout()))
	case e.LeaderID == q.cfg.NodeID:
		// It led before it stopped. In that epoch it appends nothing more.
		q.enterResigned(q.newResigned(nil), true)
	case e.votedFor(own) && q.isVoter():
		q.enterCandidate(e)
	case e.LeaderID != NoNode && len(q.endpointsOf(e.LeaderID)) > 0:
		q.enterFollower(e, q.endpointsOf(e.LeaderID))
	default:
		if e.LeaderID != NoNode {
			q.log.Info(fmt.Sprintf("The leader %d in election state is not a member of the latest voter set %s; transitioning to unattached instead of follower because the leader's endpoints are not known", e.LeaderID, voters))
		}
		q.enterUnattached(e, q.deadlineIn(q.randomElectionTimeout()))
	}
	if q.failed {
		return
	}
	if q.cfg.Voter && voters.isOnly(own) {
		switch q.state.(type) {
		case *unattached, *follower, *resigned:
			q.toProspective()
		case *prospective, *candidate, *leader:
		}
	}
	if !q.failed {
		q.onClean()
	}
}

// shutdown ends the node's part. A leader first tells the others and gives them time to elect another.
type shutdown struct {
	done func()
}

func (shutdown) event() string { return "shutdown" }

type shutdownTimeout struct{}

func (shutdownTimeout) event() string { return "shutdown-timeout" }

// shutdownWait is how long a leader that leaves waits for its successor.
const shutdownWait = 5 * time.Second

// Shutdown ends the node's part in the quorum: a leader resigns, and waits a little for its successor. done is called
// when the files are closed. Any goroutine.
func (q *Quorum) Shutdown(done func()) { q.post(shutdown{done}) }

func (q *Quorum) onShutdown(ev shutdown) {
	q.log.Info("Beginning graceful shutdown")
	q.stopping = &ev
	l, leads := q.state.(*leader)
	if leads {
		q.onAppendScheduled()
	}
	if !leads || len(l.replicas) <= 1 {
		q.completeShutdown()
		return
	}
	q.queue.After(shutdownWait, "shutdown-timeout", func() { q.Handle(shutdownTimeout{}) })
	q.toResigned(l)
}

// afterTransition ends a shutdown that waited for another leader.
func (q *Quorum) maybeCompleteShutdown() {
	if q.stopping != nil && !q.failed {
		if f, ok := q.state.(*follower); ok && f != nil {
			q.completeShutdown()
		}
	}
}

func (q *Quorum) completeShutdown() {
	if q.stopping == nil || q.failed {
		return
	}
	done := q.stopping.done
	q.failed = true
	q.prepare.close()
	q.wakeFetches(true)
	q.abandonChange()
	q.stopTimers()
	if q.cleaner != nil {
		q.cleaner.Stop()
	}
	if err := errors.Join(q.disk.Flush(), q.disk.Close()); err != nil {
		q.log.Error("close metadata log", "err", err)
	}
	if q.net != nil {
		q.net.close()
	}
	q.log.Info("Graceful shutdown completed")
	q.queue.Close(done)
}
