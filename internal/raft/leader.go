package raft

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
)

// leader of an epoch: the only one who appends in it.
type leader struct {
	epochStart int64 // where this epoch's first record is
	// durable is how much of the log is synced here. What is not does not count towards the high watermark, and nobody
	// is given it.
	durable int64
	// established: the high watermark has passed epochStart. Before that nothing of earlier epochs is committed by
	// counting alone.
	established bool
	replicas    []*replica // the voters, by rising id; this node is among them
	observers   map[ReplicaKey]*replica
	granting    []int32
	asked       map[int32]bool // a BeginQuorumEpoch is under way
	// majoritySince is when the last time began in which a majority fetched; fetched are those that did since.
	majoritySince time.Duration
	fetched       map[int32]bool
	watching      bool         // the timers that look after the other voters run
	change        *voterChange // a change of the voter set under way, or nil
	leaving       bool         // is no voter any more, and about to resign
	// volatile is, while kraft.version is 0, the voter set as the voters have described themselves in this epoch; else nil. An upgrade
	// writes it to the log.
	volatile *VoterSet
}

// replica is what a leader knows of a voter or an observer.
type replica struct {
	key          ReplicaKey
	end          int64 // its log's end, synced there; -1 = unknown
	lastFetch    int64 // wall clock, ms; -1 = never
	lastCaughtUp int64
	leaderEnd    int64 // our end when it last fetched
	fetchedAt    time.Duration
	acknowledged bool // knows that we lead
}

func (r *replica) String() string {
	end := "Optional.empty"
	if r.end >= 0 {
		end = fmt.Sprintf("Optional[LogOffsetMetadata(offset=%d, metadata=Optional.empty)]", r.end)
	}
	return fmt.Sprintf("ReplicaState(replicaKey=%s, endOffset=%s, lastFetchTimestamp=%d, lastCaughtUpTimestamp=%d, hasAcknowledgedLeader=%t)",
		r.key, end, r.lastFetch, r.lastCaughtUp, r.acknowledged)
}

const observerSession = 300 * time.Second // an observer that has not fetched for so long is forgotten

func (l *leader) describe(q *Quorum, e Election) string {
	items := make([]string, len(l.replicas))
	for i, r := range l.replicas {
		items[i] = fmt.Sprintf("%d=%s", r.key.ID, r)
	}
	hw := "Optional.empty"
	if l.established {
		hw = q.highWatermarkText()
	}
	node := fmt.Sprint(q.cfg.NodeID)
	if v := q.voters().Get(q.cfg.NodeID); v != nil {
		node = v.String()
	}
	return fmt.Sprintf("Leader(localVoterNode=%s, epoch=%d, epochStartOffset=%d, highWatermark=%s, voterStates={%s})",
		node, e.Epoch, l.epochStart, hw, strings.Join(items, ", "))
}

func (l *leader) replica(k ReplicaKey, voters *VoterSet) *replica {
	if !voters.Contains(k) {
		return nil
	}
	for _, r := range l.replicas {
		if r.key.ID == k.ID {
			return r
		}
	}
	return nil
}

