package raft

import (
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Topic is the name of the metadata log; its one partition is 0 and its id is uuid.Metadata.
const Topic = "__cluster_metadata"

// Config is what a node tells its quorum.
type Config struct {
	NodeID      int32
	ClusterID   string
	DirectoryID uuid.UUID // of the folder of the metadata log
	MetadataDir string    // metadata.log.dir; the log is in its folder __cluster_metadata-0
	// Voter: the node has the role controller and may be in the voter set. Others only observe.
	Voter bool
	// AutoJoin: a controller that is no voter asks to become one (controller.quorum.auto.join.enable).
	AutoJoin bool
	// StaticVoters are controller.quorum.voters. They count as long as kraft.version is 0.
	StaticVoters []Voter
	// Bootstrap are controller.quorum.bootstrap.servers, or the addresses of the static voters: where to ask who leads.
	Bootstrap []string // host:port
	// Listeners are the advertised controller listeners of this node, in the order of controller.listener.names.
	Listeners []Endpoint
	// ListenerName is the first of controller.listener.names: what nodes dial.
	ListenerName string

	ElectionTimeout    time.Duration // controller.quorum.election.timeout.ms; drawn between one and two of it
	ElectionBackoffMax time.Duration // controller.quorum.election.backoff.max.ms
	FetchTimeout       time.Duration // controller.quorum.fetch.timeout.ms: without a fetch that long a follower votes
	RequestTimeout     time.Duration // controller.quorum.request.timeout.ms
	RetryBackoff       time.Duration // controller.quorum.retry.backoff.ms
	// EarlyPreVote: a follower asks for pre-votes as soon as its leader's machine refuses connections
	// (ottla.quorum.early.prevote.enable).
	EarlyPreVote bool

	MaxBatchBytes         int
	FetchMaxBytes         int // controller.quorum.fetch.max.bytes
	FetchSnapshotMaxBytes int // controller.quorum.fetch.snapshot.max.bytes
	SegmentBytes          int32
	SegmentMs             int64
	RetentionBytes        int64         // metadata.max.retention.bytes, log and snapshots together; < 0: no bound
	Retention             time.Duration // metadata.max.retention.ms; < 0: no bound
	DeleteDelay           time.Duration // internal.metadata.delete.delay.millis

	// OnFault is told of an error of the disk that the node must not survive. Nothing happens in the quorum after it.
	// Without it the node panics.
	OnFault func(error)
}

// DefaultConfig has Kafka's defaults and no identity.
func DefaultConfig() Config {
	return Config{
		NodeID:             NoNode,
		ElectionTimeout:    time.Second,
		ElectionBackoffMax: time.Second,
		FetchTimeout:       2 * time.Second,
		RequestTimeout:     2 * time.Second,
		RetryBackoff:       20 * time.Millisecond,
		EarlyPreVote:       true,

		MaxBatchBytes:         DefaultMaxBatchBytes,
		FetchMaxBytes:         1 << 20,
		FetchSnapshotMaxBytes: 1 << 20,
		SegmentBytes:          1 << 30,
		SegmentMs:             7 * 24 * 3600 * 1000,
		RetentionBytes:        100 << 20,
		Retention:             7 * 24 * time.Hour,
		DeleteDelay:           time.Minute,
	}
}

// ConfigFrom takes what the quorum needs from a node's settings. directoryID is what meta.properties of the metadata
// directory says.
func ConfigFrom(n *config.Node, clusterID string, directoryID uuid.UUID) Config {
	ms := func(key string) time.Duration { return time.Duration(n.Long(key)) * time.Millisecond }
	c := DefaultConfig()
	c.NodeID, c.ClusterID, c.DirectoryID, c.MetadataDir = n.NodeID, clusterID, directoryID, n.MetadataLogDir
	c.Voter = n.HasRole(config.RoleController)
	if len(n.ControllerListeners) > 0 {
		c.ListenerName = n.ControllerListeners[0]
	}
	for _, v := range n.QuorumVoters {
		c.StaticVoters = append(c.StaticVoters, Voter{
			Key:       ReplicaKey{ID: v.ID},
			Endpoints: []Endpoint{{c.ListenerName, v.Host, uint16(v.Port)}},
		})
		c.Bootstrap = append(c.Bootstrap, v.String())
	}
	if len(n.QuorumBootstrapServer) > 0 {
		c.Bootstrap = nil
		for _, s := range n.QuorumBootstrapServer {
			c.Bootstrap = append(c.Bootstrap, s.String())
		}
	}
	if c.Voter {
		c.Listeners = ControllerEndpoints(n)
		c.AutoJoin = n.Bool("controller.quorum.auto.join.enable")
	}
	c.ElectionTimeout, c.ElectionBackoffMax = ms("controller.quorum.election.timeout.ms"), ms("controller.quorum.election.backoff.max.ms")
	c.FetchTimeout, c.RequestTimeout = ms("controller.quorum.fetch.timeout.ms"), ms("controller.quorum.request.timeout.ms")
	c.RetryBackoff = ms("controller.quorum.retry.backoff.ms")
	c.EarlyPreVote = n.Bool("ottla.quorum.early.prevote.enable")
	c.MaxBatchBytes = n.Int("internal.metadata.max.batch.size.in.bytes")
	c.FetchMaxBytes, c.FetchSnapshotMaxBytes = n.Int("controller.quorum.fetch.max.bytes"), n.Int("controller.quorum.fetch.snapshot.max.bytes")
	c.SegmentBytes, c.SegmentMs = int32(n.Int("metadata.log.segment.bytes")), n.Long("metadata.log.segment.ms")
	if b := n.Int("internal.metadata.log.segment.bytes"); b > 0 {
		c.SegmentBytes = int32(b)
	}
	c.RetentionBytes, c.Retention = n.Long("metadata.max.retention.bytes"), ms("metadata.max.retention.ms")
	c.DeleteDelay = ms("internal.metadata.delete.delay.millis")
	return c
}

// ControllerEndpoints are the advertised controller listeners of a node, in the order of controller.listener.names.
func ControllerEndpoints(n *config.Node) []Endpoint {
	var out []Endpoint
	for _, name := range n.ControllerListeners {
		found := false
		for _, list := range [][]config.Listener{n.AdvertisedListeners, n.Listeners} {
			for _, l := range list {
				if l.Name == name && !found {
					found = true
					host := l.Host
					if host == "" {
						host = "localhost"
					}
					out = append(out, Endpoint{l.Name, host, uint16(l.Port)})
				}
			}
		}
	}
	return out
}

// LogDir is the folder of the metadata log.
func (c *Config) LogDir() string { return LogDir(c.MetadataDir) }

func (c *Config) key() ReplicaKey { return ReplicaKey{c.NodeID, c.DirectoryID} }

func (e Endpoint) address() string { return config.HostPort{Host: e.Host, Port: int(e.Port)}.String() }
