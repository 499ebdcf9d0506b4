package raft

import (
	"errors"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// changeVoters asks for a voter to be added or removed, the leader included, mostly the leader and sometimes two at once.
func (s *simulation) changeVoters() {
	w := s.world.Workload
	for range 1 + w.IntN(2) {
		p := s.leader()
		if p == nil || w.Chance(0.05) {
			p = s.peers[w.IntN(len(s.peers))]
		}
		if p.q == nil || !p.node.Alive() {
			continue
		}
		if other := s.peers[w.IntN(len(s.peers))]; s.wiped != nil {
			s.replace(p)
		} else if v := p.q.Voters().Get(other.id); v == nil && other.cfg.Voter {
			s.addVoter(p, other)
		} else if v != nil && (s.moved == nil || s.moved == other) {
			s.removeVoter(p, v.Key)
		}
	}
}

// replace brings a machine back that has lost its disk: its former replica leaves the voters, then the new one joins.
func (s *simulation) replace(at *peer) {
	switch v := at.q.Voters().Get(s.wiped.id); {
	case v == nil:
		s.addVoter(at, s.wiped)
	case v.Key != s.wiped.cfg.key():
		s.removeVoter(at, v.Key)
	default:
		s.world.Count("machine replaced")
		s.wiped = nil
	}
}

func (s *simulation) addVoter(at, who *peer) {
	q := at.q
	at.node.Do("add-voter", func() {
		req := protocol.NewAddRaftVoterRequest()
		req.ClusterId = nil
		req.VoterId, req.VoterDirectoryId, req.AckWhenCommitted = who.id, who.cfg.DirectoryID, s.world.Workload.Chance(0.5)
		for _, e := range who.cfg.Listeners {
			req.Listeners = append(req.Listeners, protocol.AddRaftVoterRequestListener{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		q.AddRaftVoter(&rpc.Context{APIVersion: 1}, req, func(r *protocol.AddRaftVoterResponse) { s.changeAnswered("add", r.ErrorCode) })
	})
}

func (s *simulation) removeVoter(at *peer, k ReplicaKey) {
	q := at.q
	at.node.Do("remove-voter", func() {
		if at.id == k.ID && at.leads() {
			s.world.Count("leader asked to remove itself")
		}
		req := protocol.NewRemoveRaftVoterRequest()
		req.ClusterId = nil
		req.VoterId, req.VoterDirectoryId = k.ID, k.DirectoryID
		q.RemoveRaftVoter(&rpc.Context{}, req, func(r *protocol.RemoveRaftVoterResponse) { s.changeAnswered("remove", r.ErrorCode) })
	})
}

func (s *simulation) changeAnswered(what string, code int16) {
	if code == 0 {
		s.world.Count("voter " + what + " acknowledged")
	} else {
		s.world.Count("voter " + what + " refused: " + kerr.Name(code))
	}
}

// wipe takes a machine's disk away; it comes back with an empty one, the same id and another directory id. Of four voters and more
// one may go, whatever change is under way: a majority is left.
func (s *simulation) wipe(p *peer) {
	if !s.dynamic() || s.moved != nil || s.wiped != nil || !p.cfg.Voter || len(s.check.logs) < len(s.peers) {
		return
	}
	if !s.allSetsHave(4) {
		return
	}
	s.world.Count("disk lost")
	p.crash()
	s.check.forget(p)
	p.node.Disk().SetFaults(withoutErrors(p.node.Disk().Faults())) // those were the old disk's
	for _, name := range p.node.Disk().Files() {
		if err := p.node.Disk().RemoveFile(name); err != nil {
			s.fail("%s: lose %s: %v", p.name, name, err)
		}
	}
	p.node = p.node.Restart()
	p.mem = &memorySegments{}
	p.cfg.DirectoryID[1]++
	p.cfg.StaticVoters = nil // or it would vote a second time where it is a voter
	s.format(p, nil)
	p.node.Crash()
	s.wiped = p
}

// allSetsHave reports whether every voter set that is in force in any log has at least n voters, all with their directories.
func (s *simulation) allSetsHave(n int) bool {
	for _, w := range s.check.logs {
		set, _ := w.voters()
		if set.Len() < n {
			return false
		}
	}
	return true
}

// dynamic reports whether the voter set is in the log, for good.
func (s *simulation) dynamic() bool {
	set, _ := votersBelow(s.check.committed, forever)
	return s.kraft > 0 || set != nil
}

// upgrade raises kraft.version where the voters are static.
func (s *simulation) upgrade() {
	p := s.leader()
	if s.kraft > 0 || p == nil {
		return
	}
	q, epoch := p.q, p.q.election.Epoch
	p.node.Do("upgrade", func() {
		switch err := q.UpgradeKRaftVersion(epoch, 1, s.world.Workload.Chance(0.2)); {
		case err == nil:
			s.world.Count("kraft.version upgrade")
		case errors.Is(err, kerr.UnknownServerError), errors.Is(err, kerr.InvalidUpdateVersion):
			s.world.Count("kraft.version upgrade refused: a voter is not known")
		case errors.Is(err, ErrNotLeader), errors.Is(err, ErrEpochFenced):
		default:
			s.fail("%s: upgrade of kraft.version: %v", p.name, err)
		}
	})
}

// move has a machine that is down listen elsewhere from its next start. One at a time, and only where the others are a majority
// without it: nobody finds it before it has told the leader.
func (s *simulation) move(p *peer) {
	if !s.dynamic() || s.moved != nil || s.wiped != nil || !p.cfg.Voter || !s.allSetsHave(3) {
		return
	}
	s.world.Count("voter listens elsewhere")
	p.cfg.Listeners = []Endpoint{{p.cfg.Listeners[0].Name, p.cfg.Listeners[0].Host, p.cfg.Listeners[0].Port + 1}}
	s.moved = p
}

// listensWhereSaid reports whether the committed voters have a machine where it is, or not at all.
func (s *simulation) listensWhereSaid(p *peer) bool {
	set, _ := votersBelow(s.check.committed, forever)
	if set == nil {
		return false
	}
	v := set.Get(p.id)
	return v == nil || v.Endpoints[0] == p.cfg.Listeners[0]
}

// survivors chooses who comes back after the faults: usually everybody, sometimes only a majority of every voter set that may be in
// force, and the others stay dead for good.
func (s *simulation) survivors() []*peer {
	all := append([]*peer(nil), s.peers...)
	w := s.world.Workload
	if !w.Chance(0.3) || s.moved != nil {
		return all
	}
	for range 2 {
		i := w.IntN(len(all))
		gone := all[i]
		rest := append(append([]*peer(nil), all[:i]...), all[i+1:]...)
		if len(rest) > 0 && s.enough(rest) {
			s.world.Count("stays dead")
			gone.crash()
			all = rest
		}
	}
	return all
}

// enough reports whether these are a majority of every voter set that any log says is in force.
func (s *simulation) enough(living []*peer) bool {
	for _, l := range s.check.logs {
		set, _ := l.voters()
		n := 0
		for _, p := range living {
			if set.Contains(p.cfg.key()) {
				n++
			}
		}
		if set.Len() > 0 && n <= set.Len()/2 {
			return false
		}
	}
	return true
}

// withoutErrors is a disk that does what it is told.
func withoutErrors(f sim.DiskFaults) sim.DiskFaults {
	return sim.DiskFaults{Torn: f.Torn, Garbled: f.Garbled}
}
