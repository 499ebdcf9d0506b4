//go:build interop

package cluster

import (
	"syscall"
	"testing"
	"time"
)

// One broker after the other is killed, frozen and restarted in order, and the active controller is killed, while records are written.
// All that was acknowledged is read back, once and in order, and the replicas have the same bytes.
func TestThreeBrokersInTrouble(t *testing.T) {
	c := newCluster(t, 3, 3)
	l := c.load()
	l.flows()
	for _, b := range c.brokers {
		c.leads(b.ID)
		gap := l.gap()
		b.server.Kill()
		c.without(b.ID)
		l.flows()
		b.restart(t)
		c.whole()
		t.Logf("broker %d killed: at most %s without any acknowledgement", b.ID, gap().Round(time.Millisecond))
	}
	for _, b := range c.brokers[:2] {
		c.leads(b.ID)
		gap := l.gap()
		b.server.Signal(syscall.SIGSTOP)
		c.without(b.ID)
		l.flows()
		b.server.Signal(syscall.SIGCONT)
		c.whole()
		t.Logf("broker %d frozen: at most %s without any acknowledgement", b.ID, gap().Round(time.Millisecond))
	}
	for _, m := range c.controllers {
		gap := l.gap()
		m.server.Kill()
		l.flows()
		m.restart(t)
		t.Logf("controller %d killed: at most %s without any acknowledgement", m.ID, gap().Round(time.Millisecond))
	}
	for _, b := range c.brokers {
		gap := l.gap()
		b.server.Stop(t)
		l.flows()
		b.restart(t)
		c.whole()
		t.Logf("broker %d restarted: at most %s without any acknowledgement", b.ID, gap().Round(time.Millisecond))
	}
	l.flows()
	l.end()
	l.readBack()
	c.sameLogs(t)
	t.Logf("%d records", l.total())
}

// A broker of Apache Kafka and two of ours have the replicas of the same partitions; each kind leads and fails while records are written, under
// controllers of either kind.
func TestBrokersOfBothKinds(t *testing.T) {
	for name, kafka := range map[string][]int32{
		"under our controller": {3}, "under Kafka's controller": {3, 101}, "two of Kafka": {2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 3, kafka...)
			l := c.load()
			l.flows()
			for _, b := range c.brokers[1:] {
				c.leads(b.ID)
				b.server.Kill()
				c.without(b.ID)
				l.flows()
				b.restart(t)
				c.whole()
			}
			c.leads(3)
			l.flows()
			c.brokers[2].server.Signal(syscall.SIGTERM)
			c.without(3)
			l.flows()
			c.brokers[2].server.Kill()
			c.brokers[2].restart(t)
			c.whole()
			l.end()
			l.readBack()
			c.sameLogs(t)
			t.Logf("%d records", l.total())
		})
	}
}
