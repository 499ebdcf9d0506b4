package raft

import (
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/protocol"
)

// earlyCluster is a quorum with a leader that has committed something.
func earlyCluster(t *testing.T, seed uint64, voters int) (c *cluster, run func(time.Duration, func() bool) bool) {
	w := sim.NewWorld(seed, sim.Options{TraceLength: 5000})
	c = &cluster{world: w, kraft: int16(seed % 2), onDisk: true}
	c.fail = func(format string, args ...any) {
		t.Helper()
		w.Report(t.Output(), 3000)
		t.Fatalf("seed %d, %d voters: "+format, append([]any{seed, voters}, args...)...)
	}
	c.add(voters, 0)
	for _, p := range c.peers {
		p.start()
	}
	run = func(d time.Duration, until func() bool) bool {
		return w.RunUntil(d, func() bool { return until != nil && until() })
	}
	if !run(time.Minute, func() bool { return c.leads(nil) }) {
		c.fail("no leader after a minute")
	}
	run(5*time.Second, nil)
	return c, run
}

// leads reports whether somebody other than old leads, and has committed a record of its epoch.
func (c *cluster) leads(old *peer) bool {
	p := c.leader()
	return p != nil && p != old && p.q.highWatermark > p.q.state.(*leader).epochStart
}

// A killed leader is replaced long before the fetch timeout, whatever the number of voters, and by one epoch in most cases.
func TestLeaderKilled(t *testing.T) {
	var took []time.Duration
	oneEpoch := 0
	for seed := range uint64(60) {
		c, run := earlyCluster(t, seed, 3+int(seed%3)*2)
		old := c.leader()
		epoch, began := old.q.election.Epoch, c.world.Now()
		old.node.Kill()
		if !run(10*time.Second, func() bool { return c.leads(old) }) {
			c.fail("no leader ten seconds after the other one was killed")
		}
		took = append(took, c.world.Now()-began)
		if c.leader().q.election.Epoch == epoch+1 {
			oneEpoch++
		}
	}
	slices.Sort(took)
	t.Logf("median %v, slowest %v; %d of %d in one epoch", took[len(took)/2], took[len(took)-1], oneEpoch, len(took))
	if took[len(took)/2] > 100*time.Millisecond || took[len(took)-1] > 500*time.Millisecond || oneEpoch < len(took)*9/10 {
		t.Error("that is no early election")
	}
}

// As long as the leader lives, broken connections depose it not, nor do refused ones that a minority sees, nor a silence that is
// shorter than the fetch timeout. And what it appends goes on being committed.
func TestLeaderLives(t *testing.T) {
	rounds := 0
	for seed := range uint64(30) {
		c, run := earlyCluster(t, seed, 3+int(seed%3)*2)
		c.sent = func(from *peer, _ destination, _ protocol.Request) {
			if s, ok := from.q.state.(*prospective); ok && s.early != nil {
				rounds++
			}
		}
		l := c.leader()
		epoch := l.q.election.Epoch
		others := slices.DeleteFunc(slices.Clone(c.peers), func(p *peer) bool { return p == l })
		r := c.world.Workload
		for range 40 {
			switch r.IntN(3) {
			case 0: // all at once
				for _, p := range others {
					c.world.Reset(l.name, p.name)
				}
			case 1: // a minority, for a while
				for _, p := range others[:1+r.IntN(len(others)/2)] {
					c.world.Refuse(p.name, l.name)
					c.world.Reset(l.name, p.name)
				}
			case 2:
				l.node.Freeze()
				run(r.Between(0, 1200*time.Millisecond), nil)
				l.node.Thaw()
			}
			run(r.Between(0, 400*time.Millisecond), nil)
			for _, p := range others {
				c.world.Admit(p.name, l.name)
			}
			before := l.q.disk.EndOffset()
			l.node.Do("append", func() {
				if _, err := l.q.PrepareAppend(epoch, values(1)); err != nil {
					c.fail("append: %v", err)
				}
				l.q.SchedulePreparedAppend()
			})
			if !run(time.Second, func() bool { return l.q.highWatermark > before }) {
				c.fail("an append is not committed within a second")
			}
			if now := c.leader(); now != l || l.q.election.Epoch != epoch {
				c.fail("%s no longer leads epoch %d", l.name, epoch)
			}
		}
	}
	if rounds == 0 {
		t.Error("nobody has asked for a pre-vote early")
	}
}
