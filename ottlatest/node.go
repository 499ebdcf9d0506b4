package ottlatest

import (
	"errors"
	"sync"

	"github.com/ottla-io/ottla/internal/cluster"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/process"
	"github.com/ottla-io/ottla/internal/env/real"
)

// Node is a broker, a controller, or both.
type Node struct {
	c *Cluster
	n *cluster.Node

	mu      sync.Mutex
	life    *process.Env // the present one, or the last
	frozen  bool
	cut     bool
	cutFrom map[*Node]bool
}

// begin makes the env of the next life. What cut the node off still does.
func (n *Node) begin(o real.Options) env.Env {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.life = process.New(o)
	if n.cut {
		n.life.CutOff()
	}
	for other := range n.cutFrom {
		n.life.CutOff(other.addrs()...)
	}
	return n.life
}

// fault ends the node: it has told why it cannot go on. That a killed one gets no further is none.
func (n *Node) fault(err error) {
	if errors.Is(err, process.ErrKilled) {
		return
	}
	n.c.t.Errorf("ottlatest: node %d: %v", n.ID(), err)
	go n.kill()
}

// ID is the node's id.
func (n *Node) ID() int32 { return n.n.ID }

// Addr is where the node listens, host:port: for clients, if it is a broker, else for other nodes.
func (n *Node) Addr() string {
	if n.n.Broker {
		return n.n.Addr
	}
	return n.n.ControllerAddr
}

// addrs are all addresses of the node.
func (n *Node) addrs() (list []string) {
	for _, a := range []string{n.n.Addr, n.n.ControllerAddr} {
		if a != "" {
			list = append(list, a)
		}
	}
	return list
}

// Dir is the folder of the node. Its log directory is the folder data in it.
func (n *Node) Dir() string { return n.n.Dir }

// Running says whether the node was started, and neither stopped nor killed. A frozen node runs.
func (n *Node) Running() bool { return n.n.Running() }

// answers says whether others get through to the node.
func (n *Node) answers() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.frozen && !n.cut && n.n.Running()
}

// Start starts a node that was stopped or killed, with its data and at its address, and returns when it serves: a broker that was
// killed waits until its former session has run out, unless the controller knows better.
func (n *Node) Start() {
	n.c.t.Helper()
	if err := within(n.n.Start); err != nil {
		n.c.t.Fatalf("ottlatest: start node %d: %v", n.ID(), err)
	}
}

// Stop shuts the node down in order: its leaders move, its files are closed. A frozen node is thawed for that, one that was cut off
// reconnected.
func (n *Node) Stop() {
	n.c.t.Helper()
	n.Thaw()
	n.Reconnect()
	err := within(func() error { n.n.Stop(); return nil })
	n.kill() // what is left of it: connections that still close
	if err != nil {
		n.c.t.Fatalf("ottlatest: stop node %d: %v", n.ID(), err)
	}
}

// Kill ends the node at once, as kill -9 does. Its connections are reset, and what it has written stays.
func (n *Node) Kill() { n.kill() }

func (n *Node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = false
	if n.life != nil {
		n.n.Forget()
		n.life.Kill()
	}
}

// Freeze stops the node in the middle of what it does, as kill -STOP does: it still holds its connections and files, but does nothing,
// until Thaw. Its clock goes on.
func (n *Node) Freeze() { n.freeze(true) }

// Thaw lets a frozen node go on, as kill -CONT does.
func (n *Node) Thaw() { n.freeze(false) }

func (n *Node) freeze(frozen bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == nil {
		return
	}
	n.frozen = frozen
	if frozen {
		n.life.Freeze()
	} else {
		n.life.Thaw()
	}
}

// CutOff cuts the node off from these others, or, if none are named, from everybody, clients too. Nothing that is sent arrives, and no
// connection breaks for it, until Reconnect. It outlasts restarts.
func (n *Node) CutOff(others ...*Node) {
	if len(others) == 0 {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cut = true
		n.life.CutOff()
	}
	for _, other := range others {
		n.cutOff(other)
		other.cutOff(n)
	}
}

func (n *Node) cutOff(other *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cutFrom == nil {
		n.cutFrom = map[*Node]bool{}
	}
	n.cutFrom[other] = true
	n.life.CutOff(other.addrs()...)
}

// Reconnect ends what CutOff began. What was sent meanwhile arrives then.
func (n *Node) Reconnect() {
	n.mu.Lock()
	others := n.cutFrom
	n.cutFrom, n.cut = nil, false
	n.life.Reconnect()
	n.mu.Unlock()
	for other := range others {
		other.mu.Lock()
		delete(other.cutFrom, n)
		other.life.Reconnect(n.addrs()...)
		other.mu.Unlock()
	}
}
