package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Config is what a Manager has to know.
type Config struct {
	NodeID int32
	// ReplicaLagMax is replica.lag.time.max.ms: a follower that has not caught up for so long is out of sync.
	ReplicaLagMax time.Duration
	// HighWatermarkInterval is replica.high.watermark.checkpoint.interval.ms.
	HighWatermarkInterval time.Duration
	// Fetch is how this node fetches from leaders.
	Fetch FetchConfig
	// SessionSlots is max.incremental.fetch.session.cache.slots; SessionEviction is how long a session has to
	// be unused before any other may take its place, two minutes in Kafka.
	SessionSlots    int
	SessionEviction time.Duration
	// Settings are the effective settings of a topic.
	Settings func(img *image.Image, topic string) config.Topic
	// Assign is told of a replica that is in another log directory than the metadata says; may be nil.
	Assign func(topic uuid.UUID, partition int32, directory uuid.UUID)
}

// FromNode takes a Config from the node's file.
func FromNode(n *config.Node) Config {
	ms := func(key string) time.Duration { return time.Duration(n.Long(key)) * time.Millisecond }
	return Config{
		NodeID:                n.NodeID,
		ReplicaLagMax:         ms("replica.lag.time.max.ms"),
		HighWatermarkInterval: ms("replica.high.watermark.checkpoint.interval.ms"),
		Fetch: FetchConfig{
			Listener: n.InterBrokerListener, Fetchers: max(n.Int("num.replica.fetchers"), 1),
			MaxWait: ms("replica.fetch.wait.max.ms"), MinBytes: n.Int("replica.fetch.min.bytes"), MaxBytes: n.Int("replica.fetch.response.max.bytes"),
			PartitionBytes: n.Int("replica.fetch.max.bytes"), Backoff: ms("replica.fetch.backoff.ms"), Timeout: ms("replica.socket.timeout.ms"),
		},
		SessionSlots:    n.Int("max.incremental.fetch.session.cache.slots"),
		SessionEviction: 2 * time.Minute,
		Settings: func(img *image.Image, topic string) config.Topic {
			return config.Topic{
				Layers: config.Layers{
					Node: n, Broker: img.Configs.Get(image.ResourceBroker, fmt.Sprint(n.NodeID)), Cluster: img.Configs.Get(image.ResourceBroker, ""),
				},
				Own: img.Configs.Get(image.ResourceTopic, topic),
			}
		},
	}
}

// Peers is what a Manager needs of the rest of its node to replicate.
type Peers struct {
	// BrokerEpoch is this broker's, -1 before it is registered.
	BrokerEpoch func() int64
	// AlterISR asks the controller for another ISR and calls done once, never inside: with the answer, or with an error that wraps a *kerr.Error
	// or says that there was no answer.
	AlterISR func(c ISRChange, done func(ISRAnswer, error))
}

// Manager keeps the partitions of one broker.
type Manager struct {
	env       env.Env
	cfg       Config
	logs      Logs
	purgatory purgatory
	Sessions  *Sessions
	peers     Peers
	fetchers  map[fetcherID]*fetcher // only Apply and Close use it

	img atomic.Pointer[image.Image] // last applied

	mu     sync.RWMutex
	byName map[string]*topic
	byID   map[uuid.UUID]*topic

	// The checkpoint of high watermarks runs only while they move.
	noteArmed atomic.Bool
	isrArmed  atomic.Bool // the next look at the followers is scheduled
	closed    atomic.Bool
}

// topic is the partitions of a topic that this node has.
type topic struct {
	name       string
	id         uuid.UUID
	partitions []*Partition // by index, nil where there is none; copied on write
}

