package cluster

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/node"
)

// Node is one node of a cluster.
type Node struct {
	ID                 int32
	Broker, Controller bool
	Dir                string // with server.properties, and data below it
	Addr               string // of the broker, host:port
	ControllerAddr     string // of the controller, host:port

	c   *Cluster
	cfg *config.Node

	mu   sync.Mutex
	life *life // nil: it does not run
}

// life is a node from its start to its end.
type life struct {
	env  env.Env
	node *node.Node
	over chan struct{} // closed when it was given up without shutting down
}

// Start starts the node, and returns when it serves; at once if it runs. Errors: what node.Open says; a fault before it served;
// it was stopped or given up meanwhile.
func (n *Node) Start() error {
	result := make(chan error, 1)
	report := func(err error) {
		select {
		case result <- err:
		default: // the first is what counts
		}
	}
	n.mu.Lock()
	if n.life != nil {
		n.mu.Unlock()
		return nil
	}
	l, err := n.open(report)
	n.life = l
	n.mu.Unlock()
	if err != nil {
		return err
	}
	l.node.Start(report)
	select {
	case err := <-result:
		return err
	case <-l.over:
		return errors.New("the node was killed before it served")
	}
}

// open begins a life.
func (n *Node) open(report func(error)) (*life, error) {
	o := real.Options{Listen: n.c.ports.Listen}
	if n.c.o.Logger != nil {
		o.Logger = n.c.o.Logger(n)
	}
	fault := func(err error) {
		report(err)
		if n.c.o.OnFault != nil {
			n.c.o.OnFault(n, err)
		}
	}
	o.OnPanic = func(where string, reason any, stack []byte) {
		fault(fmt.Errorf("a broken invariant in %s: %v\n%s", where, reason, stack))
	}
	l := &life{env: n.c.o.Env(n, o), over: make(chan struct{})}
	var err error
	l.node, err = node.Open(node.Options{Env: l.env, Config: n.cfg, Hostname: "127.0.0.1", OnFault: fault})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Stop shuts the node down in order, and returns when that is done. It returns at once if the node does not run.
func (n *Node) Stop() {
	n.mu.Lock()
	l := n.life
	n.mu.Unlock()
	if l == nil {
		return
	}
	done := make(chan struct{})
	l.node.Shutdown(func() { close(done) })
	select {
	case <-done:
	case <-l.over:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == l {
		n.life = nil
	}
}

// Forget takes the node for not running: its env was killed. Who waits for it does not wait any longer.
func (n *Node) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life != nil {
		close(n.life.over)
		n.life = nil
	}
}

// Running says whether the node was started, and neither stopped nor forgotten.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life != nil
}

// Leader is the id of the controller that leads the quorum as this node knows it; false if it knows none, or does not run.
func (n *Node) Leader() (int32, bool) {
	n.mu.Lock()
	l := n.life
	n.mu.Unlock()
	if l == nil {
		return 0, false
	}
	id := l.node.Quorum().LeaderAndEpoch().LeaderID
	return id, id >= 0
}
