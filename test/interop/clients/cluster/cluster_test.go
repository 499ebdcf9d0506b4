//go:build interop

package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ottla-io/ottla/test/interop/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// settings make time-outs short, so that the tests are.
var settings = []string{
	"broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000", "min.insync.replicas=2",
	"default.replication.factor=3", "offsets.topic.replication.factor=3", "controlled.shutdown.enable=true",
}

// topic has six partitions on three brokers.
const (
	topic      = "t"
	partitions = 6
)

// member is a node of the cluster and its process.
type member struct {
	*servertest.Cluster
	kafka  bool // run by Apache Kafka
	server *servertest.Server
}

func (m *member) launch(t testing.TB) {
	if m.kafka {
		m.server = m.LaunchKafka(t)
	} else {
		m.server = m.Launch(t)
	}
}

func (m *member) restart(t testing.TB) {
	m.launch(t)
	m.server.WaitFor(t, servertest.Started)
}

// cluster is all members and an admin client.
type cluster struct {
	t                    testing.TB
	controllers, brokers []*member
	client               *kgo.Client
	admin                *kadm.Client
}

// newCluster starts a cluster with topic t. The brokers and controllers whose ids are named are Kafka's.
func newCluster(t testing.TB, controllers, brokers int, kafka ...int32) *cluster {
	c := &cluster{t: t}
	cs, bs := servertest.Nodes(t, controllers, brokers, settings...)
	for _, n := range append(cs, bs...) {
		m := &member{Cluster: n, kafka: slices.Contains(kafka, n.ID)}
		if m.kafka {
			m.FormatByKafka(t)
		} else {
			m.Format(t)
		}
		m.launch(t)
		if n.ID < 100 {
			c.brokers = append(c.brokers, m)
		} else {
			c.controllers = append(c.controllers, m)
		}
	}
	for _, m := range append(c.controllers, c.brokers...) {
		m.server.WaitFor(t, servertest.Started)
	}
	c.client = c.newClient()
	c.admin = kadm.NewClient(c.client)
	if _, err := c.admin.CreateTopic(c.within(), partitions, 3, nil, topic); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) newClient(o ...kgo.Opt) *kgo.Client {
	var seeds []string
	for _, b := range c.brokers {
		seeds = append(seeds, b.Bootstrap)
	}
	client, err := kgo.NewClient(append(o, kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(100*time.Millisecond), kgo.DialTimeout(time.Second),
		// A broker that is frozen takes connections and answers nothing.
		kgo.RequestTimeoutOverhead(time.Second), kgo.ProduceRequestTimeout(4*time.Second))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

func (c *cluster) within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c.t.Cleanup(cancel)
	return ctx
}

// waitFor waits until something is so; it is other processes that make it so.
func (c *cluster) waitFor(what string, is func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("after a minute still not: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// details are what a broker that runs says of the topic; nil if none answers soon, as one that is frozen does not.
func (c *cluster) details() kadm.PartitionDetails {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	md, err := c.admin.Metadata(ctx, topic)
	if err != nil {
		return nil
	}
	return md.Topics[topic].Partitions
}

// whole waits until every partition has a leader and three replicas in sync.
func (c *cluster) whole() {
	c.t.Helper()
	c.waitFor("all replicas in sync", func() bool {
		d := c.details()
		for _, p := range d {
			if p.Err != nil || p.Leader < 0 || len(p.ISR) != 3 {
				return false
			}
		}
		return len(d) == partitions
	})
}

// without waits until a broker leads nothing and is in no ISR.
func (c *cluster) without(id int32) {
	c.t.Helper()
	c.waitFor(fmt.Sprintf("broker %d is in no ISR", id), func() bool {
		d := c.details()
		for _, p := range d {
			if p.Leader < 0 || p.Leader == id || slices.Contains(p.ISR, id) {
				return false
			}
		}
		return len(d) == partitions
	})
}

// with waits until a broker leads some partition: what leads only when the others are away would show nothing.
func (c *cluster) leads(id int32) {
	c.t.Helper()
	if _, err := c.admin.ElectLeaders(c.within(), kadm.ElectPreferredReplica, nil); err != nil {
		c.t.Fatal(err)
	}
	c.waitFor(fmt.Sprintf("broker %d leads", id), func() bool {
		for _, p := range c.details() {
			if p.Leader == id {
				return true
			}
		}
		return false
	})
}
