package raft

import (
	"fmt"
	"time"

	"github.com/ottla-io/ottla/internal/env/sim"
)

// loseLeader cuts the leader off from everybody: the others must elect another and go on. It comes back later.
func (s *simulation) loseLeader() {
	old := s.leader()
	for _, p := range s.peers {
		if p != old {
			s.world.Cut(old.name, p.name)
			s.world.Cut(p.name, old.name)
		}
	}
	before := len(s.l.entries)
	if !s.run(30*time.Second, func() bool {
		p := s.leader()
		return p != nil && p != old && len(s.l.entries) > before && s.readers[p.id].told.LeaderID == p.id
	}) {
		s.stuck("half a minute after the leader was cut off the other voters have not replaced it")
	}
	s.world.HealAll()
}

// settle ends all faults; then there must be a leader, it must be able to commit, and all that live must come to the same state.
func (s *simulation) settle() {
	s.world.SetNetworkFaults(sim.NetworkFaults{})
	s.faults.stale = 0
	s.world.HealAll()
	for _, p := range s.living {
		p.node.Disk().SetFaults(withoutErrors(p.node.Disk().Faults()))
		if p.node.Alive() {
			p.node.CrashAfter(0)
			p.node.Thaw()
		}
		if !p.node.Alive() || p.q == nil || p.q.failed || p.leaving {
			p.restart()
		}
	}
	if !s.run(120*time.Second, func() bool { p := s.leader(); return p != nil && s.readers[p.id].told.LeaderID == p.id }) {
		s.stuck("no leader two minutes after the last fault")
	}
	before := len(s.l.entries)
	all := func() bool {
		for _, p := range s.living {
			r := s.readers[p.id]
			if r == nil || p.q == nil || len(s.l.entries) <= before || r.next != int64(len(s.l.entries)) || p.q.LogEndOffset() != r.next {
				return false
			}
		}
		return true
	}
	agree := false
	for range 6 { // a leader may leave with what it was given: one that was removed, or resigns late
		if p := s.leader(); p != nil {
			if s.strayed(p) {
				p.q.Resign(p.q.election.Epoch)
			}
			s.append(p)
		}
		if agree = s.run(10*time.Second, all); agree {
			break
		}
	}
	if !agree {
		s.stuck("not all agree a minute after the last fault")
	}
	if p := s.leader(); p != nil && !p.q.Voters().Contains(p.cfg.key()) {
		s.stuck(p.name + " leads, and was removed")
	}
	s.settleVoters()
	for _, p := range s.living {
		if r := s.readers[p.id]; r.sum != s.l.sumBelow(r.next) {
			s.l.fail("I6: %s has another state", p.name)
		}
	}
}

// settleVoters lets those that moved tell where they are, and those join that do so by themselves.
func (s *simulation) settleVoters() {
	missing := func() *peer {
		p := s.leader()
		if p == nil {
			return s.living[0]
		}
		level, voters, at, _ := p.q.history.current()
		if level < 1 {
			return nil
		}
		for _, o := range s.living {
			v := voters.Get(o.id)
			switch {
			case at >= p.q.highWatermark:
				return o
			case v != nil && v.Key == o.cfg.key():
				if v.Endpoints[0] != o.cfg.Listeners[0] {
					return o
				}
			case !o.q.cfg.AutoJoin:
			case o.q.wasRemoved(voters):
				s.world.Count("removed voter stays away")
			default:
				return o
			}
		}
		return nil
	}
	if !s.run(60*time.Second, func() bool { return missing() == nil }) {
		s.stuck("a minute after the last fault the voter set does not say it as it is with " + missing().name)
	}
}

// strayed reports whether an observer is in a later epoch than the leader: it heard of it from a candidate that then died. As with
// Kafka, fetches of a later epoch move nobody, and so it waits for the next election, which need not come by itself.
func (s *simulation) strayed(leader *peer) bool {
	for _, p := range s.living {
		if p.q != nil && p.q.election.Epoch > leader.q.election.Epoch && !p.q.isVoter() {
			s.world.Count("observer waits for the next election")
			return true
		}
	}
	return false
}

// returnOne cuts one voter off and lets it come back: a healthy leader goes on leading (KIP-996).
func (s *simulation) returnOne() {
	l := s.leader()
	before := l.q.election.Epoch
	for _, p := range s.peers {
		if p == l || !l.q.Voters().Contains(p.cfg.key()) {
			continue
		}
		for _, o := range s.peers {
			if o != p {
				s.world.Cut(o.name, p.name)
				s.world.Cut(p.name, o.name)
			}
		}
		s.run(8*time.Second, nil)
		s.world.HealAll()
		s.run(5*time.Second, nil)
		if now := s.leader(); now != l || l.q.election.Epoch != before {
			s.stuck(fmt.Sprintf("%s led epoch %d until %s, which had been cut off, came back", l.name, before, p.name))
		}
		return
	}
}

// stuck fails with what every node believes.
func (s *simulation) stuck(what string) {
	text := what
	for _, p := range s.peers {
		text += "\n\t" + p.name + ": "
		if p.q == nil || !p.node.Alive() {
			text += "down"
			continue
		}
		text += fmt.Sprintf("%s, failed %t, told up to %d", stateOf(p.q), p.q.failed, s.readers[p.id].next)
	}
	s.l.fail("I17: %s; %d offsets are committed", text, len(s.l.entries))
}

// shutdown ends all nodes in order, one after the other; each must come to its end.
func (s *simulation) shutdown() {
	for _, p := range append(s.living[1:len(s.living):len(s.living)], s.living[0]) {
		gone := false
		p.q.Shutdown(func() { gone = true })
		if !s.run(10*time.Second, func() bool { return gone }) {
			s.l.fail("I17: %s does not shut down", p.name)
		}
	}
}
