package node

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/ottla-io/ottla/internal/broker"
	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/format"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/server"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Options are what a node is made from.
type Options struct {
	Env    env.Env
	Config *config.Node
	// Hostname is what is advertised for listeners without a host.
	Hostname string
	// OnFault is told, once or more, why the node cannot go on: a disk that failed, a state that cannot be. What the
	// node acknowledged is safe, but it must not answer any more; the process should end. Any goroutine.
	OnFault func(error)
}

// Node is one process of a cluster.
type Node struct {
	env      env.Env
	cfg      *config.Node
	hostname string
	onFault  func(error)

	incarnation uuid.UUID // of the broker
	ensemble    *format.Ensemble
	logs        *storage.Manager // nil without the role broker
	lock        io.Closer        // of the metadata directory, if logs does not have it
	quorum      *raft.Quorum
	ctrl        *controller.Controller // nil without the role controller
	loader      *image.Loader
	channels    []*broker.ControllerChannel
	register    *broker.ControllerRegistration // nil without the role controller
	replicas    *replica.Manager
	alterISR    *broker.AlterPartitions
	groups      *group.Service
	broker      *broker.Broker // nil without the role broker
	server      *server.Server

	mu        sync.Mutex
	addresses map[string]string // by listener
	stopping  bool
	stopped   []func()
	ended     bool
}

// Open locks the node's folders, listens on its ports, reads the folders and wires everything. Nothing runs before Start.
// Errors: folders that are not formatted, or of another node or cluster; folders in use by another process; ports in
// use; settings that cannot be served. Nothing was written then but the lock files.
func Open(o Options) (*Node, error) {
	n := &Node{env: o.Env, cfg: o.Config, hostname: o.Hostname, onFault: o.OnFault, addresses: map[string]string{}}
	if n.onFault == nil {
		n.onFault = func(err error) { panic(fmt.Sprintf("node: %v", err)) }
	}
	if err := checkListeners(n.cfg); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		n.abandon()
		return nil, err
	}
	return n, nil
}

func (n *Node) open() error {
	var err error
	if n.ensemble, err = format.Verify(n.env, n.cfg); err != nil {
		return err
	}
	if err := n.openLogs(); err != nil {
		return err
	}
	o := server.OptionsFrom(n.cfg)
	o.ClusterID, o.Image, o.KRaftVersion = n.ensemble.ClusterID, n.image, func() int16 { return n.quorum.KRaftVersion() }
	n.server = server.New(n.env, o)
	if err := n.listen(); err != nil { // before the first file is written; and endpoints may want to know a port
		return err
	}
	for _, l := range n.cfg.Listeners {
		n.env.Logger().Info(fmt.Sprintf("Awaiting socket connections on %s.", n.addresses[l.Name]), "listener", l.Name)
	}
	cfg := raft.ConfigFrom(n.cfg, n.ensemble.ClusterID, n.ensemble.MetadataID())
	cfg.OnFault = n.onFault
	if cfg.Voter {
		cfg.Listeners = nil
		for _, e := range n.controllerEndpoints() {
			cfg.Listeners = append(cfg.Listeners, raft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
	}
	if n.quorum, err = raft.Open(n.env, cfg); err != nil {
		return err
	}
	n.wire()
	return nil
}

// openLogs locks the directories.
func (n *Node) openLogs() error {
	o := storage.ManagerOptionsFrom(n.cfg)
	o.Settings = func(topic string) config.Topic { return n.image().Configs.Topic(n.cfg, topic) }
	o.OnOffline = n.directoryOffline
	cordoned := n.cfg.List("cordoned.log.dirs")
	all := slices.Contains(cordoned, "*")
	for _, d := range n.ensemble.Dirs {
		if n.isLogDir(d.Path) {
			o.Directories = append(o.Directories, storage.DirectoryOptions{Path: d.Path, ID: d.ID, Err: d.Err, Cordoned: all || slices.Contains(cordoned, d.Path)})
		}
	}
	var err error
	if n.logs, err = storage.OpenManager(n.env, o); err != nil || n.isLogDir(n.cfg.MetadataLogDir) {
		return err
	}
	n.lock, err = storage.LockDirectory(n.env.FS(), n.cfg.MetadataLogDir)
	return err
}

func (n *Node) isLogDir(path string) bool { return slices.Contains(n.cfg.LogDirs, path) }

// image is the last image that was loaded.
func (n *Node) image() *image.Image {
	if n.loader == nil {
		return image.Empty
	}
	return n.loader.Image()
}

// Address is where a listener listens, host:port, with the port filled in; empty if there is none of that name.
func (n *Node) Address(listener string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses[listener]
}

// Broker is the node's broker; nil without that role.
func (n *Node) Broker() *broker.Broker { return n.broker }

// Quorum is the node's part in the quorum.
func (n *Node) Quorum() *raft.Quorum { return n.quorum }

// abandon gives up what was opened, without having started.
func (n *Node) abandon() {
	if n.server != nil {
		n.server.Close()
	}
	if n.logs != nil {
		n.logs.Abandon()
	}
	n.unlock()
}

func (n *Node) unlock() {
	if n.lock != nil {
		_ = n.lock.Close()
		n.lock = nil
	}
}

var errStopping = errors.New("the node is stopping")
