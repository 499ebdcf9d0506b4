package raft

import (
	"path/filepath"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
)

// breakDisk lets a disk give errors from now on, of some kinds, or fill up.
func (s *simulation) breakDisk(p *peer) {
	r, f := s.world.Disks, p.node.Disk().Faults()
	some := func(share float64) float64 {
		if r.Chance(0.5) {
			return share
		}
		return 0
	}
	f.SyncError, f.WriteError, f.ShortWrite, f.ReadError, f.Slow = some(0.01), some(0.005), some(0.005), some(0.005), some(0.02)
	if r.Chance(0.2) {
		s.world.Count("disk nearly full")
		f.Capacity = 40_000
	}
	p.badDisk = true
	s.world.Count("disk goes bad")
	p.node.Disk().SetFaults(f)
}

// damage spoils a small file of a machine that is down: one that the log can make again. What cannot be made again, quorum-state and
// the snapshots, is not touched: without them a node must not vote.
func (s *simulation) damage(p *peer) {
	r := s.world.Disks
	var names []string
	for _, name := range p.node.Disk().Files() {
		switch filepath.Ext(name) {
		case ".index", ".timeindex":
			names = append(names, name)
		case "":
			if filepath.Base(name) == "leader-epoch-checkpoint" {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[r.IntN(len(names))]
	b, err := p.node.Disk().ReadFile(name)
	what := []string{"lost", "emptied", "cut"}[r.IntN(3)]
	switch {
	case err != nil:
	case what == "lost":
		err = p.node.Disk().RemoveFile(name)
	case what == "emptied":
		err = p.node.Disk().WriteFile(name, nil, 0o644)
	default:
		err = p.node.Disk().WriteFile(name, b[:r.IntN(len(b)+1)], 0o644)
	}
	if err != nil {
		s.fail("%s: damage %s: %v", p.name, name, err)
	}
	s.world.Count("file " + what)
}

// cutSomething cuts links in every shape: one direction, one machine, halves, and a machine that sees all while the others do not
// see each other.
func (s *simulation) cutSomething() {
	w, r := s.world, s.world.Crashes
	if r.Chance(s.faults.cut) {
		from, to := s.peers[r.IntN(len(s.peers))], s.peers[r.IntN(len(s.peers))]
		if r.Chance(0.5) {
			w.HealAll()
		} else if from != to {
			w.Cut(from.name, to.name)
			if r.Chance(0.7) {
				w.Cut(to.name, from.name)
			}
		}
	}
	if !r.Chance(s.faults.partition) {
		return
	}
	w.HealAll()
	groups := make([][]string, 2)
	switch r.IntN(4) {
	case 0:
		w.Count("partition healed")
		return
	case 1:
		w.Count("leader cut off")
		if l := s.leader(); l != nil {
			groups[0] = []string{l.name}
			for _, p := range s.peers {
				if p != l {
					groups[1] = append(groups[1], p.name)
				}
			}
		}
	case 2:
		w.Count("halves")
		for _, p := range s.peers {
			i := r.IntN(2)
			groups[i] = append(groups[i], p.name)
		}
	case 3:
		w.Count("one sees all")
		groups = nil
		hub := r.IntN(len(s.peers))
		for i, p := range s.peers {
			if i != hub {
				groups = append(groups, []string{p.name})
			}
		}
	}
	w.Partition(groups...)
}

// repeatLater sends some requests a second time, perhaps much later: the network has kept a copy, or a former connection still
// delivers.
func (s *simulation) repeatLater(from *peer, to destination, req protocol.Request) {
	if !s.world.Net.Chance(s.faults.stale) {
		return
	}
	var version int16
	switch req.(type) {
	case *protocol.VoteRequest:
		version = 2
	case *protocol.BeginQuorumEpochRequest, *protocol.EndQuorumEpochRequest, *protocol.FetchSnapshotRequest:
		version = 1
	case *protocol.FetchRequest:
		version = 18
	default:
		return
	}
	node, net := from.node, from.q.net.(*watchedTransport).transport
	s.world.After(s.world.Net.Between(0, 3*time.Second), "stale", func() {
		node.Do("stale", func() {
			s.world.Count("request sent again later")
			net.send(to, req, version, time.Second, func(protocol.Response, error) {})
		})
	})
}
