package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// State is what the metadata says about a partition.
type State struct {
	Replicas, ISR, Adding, Removing []int32
	Leader                          int32
	LeaderEpoch, PartitionEpoch     int32
	Directory                       uuid.UUID // of this node's replica
}

// Partition is this node's replica of a partition, and what it knows as the leader, if it is.
type Partition struct {
	Topic string
	ID    uuid.UUID
	Index int32

	m *Manager

	// mu guards what follows. It is held shared while the log is appended to or read, so that a change of
	// leadership has everything of the old epoch behind it when it returns.
	mu    sync.RWMutex
	log   Log // nil if its directory is offline
	state State
	// leader: state.Leader is this node and the log is there. Every append happens with leader true and
	// in state.LeaderEpoch (at most one leader acts in an epoch).
	leader     bool
	deleted    bool
	epochStart int64 // log end when this node became the leader of its epoch

	// progress guards the followers and orders the moves of the high watermark, which never goes back
	// while this node leads: high watermark <= log end of every in-sync replica.
	progress  sync.Mutex
	followers []follower // of the leader; by broker id
	asked     *isrChange // of the ISR, not answered
	fetcher   *fetcher   // that copies the partition here; only Manager.Apply uses it

	minISR atomic.Int32 // min.insync.replicas of the topic

	fetches  watchList // wait for the log end, the high watermark or the last stable offset
	produces watchList // wait for the high watermark
	deletes  watchList // wait for the low watermark

	listeners atomic.Pointer[[]*hwListener]
}

// follower is what the leader knows of another replica.
type follower struct {
	id        int32
	inISR     bool
	joining   bool  // the controller was asked to let it into the ISR
	epoch     int64 // of the broker that last fetched, -1 if it does not say (KIP-903)
	logEnd    int64 // what it has: its last fetch offset; unknown is -1
	logStart  int64
	caughtUp  time.Duration
	lastFetch time.Duration
	// leaderEnd is the leader's log end at the last fetch: who reaches it is caught up as of then.
	leaderEnd int64
}

type hwListener struct{ fn func(int64) }

// Name is the partition's topic and index.
func (p *Partition) Name() TopicPartition { return TopicPartition{Topic: p.Topic, Partition: p.Index} }

// Log is the partition's log on this node, nil if its directory is offline.
func (p *Partition) Log() Log {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.log
}

// Leadership returns the leader and its epoch as this replica knows them.
func (p *Partition) Leadership() (leader, epoch int32) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.state.Leader, p.state.LeaderEpoch
}

// IsLeader reports whether this node leads the partition.
func (p *Partition) IsLeader() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.leader
}

// State returns what the metadata last said. Its slices must not be changed.
func (p *Partition) State() State {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.state
}

// HighWatermark is where the committed records end, 0 without a log.
func (p *Partition) HighWatermark() int64 {
	if l := p.Log(); l != nil {
		return l.HighWatermark()
	}
	return 0
}

// readable returns the log if the caller's leader epoch (-1: not stated) is ours and, where the leader is
// asked for, this node is it. mu is held.
func (p *Partition) readable(epoch int32, onlyLeader bool) (Log, error) {
	switch {
	case p.deleted:
		return nil, p.m.absent(p.Topic, p.Index)
	case p.log == nil:
		return nil, kerr.KafkaStorageError
	case epoch >= 0 && epoch < p.state.LeaderEpoch:
		return nil, kerr.FencedLeaderEpoch
	case epoch >= 0 && epoch > p.state.LeaderEpoch:
		return nil, kerr.UnknownLeaderEpoch
	case onlyLeader && !p.leader:
		return nil, kerr.NotLeaderOrFollower
	}
	return p.log, nil
}

// effectiveMinISR is min.insync.replicas, but not more than there are replicas. mu is held.
func (p *Partition) effectiveMinISR() int {
	return min(int(p.minISR.Load()), len(p.state.Replicas))
}