// NewManager returns a manager without partitions. The image brings them.
func NewManager(e env.Env, cfg Config, logs Logs) *Manager {
	m := &Manager{
		env: e, cfg: cfg, logs: logs, Sessions: NewSessions(e, cfg.SessionSlots, cfg.SessionEviction),
		byName: map[string]*topic{}, byID: map[uuid.UUID]*topic{},
	}
	m.purgatory.env = e
	m.fetchers = map[fetcherID]*fetcher{}
	m.peers = Peers{BrokerEpoch: func() int64 { return -1 }, AlterISR: func(ISRChange, func(ISRAnswer, error)) {}}
	m.img.Store(image.Empty)
	return m
}

// Join tells the manager of its peers. It comes before the first image.
func (m *Manager) Join(p Peers) { m.peers = p }

// Partition finds a partition that this node has. Errors: NotLeaderOrFollower if it is another broker's,
// UnknownTopicOrPartition if it is nobody's.
func (m *Manager) Partition(tp TopicPartition) (*Partition, error) {
	m.mu.RLock()
	p := m.byName[tp.Topic].partition(tp.Partition)
	m.mu.RUnlock()
	if p == nil {
		return nil, m.absent(tp.Topic, tp.Partition)
	}
	return p, nil
}

// PartitionByID is Partition by topic id. Unknown ids are UnknownTopicID.
func (m *Manager) PartitionByID(id uuid.UUID, index int32) (*Partition, error) {
	m.mu.RLock()
	p := m.byID[id].partition(index)
	m.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	t := m.img.Load().Topics.ByID(id)
	if t == nil {
		return nil, kerr.UnknownTopicId
	}
	return nil, m.absent(t.Name, index)
}

// Image is the image that was last applied.
func (m *Manager) Image() *image.Image { return m.img.Load() }

// Waiting is the number of requests in the purgatory.
func (m *Manager) Waiting() int { return m.purgatory.waiters() }

// All are the partitions of this node, sorted by topic and index.
func (m *Manager) All() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var ps []*Partition
	for _, t := range m.byName {
		for _, p := range t.partitions {
			if p != nil {
				ps = append(ps, p)
			}
		}
	}
	slices.SortFunc(ps, func(a, b *Partition) int {
		if a.Topic != b.Topic {
			if a.Topic < b.Topic {
				return -1
			}
			return 1
		}
		return int(a.Index) - int(b.Index)
	})
	return ps
}

func (t *topic) partition(index int32) *Partition {
	if t == nil || index < 0 || int(index) >= len(t.partitions) {
		return nil
	}
	return t.partitions[index]
}

// absent is why there is no such partition here.
func (m *Manager) absent(topic string, index int32) error {
	if m.img.Load().Topics.Partition(topic, index) != nil {
		return kerr.NotLeaderOrFollower
	}
	return kerr.UnknownTopicOrPartition
}

// Directories describes the log directories.
func (m *Manager) Directories() []Directory { return m.logs.Directories() }

// alive reports whether a broker takes part in the cluster.
func (m *Manager) alive(broker int32) bool {
	b := m.img.Load().Cluster.Broker(broker)
	return b != nil && !b.Fenced
}

// highMoved makes sure that the high watermarks are noted some time after they moved.
func (m *Manager) highMoved() {
	if m.noteArmed.Load() || m.closed.Load() || m.cfg.HighWatermarkInterval <= 0 || m.noteArmed.Swap(true) {
		return
	}
	m.env.AfterFunc(m.cfg.HighWatermarkInterval, func() { m.env.Go("high watermark checkpoint", m.note) })
}

func (m *Manager) note() {
	m.noteArmed.Store(false)
	if m.closed.Load() {
		return
	}
	if err := m.logs.NoteHighWatermarks(); err != nil {
		m.env.Logger().Error("high watermarks not noted", "error", err)
	}
}

// Close answers everybody who waits, and notes the high watermarks. The logs are closed by their owner.
func (m *Manager) Close() error {
	m.closed.Store(true)
	m.closeFetchers()
	for _, p := range m.All() {
		p.stop()
	}
	if err := m.logs.NoteHighWatermarks(); err != nil {
		return fmt.Errorf("note high watermarks: %w", err)
	}
	return nil
}
