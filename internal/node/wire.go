package node

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ottla-io/ottla/internal/broker"
	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/server"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

// wire makes the cores and tells them of one another.
func (n *Node) wire() {
	n.incarnation = uuid.Draw(n.env.Rand().Read)
	if n.cfg.HasRole(config.RoleController) {
		c := controller.FromNode(n.cfg, n.ensemble.ClusterID)
		if n.cfg.HasRole(config.RoleBroker) {
			c.LocalBroker = n.incarnation
		}
		n.ctrl = controller.New(n.env, c, n.quorum)
		n.quorum.Register(n.ctrl)
	}
	n.loader = image.NewLoader(n.env, n.quorum, image.LoaderOptions{OnFault: func(err error) {
		n.env.Logger().Error("Encountered metadata loading fault", "err", err)
	}})
	n.quorum.Register(n.loader)
	n.loader.AddPublisher(image.NewSnapshotGenerator(n.env, n.cfg.Long("metadata.log.max.record.bytes.between.snapshots"),
		n.millis("metadata.log.max.snapshot.interval.ms"), n.createSnapshot))
	if n.ctrl != nil {
		n.register = broker.NewControllerRegistration(n.env, n.channel("controller-registration", n.millis("controller.quorum.request.timeout.ms")), n.cfg.NodeID, uuid.Draw(n.env.Rand().Read), n.controllerEndpoints())
	}
	targets := server.Targets{Controller: n.ctrl, Quorum: n.quorum, Configs: broker.NewConfigs(n.cfg, n.loader.Image)}
	if n.cfg.HasRole(config.RoleBroker) {
		n.wireBroker()
		targets.Broker, targets.Groups, targets.Configs = n.broker, n.groups, broker.NewConfigs(n.cfg, n.broker.Image)
	}
	n.server.Bind(targets)
}

func (n *Node) wireBroker() {
	replicas := replica.FromNode(n.cfg)
	replicas.Assign = func(topic uuid.UUID, partition int32, dir uuid.UUID) { n.broker.AssignDirectory(topic, partition, dir) }
	n.replicas = replica.NewManager(n.env, replicas, n.logs)
	n.alterISR = broker.NewAlterPartitions(n.env, n.channel("alter-partition", n.millis("controller.socket.timeout.ms")), n.cfg.NodeID, n.brokerEpoch)
	n.replicas.Join(replica.Peers{BrokerEpoch: n.brokerEpoch, AlterISR: n.alterISR.Alter})
	n.groups = group.NewService(n.env, group.NewConfig(n.cfg), group.Deps{
		Topics: broker.Topics(func() *image.Image { return n.replicas.Image() }), Logs: broker.Logs(n.replicas),
	})
	n.broker = broker.New(broker.Deps{
		Env: n.env, Config: n.cfg, ClusterID: n.ensemble.ClusterID, IncarnationID: n.incarnation, LogDirs: n.logs.DirectoryIDs(), CordonedLogDirs: n.logs.CordonedIDs(),
		Advertised: n.advertised(), PreviousEpoch: n.logs.PreviousEpoch(),
		Lifecycle:      n.channel("heartbeat", n.millis("broker.session.timeout.ms")),
		Controller:     n.channel("forwarding", n.millis("controller.socket.timeout.ms")),
		MetadataOffset: func() int64 { return n.loader.Image().Provenance.Offset },
		Replicas:       &partitions{n.replicas, n.logs, n.cfg.NodeID, n.env.Logger(), false}, Data: n.replicas, Groups: n.groups,
		OnFault: n.onFault,
	})
}

func (n *Node) brokerEpoch() int64 { return n.broker.Epoch() }

// channel is a way to the active controller.
func (n *Node) channel(name string, timeout time.Duration) *broker.ControllerChannel {
	o := broker.ChannelOptions{NodeID: n.cfg.NodeID, ClientID: strconv.Itoa(int(n.cfg.NodeID)), Timeout: timeout, Address: n.controllerAddress}
	if n.ctrl != nil {
		o.Local = broker.LocalController(n.ctrl, n.quorum)
	}
	c := broker.NewControllerChannel(n.env, fmt.Sprintf("to-controller-%s", name), o)
	n.quorum.Register(c)
	n.channels = append(n.channels, c)
	return c
}

func (n *Node) controllerAddress(id int32) (string, bool) {
	if len(n.cfg.ControllerListeners) == 0 {
		return "", false
	}
	e, ok := n.quorum.ControllerEndpoint(id, n.cfg.ControllerListeners[0])
	return config.HostPort{Host: e.Host, Port: int(e.Port)}.String(), ok
}

func (n *Node) createSnapshot(id raft.SnapshotID, lastAppendTime int64) (image.SnapshotWriter, error) {
	w, err := n.quorum.CreateSnapshot(id, lastAppendTime)
	if w == nil || err != nil {
		return nil, err // not an interface that holds a nil pointer
	}
	return w, nil
}

func (n *Node) millis(key string) time.Duration {
	return time.Duration(n.cfg.Long(key)) * time.Millisecond
}

// partitions tells the keeper of the partitions what changed. Before the first image it puts logs aside that are not this node's any
// more: their topics were deleted while it was away.
type partitions struct {
	*replica.Manager
	logs  *storage.Manager
	id    int32
	log   *slog.Logger
	begun bool
}

// Apply makes the local partitions what the new image says.
func (p *partitions) Apply(d *image.Delta, img *image.Image) {
	if !p.begun {
		p.begun = true
		err := p.logs.RenameStrays(func(tp storage.TopicPartition, id uuid.UUID) bool {
			t := img.Topics.ByName(tp.Topic)
			if t == nil || t.ID != id && !id.IsZero() {
				return false
			}
			part := img.Topics.Partition(tp.Topic, tp.Partition)
			return part != nil && part.HasReplica(p.id)
		})
		if err != nil {
			p.log.Error("Stray logs could not be put aside", "err", err)
		}
	}
	p.Manager.Apply(d, img)
}