// become takes the state that the metadata gives: it makes the partition leader or follower. log is set on
// the first call; nil if it could not be opened. It reports whether the leader epoch is a new one.
func (p *Partition) become(s State, log Log) (newEpoch bool, err error) {
	p.mu.Lock()
	if s.PartitionEpoch < p.state.PartitionEpoch {
		p.mu.Unlock()
		return false, nil
	}
	if log != nil {
		p.log = log
	}
	newEpoch = s.LeaderEpoch > p.state.LeaderEpoch || p.state.PartitionEpoch < 0
	wasLeader, changed := p.leader, s.PartitionEpoch > p.state.PartitionEpoch
	p.state = s
	p.leader = s.Leader == p.m.cfg.NodeID && p.log != nil
	if p.leader {
		if newEpoch {
			p.epochStart = p.log.EndOffset()
			// A follower may ask for an epoch that has no records (KIP-279).
			err = p.log.AssignEpochStart(s.LeaderEpoch, p.epochStart)
		}
		p.resetFollowers(newEpoch, !wasLeader, changed)
		p.advance()
		if len(p.followers) > 0 {
			p.m.watchISR()
		}
	} else {
		p.progress.Lock()
		p.followers, p.asked = nil, nil
		p.progress.Unlock()
	}
	p.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("start leader epoch %d of %s-%d: %w", s.LeaderEpoch, p.Topic, p.Index, err)
	}
	return newEpoch, err
}

// resetFollowers makes the followers fit the replicas and the ISR. changed says that these are new: what was asked of the controller is over.
// mu is held.
func (p *Partition) resetFollowers(newEpoch, newLeader, changed bool) {
	p.progress.Lock()
	defer p.progress.Unlock()
	if changed {
		p.asked = nil
	}
	now := p.m.env.Monotonic()
	old := p.followers
	fs := make([]follower, 0, max(len(p.state.Replicas)-1, 0))
	for _, id := range p.state.Replicas {
		if id == p.m.cfg.NodeID {
			continue
		}
		f := follower{id: id, epoch: -1, logEnd: -1, logStart: -1}
		if i := slices.IndexFunc(old, func(f follower) bool { return f.id == id }); i >= 0 && !newLeader {
			f = old[i]
		}
		f.inISR = slices.Contains(p.state.ISR, id)
		f.joining = f.joining && !changed
		if newEpoch {
			f.leaderEnd = p.epochStart
			f.lastFetch = 0
			f.caughtUp = 0
			if f.inISR {
				f.lastFetch, f.caughtUp = now, now
			}
		}
		fs = append(fs, f)
	}
	slices.SortFunc(fs, func(a, b follower) int { return int(a.id) - int(b.id) })
	p.followers = fs
}

// maximalISR is the size of the largest ISR that the controller may know. mu is held.
func (p *Partition) maximalISR() int {
	p.progress.Lock()
	defer p.progress.Unlock()
	if p.asked != nil {
		return max(len(p.asked.isr), len(p.state.ISR))
	}
	return len(p.state.ISR)
}

