package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Replicas is what a broker has to tell the keeper of its partitions when metadata changes. The calls come one after the other on
// the loader's queue.
type Replicas interface {
	// Apply makes the local partitions what the new image says: leader, follower, or gone.
	Apply(d *image.Delta, img *image.Image)
	// ConfigsChanged names topics whose effective settings may have changed; it follows Apply.
	ConfigsChanged(topics []string, img *image.Image)
}

// Groups is what a broker has to tell, and to ask, its group coordinator. *group.Service is one.
type Groups interface {
	OnElection(partition, leaderEpoch int32)
	OnResignation(partition, leaderEpoch int32)
	OnTopicsDeleted(topics []group.Topic)
}

// Deps is what a broker works with.
type Deps struct {
	Env       env.Env
	Config    *config.Node
	ClusterID string
	// IncarnationID is that of this life of the process; made here if it is zero.
	IncarnationID uuid.UUID
	// LogDirs are the ids of the log directories that are usable.
	LogDirs []uuid.UUID
	// CordonedLogDirs are those of them that take no new replicas (cordoned.log.dirs).
	CordonedLogDirs []uuid.UUID
	// Advertised are the endpoints that clients and brokers are told, of all listeners but the controllers'.
	Advertised []image.Endpoint
	// PreviousEpoch is the broker epoch of the life before if that ended in order, else -1.
	PreviousEpoch int64
	// Lifecycle goes to the active controller and waits for one as long as a session may last; Controller waits for as long as a
	// client would.
	Lifecycle, Controller Channel
	// MetadataOffset is the offset of the last record that was loaded. Any goroutine.
	MetadataOffset func() int64
	Replicas       Replicas
	Data           *replica.Manager // what the data requests are about; Replicas is mostly the same
	Groups         Groups           // nil: none
	// OnFault is told why the broker has to end; from any goroutine.
	OnFault func(error)
}

// Broker is the broker role of a node. Handlers may be called from any goroutine; the image they see is the last one published.
type Broker struct {
	env       env.Env
	cfg       *config.Node
	id        int32
	clusterID string
	replicas  Replicas
	data      *replica.Manager
	groups    Groups
	ctrl      Channel

	img         atomic.Pointer[image.Image]
	lifecycle   *lifecycle
	publisher   *publisher
	creations   creations
	assignments *assignments
	producerIDs *producerIDs

	fetchMaxBytes            int       // fetch.max.bytes
	produceCalls, fetchCalls sync.Pool // of those under way
}

// New returns a broker that has not been started.
func New(d Deps) *Broker {
	if d.IncarnationID.IsZero() {
		d.IncarnationID = uuid.Draw(d.Env.Rand().Read)
	}
	b := &Broker{
		env: d.Env, cfg: d.Config, id: d.Config.NodeID, clusterID: d.ClusterID, replicas: d.Replicas, data: d.Data, groups: d.Groups, ctrl: d.Controller,
		fetchMaxBytes: d.Config.Int("fetch.max.bytes"),
	}
	b.img.Store(image.Empty)
	b.lifecycle = newLifecycle(d)
	b.lifecycle.cordonedSupported = func() bool { return b.Image().Features.MetadataVersion().CordonedLogDirs() }
	b.lifecycle.registeredAs = func() uuid.UUID {
		if reg := b.Image().Cluster.Broker(b.id); reg != nil {
			return reg.IncarnationID
		}
		return uuid.Zero
	}
	b.publisher = &publisher{b: b, published: func() { b.lifecycle.setReady() }}
	b.creations.inFlight = map[string]struct{}{}
	b.producerIDs = newProducerIDs(b)
	b.assignments = newAssignments(d.Env, d.Controller, b.id, b.Epoch, b.Image)
	return b
}

// Start registers the broker. Publishers must be added to the loader as well: without images the broker is not unfenced. running
// is called once, from the lifecycle's queue: with nil when the controller has let the broker take part, with the reason if that cannot
// happen any more.
func (b *Broker) Start(running func(error)) { b.lifecycle.start(running) }

// Publishers are the broker's image publishers, in the order in which they want to be told.
func (b *Broker) Publishers() []image.Publisher {
	return []image.Publisher{b.publisher, &registrationTracker{b.id, b.lifecycle.resendRegistration, b.env.Logger()}}
}

// Shutdown asks the controller to move all leaders away and ends when it has, or after timeout; 0 means no limit. done is called
// once.
func (b *Broker) Shutdown(timeout time.Duration, done func()) {
	b.lifecycle.shutdown(timeout, func() {
		b.assignments.close()
		done()
	})
}

// DirectoryOffline tells the controller that a log directory failed. Any goroutine.
func (b *Broker) DirectoryOffline(id uuid.UUID) { b.lifecycle.offline(id) }

// AssignDirectory tells the controller that the replica of a partition is in another log directory than the metadata says. Any
// goroutine.
func (b *Broker) AssignDirectory(topic uuid.UUID, partition int32, directory uuid.UUID) {
	b.assignments.assign(replicaID{topic, partition}, directory)
}

// Image is the last published image. Any goroutine.
func (b *Broker) Image() *image.Image { return b.img.Load() }

// ID is the node id.
func (b *Broker) ID() int32 { return b.id }

// ClusterID is the id of the cluster.
func (b *Broker) ClusterID() string { return b.clusterID }

// Epoch is the broker epoch of the last registration, -1 before the first. Any goroutine.
func (b *Broker) Epoch() int64 { return b.lifecycle.epoch.Load() }

// State is what the broker is in the middle of. Any goroutine.
func (b *Broker) State() State { return State(b.lifecycle.published.Load()) }

// Topics lets the group coordinator look at the topics of the images that current returns.
func Topics(current func() *image.Image) group.Topics { return topics{current} }

type topics struct{ current func() *image.Image }

func (t topics) TopicByName(name string) (group.Topic, bool) {
	return groupTopic(t.current().Topics.ByName(name))
}

func (t topics) TopicByID(id uuid.UUID) (group.Topic, bool) {
	return groupTopic(t.current().Topics.ByID(id))
}

func groupTopic(t *image.Topic) (group.Topic, bool) {
	if t == nil {
		return group.Topic{}, false
	}
	return group.Topic{Name: t.Name, ID: t.ID, Partitions: int32(len(t.Partitions))}, true
}

// Logs lets coordinators append to and read the partitions of m.
func Logs(m *replica.Manager) coordinator.Logs { return coordinatorLogs{m} }

type coordinatorLogs struct{ m *replica.Manager }

func (l coordinatorLogs) CoordinatorLog(topic string, partition int32) (coordinator.Log, error) {
	log, err := l.m.CoordinatorLog(topic, partition)
	if err != nil {
		return nil, err
	}
	return log, nil
}
