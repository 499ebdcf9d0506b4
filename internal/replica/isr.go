package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ISRChange is what the leader of a partition asks the controller for (KIP-497).
type ISRChange struct {
	Partition                   TopicPartition
	TopicID                     uuid.UUID
	LeaderEpoch, PartitionEpoch int32
	ISR                         []BrokerEpoch
}

// BrokerEpoch is a broker in one of its lives; an epoch of -1 is not checked (KIP-903).
type BrokerEpoch struct {
	ID    int32
	Epoch int64
}

// ISRAnswer is what the controller made of the partition.
type ISRAnswer struct {
	LeaderEpoch, PartitionEpoch int32
	ISR                         []int32
}

// isrChange is an ISRChange that the controller has not answered. Until then the largest ISR that may be is the one that counts: a joining
// replica holds the high watermark back already, a leaving one still does.
type isrChange struct {
	isr     []int32
	joining int32 // NoLeader if replicas leave
}

// maybeExpand asks for a follower that is in step again. mu is held shared, by this node as the leader.
func (p *Partition) maybeExpand(id int32) {
	p.progress.Lock()
	defer p.progress.Unlock()
	i := slices.IndexFunc(p.followers, func(f follower) bool { return f.id == id })
	if i < 0 || p.asked != nil {
		return
	}
	f := &p.followers[i]
	if f.inISR || f.logEnd < p.log.HighWatermark() || f.logEnd < p.epochStart || !p.m.mayJoin(f) {
		return
	}
	f.joining = true
	p.ask(&isrChange{isr: append(slices.Clone(p.state.ISR), id), joining: id})
}

// mayJoin reports whether the metadata lets a follower into an ISR: it is there, in the life in which it fetched (KIP-903).
func (m *Manager) mayJoin(f *follower) bool {
	b := m.img.Load().Cluster.Broker(f.id)
	return b != nil && !b.Fenced && !b.InControlledShutdown && (f.epoch == -1 || f.epoch == b.Epoch)
}

// shrink asks for an ISR without the followers that have not been in step for replica.lag.time.max.ms. It reports whether the partition is
// one with followers that this node leads.
func (p *Partition) shrink(now time.Duration) bool {
	led := p.askToShrink(now)
	if led {
		p.advanceAndWake() // it may have waited for a follower outside the ISR that does not catch up after all
	}
	return led
}

func (p *Partition) askToShrink(now time.Duration) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.leader || p.deleted {
		return false
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	if p.asked != nil {
		return true
	}
	end := p.log.EndOffset()
	isr := slices.Clone(p.state.ISR)
	for i := range p.followers {
		if f := &p.followers[i]; f.inISR && !f.isCaughtUp(end, now, p.m.cfg.ReplicaLagMax) {
			isr = slices.DeleteFunc(isr, func(id int32) bool { return id == f.id })
			p.m.env.Logger().Info(fmt.Sprintf("Shrinking ISR of %s: follower %d is at %d, the log ends at %d", p.Name(), f.id, f.logEnd, end))
		}
	}
	if len(isr) < len(p.state.ISR) {
		p.ask(&isrChange{isr: isr, joining: NoLeader})
	}
	return len(p.followers) > 0
}

// ask sends a change to the controller. mu is held shared, and progress.
func (p *Partition) ask(c *isrChange) {
	p.asked = c
	p.send(c)
}

// send is ask, and also asks again.
func (p *Partition) send(c *isrChange) {
	r := ISRChange{Partition: p.Name(), TopicID: p.ID, LeaderEpoch: p.state.LeaderEpoch, PartitionEpoch: p.state.PartitionEpoch}
	for _, id := range c.isr {
		r.ISR = append(r.ISR, BrokerEpoch{id, p.epochOf(id)})
	}
	p.m.peers.AlterISR(r, func(a ISRAnswer, err error) { p.answered(c, a, err) })
}

func (p *Partition) epochOf(id int32) int64 {
	if id == p.m.cfg.NodeID {
		return p.m.peers.BrokerEpoch()
	}
	for i := range p.followers {
		if p.followers[i].id == id {
			return p.followers[i].epoch
		}
	}
	return -1
}

// answered takes what the controller says about a change. What the metadata said meanwhile counts more.
func (p *Partition) answered(c *isrChange, a ISRAnswer, err error) {
	moved := false
	p.mu.Lock()
	p.progress.Lock()
	current := p.asked == c && p.leader && !p.deleted
	switch {
	case !current:
	case err == nil && a.LeaderEpoch == p.state.LeaderEpoch && a.PartitionEpoch >= p.state.PartitionEpoch:
		p.asked = nil
		p.state.ISR, p.state.PartitionEpoch = a.ISR, a.PartitionEpoch
		for i := range p.followers {
			f := &p.followers[i]
			f.inISR, f.joining = slices.Contains(a.ISR, f.id), false
		}
		moved = true
	case err == nil || waitsForMetadata(err):
		// The metadata will say what the ISR is; until it does nothing more is asked for.
	case errors.Is(err, kerr.OperationNotAttempted) || errors.Is(err, kerr.IneligibleReplica):
		p.asked = nil
		for i := range p.followers {
			p.followers[i].joining = false
		}
	default:
		p.send(c)
	}
	p.progress.Unlock()
	if moved {
		p.advance()
	}
	p.mu.Unlock()
	if moved {
		p.wake()
	}
}

// waitsForMetadata: the controller knows of something that this broker has not been told yet.
func waitsForMetadata(err error) bool {
	for _, k := range []error{
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicId, kerr.FencedLeaderEpoch, kerr.InvalidUpdateVersion, kerr.InvalidRequest, kerr.NewLeaderElected,
	} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// watchISR makes sure that followers are looked at every half of replica.lag.time.max.ms while there are any.
func (m *Manager) watchISR() {
	if m.cfg.ReplicaLagMax <= 0 || m.closed.Load() || m.isrArmed.Swap(true) {
		return
	}
	m.env.AfterFunc(m.cfg.ReplicaLagMax/2, func() { m.env.Go("shrink ISRs", m.shrinkAll) })
}

func (m *Manager) shrinkAll() {
	m.isrArmed.Store(false)
	if m.closed.Load() {
		return
	}
	now, again := m.env.Monotonic(), false
	for _, p := range m.All() {
		again = p.shrink(now) || again
	}
	if again {
		m.watchISR()
	}
}
