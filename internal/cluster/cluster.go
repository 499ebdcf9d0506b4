package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/format"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Options say what cluster is to be made.
type Options struct {
	// Dir holds a folder for each node. If nodes are there already they are taken as they are, with their ports and settings.
	Dir string
	// Brokers and Controllers are how many. Without controllers the first broker is one too.
	Brokers, Controllers int
	// Port is that of the first broker; the other brokers follow, and then the controllers. 0 = any free ones.
	Port int
	// Settings go into the server.properties of each node, and win over what stands there by itself.
	Settings []Setting
	// Logger is that of a node.
	Logger func(n *Node) *slog.Logger
	// Env makes the env of a node's life. Default: real.New.
	Env func(n *Node, o real.Options) env.Env
	// OnFault is told why a node cannot go on. Any goroutine.
	OnFault func(n *Node, err error)
}

// Setting is a key of server.properties with its value.
type Setting struct{ Key, Value string }

// Cluster is the nodes of a cluster.
type Cluster struct {
	o     Options
	ports *real.Ports
	Nodes []*Node // brokers first
}

// New makes the folders of a cluster, or takes what is there. Nothing runs yet. Errors: folders that belong to a cluster of another
// shape; wrong settings; ports in use where they were chosen.
func New(o Options) (*Cluster, error) {
	if o.Brokers < 1 || o.Brokers > 100 || o.Controllers < 0 || o.Controllers > 100 {
		return nil, fmt.Errorf("a cluster of %d brokers and %d controllers: there must be 1 to 100 brokers, and 0 to 100 controllers", o.Brokers, o.Controllers)
	}
	if o.Env == nil {
		o.Env = func(_ *Node, o real.Options) env.Env { return real.New(o) }
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	c := &Cluster{o: o, ports: &real.Ports{}}
	c.shape()
	e := real.New(real.Options{})
	found, err := c.find(e.FS())
	if err == nil && !found {
		err = c.create(e)
	}
	if err == nil {
		err = c.load(e.FS())
	}
	if err != nil {
		return nil, errors.Join(err, c.ports.Close())
	}
	return c, nil
}

// shape names the nodes.
func (c *Cluster) shape() {
	add := func(id int, broker, controller bool) {
		name := fmt.Sprintf("broker-%d", id)
		if !broker {
			name = fmt.Sprintf("controller-%d", id)
		}
		c.Nodes = append(c.Nodes, &Node{c: c, ID: int32(id), Broker: broker, Controller: controller, Dir: filepath.Join(c.o.Dir, name)})
	}
	for i := range c.o.Brokers {
		add(1+i, true, i == 0 && c.o.Controllers == 0)
	}
	for i := range c.o.Controllers {
		add(firstController+i, false, true)
	}
}

// find looks for the folders of an earlier run.
func (c *Cluster) find(fsys env.FS) (bool, error) {
	entries, err := fsys.ReadDir(c.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	there := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, "broker-") || strings.HasPrefix(name, "controller-") {
			there[filepath.Join(c.o.Dir, name)] = true
		}
	}
	if len(there) == 0 {
		return false, nil
	}
	whole := len(there) == len(c.Nodes)
	for _, n := range c.Nodes {
		whole = whole && there[n.Dir]
	}
	if !whole {
		return false, fmt.Errorf("%s holds another cluster, of %d nodes: ask for as many brokers and controllers as it has, or name another folder", c.o.Dir, len(there))
	}
	return true, nil
}

// create chooses ports, writes the configurations and formats the folders.
func (c *Cluster) create(e *real.Env) error {
	if err := c.choosePorts(); err != nil {
		return err
	}
	p := &plan{o: c.o}
	var bootstrap, voters []string
	for _, n := range c.Nodes {
		if n.Controller {
			bootstrap = append(bootstrap, n.ControllerAddr)
			voters = append(voters, fmt.Sprintf("%d@%s:%s", n.ID, n.ControllerAddr, uuid.Draw(e.Rand().Read)))
		}
	}
	p.bootstrap = strings.Join(bootstrap, ",")
	clusterID := uuid.Draw(e.Rand().Read).String()
	return c.each(func(n *Node) error {
		cfg, err := config.Load(propertiesFile, []byte(p.properties(n)))
		if err != nil {
			return err
		}
		o := format.Options{Config: cfg, ClusterID: clusterID, Now: e.Now(), InitialControllers: strings.Join(voters, ",")}
		if !n.Controller {
			o.InitialControllers, o.NoInitialControllers = "", true
		}
		if err := e.FS().MkdirAll(n.Dir, 0o755); err != nil {
			return err
		}
		if _, err := format.Format(e.FS(), e.Rand(), o); err != nil {
			return err
		}
		return env.WriteFileAtomic(e.FS(), filepath.Join(n.Dir, propertiesFile), []byte(p.properties(n)), 0o644)
	})
}

func (c *Cluster) choosePorts() (err error) {
	next := c.o.Port
	choose := func() (addr string) {
		if next > 0 {
			addr = "127.0.0.1:" + strconv.Itoa(next)
			next++
		} else if err == nil {
			addr, err = c.ports.Reserve()
		}
		return addr
	}
	for _, n := range c.Nodes {
		if n.Broker {
			n.Addr = choose()
		}
	}
	for _, n := range c.Nodes {
		if n.Controller {
			n.ControllerAddr = choose()
		}
	}
	return err
}

// load reads the configurations.
func (c *Cluster) load(fsys env.FS) error {
	for _, n := range c.Nodes {
		path := filepath.Join(n.Dir, propertiesFile)
		text, err := env.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		if n.cfg, err = config.Load(path, text); err != nil {
			return err
		}
		for _, l := range n.cfg.Listeners {
			if n.cfg.IsControllerListener(l.Name) {
				n.ControllerAddr = l.Addr()
			} else {
				n.Addr = l.Addr()
			}
		}
	}
	return nil
}

// Start starts all nodes, and returns when they serve. After an error Close is to be called.
func (c *Cluster) Start() error { return c.each((*Node).Start) }

// Close stops what runs: brokers first, as they need a controller to leave in order.
func (c *Cluster) Close() {
	for _, brokers := range []bool{true, false} {
		_ = c.each(func(n *Node) error {
			if n.Broker == brokers {
				n.Stop()
			}
			return nil
		})
	}
	_ = c.ports.Close()
}

// BootstrapServers is what clients are given.
func (c *Cluster) BootstrapServers() string {
	var list []string
	for _, n := range c.Nodes {
		if n.Broker {
			list = append(list, n.Addr)
		}
	}
	return strings.Join(list, ",")
}

// each does something with all nodes at the same time.
func (c *Cluster) each(fn func(n *Node) error) error {
	errs := make([]error, len(c.Nodes))
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		all.Go(func() {
			if err := fn(n); err != nil {
				errs[i] = fmt.Errorf("node %d: %w", n.ID, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
