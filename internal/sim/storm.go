package sim

import (
	"time"

	envsim "github.com/ottla-io/ottla/internal/env/sim"
)

// Storm draws what happens to a cluster. Each seed turns most kinds off and a few up.
type Storm struct {
	c *Cluster
	// How likely each kind is at a step, relative to the others.
	weights [stormKinds]int
	total   int
	unclean *Member // was killed or lost its power, and perhaps not all ISRs are whole again
	lossy   bool    // unclean, and it may have lost something
}

// The kinds of trouble.
const (
	killMember  = iota // and it comes back
	stopInOrder        // and it comes back
	cutPower           // of one broker at a time: what it had not synced may be gone
	freeze             // for less or more than a session
	cutLink            // in one direction or both
	isolate            // a member from all others
	breakFrames        // late, lost and reset connections for a while
	stormKinds
)

// stormNames are the names that are counted.
var stormNames = [stormKinds]string{"storm kill", "storm stop", "storm power cut", "storm freeze", "storm cut link", "storm isolate", "storm bad network"}

// NewStorm draws the mix.
func NewStorm(c *Cluster) *Storm {
	s := &Storm{c: c}
	for i := range s.weights {
		if c.Crashes.Chance(0.4) {
			s.weights[i] = 1 + c.Crashes.IntN(5)
			s.total += s.weights[i]
		}
	}
	if s.total == 0 {
		s.weights[killMember], s.total = 1, 1
	}
	return s
}

// Step makes one piece of trouble, and lets some time pass.
func (s *Storm) Step() {
	n := s.c.Crashes.IntN(s.total)
	for kind, w := range s.weights {
		if n -= w; n < 0 {
			s.c.Count(stormNames[kind])
			s.make(kind)
			break
		}
	}
	s.c.RunFor(s.c.Crashes.Between(0, 4*time.Second))
}

func (s *Storm) make(kind int) {
	c := s.c
	m := c.Members[c.Crashes.IntN(len(c.Members))]
	switch kind {
	case killMember:
		if s.mayEnd(m, false) {
			s.end(m, m.machine.Kill)
		}
	case stopInOrder:
		s.stop(m)
	case cutPower:
		if s.mayEnd(m, true) {
			s.end(m, m.machine.Crash)
		}
	case freeze:
		machine := m.machine
		machine.Freeze()
		c.After(c.Crashes.Between(0, 8*time.Second), "thaw", machine.Thaw)
	case cutLink:
		other := c.Members[c.Crashes.IntN(len(c.Members))]
		if other == m {
			return
		}
		c.Cut(m.name, other.name)
		if c.Crashes.Chance(0.5) {
			c.Cut(other.name, m.name)
		}
		c.After(c.Crashes.Between(0, 8*time.Second), "heal", func() { c.Heal(m.name, other.name); c.Heal(other.name, m.name) })
	case isolate:
		for _, other := range c.Members {
			if other != m {
				c.Cut(m.name, other.name)
				c.Cut(other.name, m.name)
			}
		}
		c.After(c.Crashes.Between(0, 8*time.Second), "heal all", c.HealAll)
	case breakFrames:
		c.SetNetworkFaults(badNetwork())
		c.After(c.Crashes.Between(0, 8*time.Second), "good network", func() { c.SetNetworkFaults(goodNetwork()) })
	}
}

// stop ends a life of a member in order and begins the next one some time later.
func (s *Storm) stop(m *Member) {
	if !m.machine.Alive() || !m.running {
		return
	}
	m.running = false
	machine := m.machine
	machine.Do("stop", func() {
		m.node.Shutdown(func() { s.c.After(0, "stopped", func() { s.end(m, machine.Crash) }) })
	})
}

// end ends a life of a member and begins the next one some time later.
func (s *Storm) end(m *Member, how func()) {
	if !m.machine.Alive() {
		return
	}
	m.running = false
	how()
	dead := m.machine
	s.c.After(s.c.Crashes.Between(0, 6*time.Second), "restart", func() {
		if m.machine == dead {
			s.c.Restart(m)
		}
	})
}

// mayEnd: acks=all promises what is on min.insync.replicas brokers that keep it. With two of three that is as long as none loses what it had not
// synced while another one is not in step after an end that was not orderly: the controller takes every such end for one that may have lost
// something (KIP-966). Controllers sync what they answer for.
func (s *Storm) mayEnd(m *Member, lossy bool) bool {
	if !m.Broker {
		return true
	}
	recovered := s.unclean == nil || s.unclean.running && s.c.whole()
	if !recovered && (lossy || s.lossy) {
		return false
	}
	s.unclean, s.lossy = m, lossy
	return true
}

// whole reports whether all replicas of all partitions are in sync, as a running controller knows it.
func (c *Cluster) whole() bool {
	for _, m := range c.Members {
		if !m.Broker || !m.running || m.node.Broker() == nil {
			continue
		}
		for t := range m.node.Broker().Image().Topics.All() {
			for _, p := range t.Partitions {
				if len(p.ISR) != len(p.Replicas) || p.Leader < 0 {
					return false
				}
			}
		}
	}
	return true
}

// Calm ends all trouble: every member runs, every link works.
func (s *Storm) Calm() {
	c := s.c
	c.SetNetworkFaults(goodNetwork())
	c.RunFor(9 * time.Second) // whatever was to end has ended
	c.HealAll()
	for _, m := range c.Members {
		m.machine.Thaw()
		if !m.machine.Alive() || m.err != nil {
			c.Restart(m)
		}
	}
}

func goodNetwork() envsim.NetworkFaults { return envsim.NetworkFaults{} }

func badNetwork() envsim.NetworkFaults {
	return envsim.NetworkFaults{Late: 0.05, LateBy: 500 * time.Millisecond, Lose: 0.02, Reset: 0.01, DialFail: 0.1}
}
