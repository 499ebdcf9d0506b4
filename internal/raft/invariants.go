package raft

import (
	"fmt"
	"slices"
)

// invariants is what the last event left, to compare with.
type invariants struct {
	election      Election
	highWatermark int64
	any           bool
}

// checkInvariants runs after every event. A broken one is a bug of ours: the node must not go on.
func (q *Quorum) checkInvariants(ev Event) {
	if q.failed || !q.started {
		return
	}
	q.maybeCompleteShutdown()
	if q.failed {
		return
	}
	broken := func(format string, args ...any) {
		panic(fmt.Sprintf("raft: after %T in %s: ", ev, q.state.describe(q, q.election)) + fmt.Sprintf(format, args...))
	}
	last, now := q.checked, q.election
	if last.any {
		// Election safety: the epoch never goes back; within it leader and vote are set once. A candidate that wins
		// leads with its vote, which then says nothing more.
		switch {
		case now.Epoch < last.election.Epoch:
			broken("epoch went back from %d", last.election.Epoch)
		case now.Epoch > last.election.Epoch:
		case last.election.LeaderID != NoNode && now.LeaderID != last.election.LeaderID:
			broken("leader changed from %d within the epoch", last.election.LeaderID)
		case last.election.hasVoted() && now.Voted != last.election.Voted && now.LeaderID != q.cfg.NodeID:
			broken("vote changed from %s within the epoch", last.election.Voted)
		}
		if q.highWatermark < last.highWatermark {
			broken("high watermark went back from %d", last.highWatermark)
		}
	}
	startOffset, end := q.disk.StartOffset(), q.disk.EndOffset()
	if q.highWatermark >= 0 && (q.highWatermark > end || startOffset > q.highWatermark) {
		broken("log start %d <= high watermark %d <= log end %d does not hold", startOffset, q.highWatermark, end)
	}
	if startOffset > 0 && (!last.any || q.highWatermark != last.highWatermark) && !q.hasSnapshotAtStart(startOffset) {
		broken("no snapshot at the log start %d", startOffset)
	}
	if l, ok := q.state.(*leader); ok {
		if now.LeaderID != q.cfg.NodeID {
			broken("leads, but the leader of the epoch is %d", now.LeaderID)
		}
		if l.durable != end {
			broken("%d bytes of offsets are not synced", end-l.durable)
		}
		if l.established && q.highWatermark <= l.epochStart {
			broken("high watermark %d was established below the epoch start %d", q.highWatermark, l.epochStart)
		}
		if n := q.history.uncommittedChanges(q.highWatermark); l.established && n > 1 {
			broken("%d changes of the voters are not committed", n)
		}
	}
	q.checked = invariants{now, q.highWatermark, true}
}

func (q *Quorum) hasSnapshotAtStart(start int64) bool {
	q.disk.mu.Lock()
	defer q.disk.mu.Unlock()
	for _, id := range q.disk.snapshots {
		if id.EndOffset == start {
			return true
		}
	}
	return false
}

// uncommittedChanges counts the voter sets at offset hw and above that have other members than the one before.
func (h *history) uncommittedChanges(hw int64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for i, e := range h.voters {
		if e.offset >= hw && i > 0 && !slices.Equal(e.value.keys(), h.voters[i-1].value.keys()) {
			n++
		}
	}
	return n
}
