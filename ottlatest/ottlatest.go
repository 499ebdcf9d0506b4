package ottlatest

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/cluster"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
)

// patience bounds what takes milliseconds on a machine that has time for it.
const patience = time.Minute

// Cluster is a running cluster. Its methods end the test with t.Fatal where something does not work, and so belong to its goroutine.
type Cluster struct {
	t     testing.TB
	c     *cluster.Cluster
	nodes []*Node
}

// Start makes a cluster, and returns when all nodes and topics can be used. It ends with the test.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	o := options{brokers: 1, level: slog.LevelError}
	for _, opt := range opts {
		opt(&o)
	}
	if o.controllers == 0 && o.brokers > 1 {
		o.controllers = 1
	}
	dir, err := os.MkdirTemp("", "ottlatest-")
	if err != nil {
		t.Fatalf("ottlatest: %v", err)
	}
	c := &Cluster{t: t}
	t.Cleanup(func() {
		c.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("ottlatest: remove the cluster's folder: %v", err)
		}
	})
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: o.level}))
	c.c, err = cluster.New(cluster.Options{
		Dir: dir, Brokers: o.brokers, Controllers: o.controllers,
		Settings: append([]cluster.Setting{{Key: "offsets.topic.num.partitions", Value: "5"}, {Key: "transaction.state.log.num.partitions", Value: "5"}}, o.settings...),
		Logger:   func(n *cluster.Node) *slog.Logger { return log.With("node", n.ID) },
		Env:      func(n *cluster.Node, o real.Options) env.Env { return c.node(n).begin(o) },
		OnFault:  func(n *cluster.Node, err error) { c.node(n).fault(err) },
	})
	if err != nil {
		t.Fatalf("ottlatest: %v", err)
	}
	for _, n := range c.c.Nodes {
		c.nodes = append(c.nodes, &Node{c: c, n: n})
	}
	if err := within(c.c.Start); err != nil {
		t.Fatalf("ottlatest: start: %v", err)
	}
	for _, topic := range o.topics {
		c.CreateTopic(topic.name, topic.partitions)
	}
	return c
}

// within calls something that may hang.
func within(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("it was not done after %v", patience)
	}
}

func (c *Cluster) node(n *cluster.Node) *Node {
	i := slices.IndexFunc(c.nodes, func(m *Node) bool { return m.n == n })
	return c.nodes[i]
}

// Close ends the cluster, as the end of the test does: all nodes at once, as what they would write is thrown away anyway.
func (c *Cluster) Close() {
	for _, n := range c.nodes {
		n.kill()
	}
	if c.c != nil {
		c.c.Close()
	}
}

// Addrs are the brokers' addresses, host:port, running or not.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Brokers() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// BootstrapServers are the brokers' addresses in one string, as many clients want them.
func (c *Cluster) BootstrapServers() string { return strings.Join(c.Addrs(), ",") }

// Brokers are the brokers in the order of their ids.
func (c *Cluster) Brokers() []*Node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *Node) bool { return !n.n.Broker })
}

// Controllers are the controllers in the order of their ids.
func (c *Cluster) Controllers() []*Node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *Node) bool { return !n.n.Controller })
}

// Node is the node with an id.
func (c *Cluster) Node(id int32) *Node {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.ID() == id {
			return n
		}
	}
	c.t.Fatalf("ottlatest: there is no node %d", id)
	return nil
}

// ActiveController waits until the controllers that answer have a leader, and returns it.
func (c *Cluster) ActiveController() *Node {
	c.t.Helper()
	var found *Node
	c.eventually("find the active controller", func() error {
		for _, n := range c.Controllers() {
			if id, ok := n.n.Leader(); ok && id == n.ID() && n.answers() {
				found = n
				return nil
			}
		}
		return fmt.Errorf("no controller leads")
	})
	return found
}

// eventually repeats something until it gives no error.
func (c *Cluster) eventually(what string, try func() error) {
	c.t.Helper()
	var err error
	for start := time.Now(); time.Since(start) < patience; time.Sleep(time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	c.t.Fatalf("ottlatest: %s: %v", what, err)
}