// toLeader begins the epoch with its first record, which also commits what is left of earlier epochs. kraft.version and the
// voters follow in the same batch if they stand only in the 0-0 snapshot, or if this node listens elsewhere than they say.
func (q *Quorum) toLeader(c *candidate) {
	now := q.env.Monotonic()
	l := &leader{
		epochStart: q.disk.EndOffset(), durable: q.disk.EndOffset(), observers: map[ReplicaKey]*replica{}, granting: c.granted,
		asked: map[int32]bool{}, majoritySince: now, fetched: map[int32]bool{},
	}
	for _, v := range q.voters().All() {
		l.replicas = append(l.replicas, &replica{key: v.Key, end: -1, lastFetch: -1, lastCaughtUp: -1, fetchedAt: now, acknowledged: v.Key.ID == q.cfg.NodeID})
	}
	if level, voters, _, _ := q.history.current(); level < 1 {
		l.volatile = NewVoterSet(append(voters.others(q.cfg.NodeID), q.ownVoter())...)
	}
	q.become(l, Election{Epoch: q.election.Epoch, LeaderID: q.cfg.NodeID, Voted: ReplicaKey{ID: NoNode}}, q.cfg.Listeners, true)
	if q.failed {
		return
	}
	b, err := q.controlMessages(l.epochStart, q.epochStartMessages(l)...)
	if err == nil {
		err = q.disk.AppendAsLeader(b, q.election.Epoch)
	}
	if err == nil {
		err = q.noteControls(b)
	}
	if err != nil {
		q.fault(fmt.Errorf("begin epoch %d: %w", q.election.Epoch, err))
		return
	}
	q.tail = append(q.tail, Batch{BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Epoch: q.election.Epoch, AppendTime: b.MaxTimestamp(), Bytes: len(b)})
	q.prepare.begin(q.election.Epoch, q.disk.EndOffset())
	q.updateReplicas(l)
	q.syncLeaderLog(l)
	if !q.failed {
		for _, r := range l.replicas {
			q.sendBeginEpoch(l, r.key.ID)
		}
	}
}

// watchVoters begins to look after the other voters, when there are some.
func (q *Quorum) watchVoters(l *leader) {
	if l.watching || q.voters().isOnly(q.cfg.key()) {
		return
	}
	l.watching = true
	l.majoritySince = q.env.Monotonic()
	q.after(q.checkQuorumTimeout(), checkQuorum{q.generation})
	q.after(q.cfg.FetchTimeout/2, beginEpochTimer{q.generation})
}

func (q *Quorum) epochStartMessages(l *leader) []protocol.Message {
	change := protocol.NewLeaderChangeMessage()
	change.LeaderId = q.cfg.NodeID
	change.Voters, change.GrantingVoters = []protocol.LeaderChangeMessageVoter{}, []protocol.LeaderChangeMessageVoter{}
	for _, r := range l.replicas {
		change.Voters = append(change.Voters, protocol.LeaderChangeMessageVoter{VoterId: r.key.ID})
	}
	for _, id := range l.granting {
		change.GrantingVoters = append(change.GrantingVoters, protocol.LeaderChangeMessageVoter{VoterId: id})
	}
	messages := []protocol.Message{change}
	if level, voters, at, inLog := q.history.current(); level > 0 && inLog {
		if set, changed := voters.with(q.ownVoter()); changed || at == bootstrapID.EndOffset-1 {
			m := protocol.NewKRaftVersionRecord()
			m.KRaftVersion = level
			messages = append(messages, m, set.record())
		}
	}
	return messages
}

// ownVoter is this node as it should stand in the voter set.
func (q *Quorum) ownVoter() Voter {
	return Voter{Key: q.cfg.key(), Endpoints: q.cfg.Listeners, MaxKRaft: MaxKRaftVersion}
}

// updateLocalReplica counts what is durable here.
func (q *Quorum) updateLocalReplica(l *leader) {
	if r := l.replica(q.cfg.key(), q.voters()); r != nil {
		r.end = l.durable
	} else if r := l.observers[q.cfg.key()]; r != nil {
		r.end = l.durable // it was removed, and leads until that is committed
	}
	q.updateHighWatermark(l)
}

// updateHighWatermark sets it to the offset that a majority of the voters has, once that is past the beginning of the
// epoch: a record of an earlier epoch that a majority has may still be replaced (Raft, 5.4.2).
func (q *Quorum) updateHighWatermark(l *leader) {
	ends := make([]int64, len(l.replicas))
	for i, r := range l.replicas {
		ends[i] = r.end
	}
	slices.Sort(ends)
	if len(ends) == 0 {
		return
	}
	index := len(ends) / 2 // in falling order
	hw := ends[len(ends)-1-index]
	if hw <= l.epochStart || hw <= q.highWatermark {
		return
	}
	if !l.established {
		l.established = true
		items := make([]string, len(l.replicas))
		for i, r := range l.replicas {
			items[i] = r.String()
		}
		q.log.Info(fmt.Sprintf("High watermark set to LogOffsetMetadata(offset=%d, metadata=Optional.empty) for the first time for epoch %d based on indexOfHw %d and voters [%s]",
			hw, q.election.Epoch, index, strings.Join(items, ", ")))
	}
	q.highWatermark = hw
	q.onDeliver()
	q.changeCommitted(l)
	q.wakeFetches(false)
}