// advance moves the high watermark to where every in-sync replica is, and reports whether it moved. mu is
// held, shared or not; this node is the leader.
func (p *Partition) advance() bool {
	if len(p.state.ISR) < p.effectiveMinISR() {
		return false // KIP-966
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	high := p.log.EndOffset()
	now := p.m.env.Monotonic
	for i := range p.followers {
		f := &p.followers[i]
		// Who is about to join the ISR is waited for, or it would never be in step.
		if f.logEnd < high && (f.inISR || f.joining || f.logEnd >= 0 && f.isCaughtUp(high, now(), p.m.cfg.ReplicaLagMax) && p.m.mayJoin(f)) {
			high = f.logEnd
		}
	}
	if high <= p.log.HighWatermark() {
		return false
	}
	p.log.SetHighWatermark(high)
	p.m.highMoved()
	return true
}

// advanceAndWake is advance for those who hold no lock.
func (p *Partition) advanceAndWake() {
	p.mu.RLock()
	moved := p.leader && !p.deleted && p.advance()
	p.mu.RUnlock()
	if moved {
		p.wake()
	}
}

func (f *follower) isCaughtUp(leaderEnd int64, now, lagMax time.Duration) bool {
	return leaderEnd == f.logEnd || now-f.caughtUp <= lagMax && f.caughtUp > 0
}

// fetched notes what a follower's fetch says: it has everything below offset.
// mu is held shared. It reports whether the high watermark or the low watermark may have moved.
func (p *Partition) fetched(id int32, brokerEpoch, offset, logStart, leaderEnd int64) (moved bool) {
	now := p.m.env.Monotonic()
	p.progress.Lock()
	i := slices.IndexFunc(p.followers, func(f follower) bool { return f.id == id })
	if i < 0 || p.followers[i].epoch > brokerEpoch && brokerEpoch >= 0 {
		p.progress.Unlock()
		return false
	}
	f := &p.followers[i]
	switch {
	case offset >= leaderEnd:
		f.caughtUp = max(f.caughtUp, now)
	case offset >= f.leaderEnd:
		f.caughtUp = max(f.caughtUp, f.lastFetch)
	}
	moved = f.logEnd != offset || f.logStart != logStart
	f.epoch, f.logEnd, f.logStart, f.lastFetch, f.leaderEnd = brokerEpoch, offset, logStart, now, leaderEnd
	outside := !f.inISR && !f.joining
	p.progress.Unlock()
	if outside {
		p.maybeExpand(id)
	}
	if moved {
		p.advance()
	}
	return moved
}

// hasReplica reports whether a broker is one of the followers. mu is held.
func (p *Partition) hasReplica(id int32) bool {
	return id != p.m.cfg.NodeID && slices.Contains(p.state.Replicas, id)
}

// lowWatermark is the smallest log start of all replicas that are alive. mu is held; this node leads.
func (p *Partition) lowWatermark() int64 {
	low := p.log.StartOffset()
	p.progress.Lock()
	defer p.progress.Unlock()
	for i := range p.followers {
		if f := &p.followers[i]; f.logStart < low && p.m.alive(f.id) {
			low = f.logStart
		}
	}
	return low
}

// reached reports whether everything below offset is committed, or never will be by this leader, and with
// which error. Kafka's order: first the leader, then the high watermark, then the ISR's size.
func (p *Partition) reached(offset int64) (bool, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch {
	case p.log == nil && !p.deleted:
		return true, kerr.KafkaStorageError
	case p.deleted || !p.leader:
		return true, kerr.NotLeaderOrFollower
	case p.log.HighWatermark() < offset:
		return false, nil
	case p.maximalISR() < p.effectiveMinISR():
		return true, kerr.NotEnoughReplicasAfterAppend
	}
	return true, nil
}

// wake lets everybody look who waits for something of this partition. No lock is held.
func (p *Partition) wake() {
	p.m.purgatory.notify(&p.produces)
	p.m.purgatory.notify(&p.fetches)
	p.m.purgatory.notify(&p.deletes)
	if ls := p.listeners.Load(); ls != nil && p.Log() != nil {
		high := p.HighWatermark()
		for _, l := range *ls {
			l.fn(high)
		}
	}
}

// listen registers fn for moves of the high watermark. Calls may be late, come for nothing, and come from
// two goroutines in the wrong order: the largest counts.
func (p *Partition) listen(fn func(int64)) (remove func()) {
	l := &hwListener{fn}
	change := func(edit func([]*hwListener) []*hwListener) {
		for {
			old := p.listeners.Load()
			var ls []*hwListener
			if old != nil {
				ls = slices.Clone(*old)
			}
			ls = edit(ls)
			if p.listeners.CompareAndSwap(old, &ls) {
				return
			}
		}
	}
	change(func(ls []*hwListener) []*hwListener { return append(ls, l) })
	return func() {
		change(func(ls []*hwListener) []*hwListener {
			return slices.DeleteFunc(ls, func(x *hwListener) bool { return x == l })
		})
	}
}

// stop ends the partition on this node; whoever waits for it is answered.
func (p *Partition) stop() {
	p.mu.Lock()
	p.deleted, p.leader = true, false
	p.mu.Unlock()
	p.wake()
}

// diskError makes an error of the log one of the protocol: what is none yet is a failure of the directory.
func diskError(err error) error {
	var k *kerr.Error
	if err == nil || errors.As(err, &k) {
		return err
	}
	return fmt.Errorf("%w: %w", kerr.KafkaStorageError, err)
}