// replicaFetched notes that a replica has everything below offset.
func (q *Quorum) replicaFetched(l *leader, k ReplicaKey, offset int64) {
	if k.ID < 0 || k.ID == q.cfg.NodeID {
		return
	}
	r := l.replica(k, q.voters())
	isVoter := r != nil
	if r == nil {
		q.forgetObservers(l)
		if r = l.observers[k]; r == nil {
			r = &replica{key: k, end: -1, lastFetch: -1, lastCaughtUp: -1}
			l.observers[k] = r
		}
	}
	now := q.env.Now().UnixMilli()
	switch {
	case offset >= l.durable:
		r.lastCaughtUp = max(now, r.lastCaughtUp)
	case r.leaderEnd > 0 && offset >= r.leaderEnd:
		r.lastCaughtUp = max(r.lastFetch, r.lastCaughtUp)
	}
	r.leaderEnd = l.durable
	r.lastFetch = max(now, r.lastFetch)
	r.fetchedAt = q.env.Monotonic()
	r.acknowledged = true
	if isVoter {
		q.heardFrom(l, k.ID)
		// A voter that lost its disk and came back under the same key would count twice; it cannot be told apart here.
		r.end = offset
		q.updateHighWatermark(l)
		return
	}
	r.end = offset
}

// forgetObservers drops those that have not fetched for long.
func (q *Quorum) forgetObservers(l *leader) {
	now := q.env.Monotonic()
	for k, o := range l.observers {
		if now-o.fetchedAt > observerSession && k != q.cfg.key() {
			delete(l.observers, k)
		}
	}
}

func (q *Quorum) checkQuorumTimeout() time.Duration { return q.cfg.FetchTimeout * 3 / 2 }

// heardFrom counts the voters that fetch. A leader that a majority no longer fetches from resigns.
func (q *Quorum) heardFrom(l *leader, id int32) {
	l.fetched[id] = true
	need := len(l.replicas)/2 + 1
	if l.replica(q.cfg.key(), q.voters()) != nil {
		need--
	}
	if len(l.fetched) >= need {
		clear(l.fetched)
		l.majoritySince = q.env.Monotonic()
	}
}

type checkQuorum struct{ generation uint64 }

func (checkQuorum) event() string { return "check-quorum" }

func (q *Quorum) onCheckQuorum(ev checkQuorum) {
	l, ok := q.state.(*leader)
	if !ok || ev.generation != q.generation {
		return
	}
	if q.voters().isOnly(q.cfg.key()) {
		l.watching = false
		return
	}
	timeout := q.checkQuorumTimeout()
	if left := l.majoritySince + timeout - q.env.Monotonic(); left > 0 {
		q.after(left, ev)
		return
	}
	var heard, all []int32
	for _, r := range l.replicas {
		all = append(all, r.key.ID)
		if l.fetched[r.key.ID] {
			heard = append(heard, r.key.ID)
		}
	}
	q.log.Info(fmt.Sprintf("Did not receive fetch request from the majority of the voters within %dms. Current fetched voters are %s, and voters are %s",
		timeout.Milliseconds(), idList(heard), idList(all)))
	q.toResigned(l)
}

type beginEpochTimer struct{ generation uint64 }

func (beginEpochTimer) event() string { return "begin-epoch-timer" }

// onBeginEpochTimer tells voters that have not fetched lately, once more, who leads.
func (q *Quorum) onBeginEpochTimer(ev beginEpochTimer) {
	l, ok := q.state.(*leader)
	if !ok || ev.generation != q.generation || !l.watching {
		return
	}
	period := q.cfg.FetchTimeout / 2
	for _, r := range l.replicas {
		if !r.acknowledged || q.env.Monotonic()-r.fetchedAt >= period {
			q.sendBeginEpoch(l, r.key.ID)
		}
	}
	q.after(period, ev)
}
