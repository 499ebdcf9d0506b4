package group

import (
	"encoding/hex"
	"slices"
	"sync"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/uuid"
)

// Topics is what the coordinator asks about the cluster's topics. Any goroutine.
type Topics interface {
	// TopicByName and TopicByID find a topic in the newest image; ok is false if it is not there.
	TopicByName(name string) (Topic, bool)
	TopicByID(id uuid.UUID) (Topic, bool)
}

// Topic is a topic of the cluster.
type Topic struct {
	Name       string
	ID         uuid.UUID
	Partitions int32
}

// Deps is what a Service works with.
type Deps struct {
	Topics Topics
	Logs   coordinator.Logs
}

// Service is the group coordinator of one node. Its methods may be called from any goroutine; answers come from any.
type Service struct {
	cfg     Config
	topics  Topics
	runtime *coordinator.Runtime[*shard]
}

// NewService makes a coordinator that has no partitions yet: OnElection brings them.
func NewService(e env.Env, cfg Config, d Deps) *Service {
	s := &Service{cfg: cfg, topics: d.Topics}
	s.runtime = coordinator.NewRuntime(e, coordinator.Config{
		Name: "GroupCoordinator", Topic: OffsetsTopic, CommitTimeout: cfg.CommitTimeout,
		LoadBufferSize: cfg.LoadBufferSize, Compression: cfg.Compression,
	}, d.Logs, func(sh *coordinator.Shard) *shard {
		return newShard(&s.cfg, s.topics, shardRuntime{sh})
	})
	return s
}

// shardRuntime adds to a shard what only groups need.
type shardRuntime struct{ *coordinator.Shard }

// NewMemberID is the prefix and a random UUID (version 4) in its usual text.
func (r shardRuntime) NewMemberID(prefix string) string {
	var u [16]byte
	r.Env().Rand().Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return prefix + "-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// OnElection makes this node the coordinator of a partition of __consumer_offsets that it leads now.
func (s *Service) OnElection(partition, leaderEpoch int32) { s.runtime.Load(partition, leaderEpoch) }

// OnResignation ends that: another node leads in leaderEpoch, or -1 if the partition is no longer here.
func (s *Service) OnResignation(partition, leaderEpoch int32) {
	s.runtime.Unload(partition, leaderEpoch)
}

// OnTopicsDeleted removes the offsets that groups have committed for topics which are no more.
func (s *Service) OnTopicsDeleted(topics []Topic) {
	if len(topics) == 0 {
		return
	}
	topics = slices.Clone(topics)
	for _, p := range s.runtime.Partitions() {
		s.runtime.Do(p, "topics deleted", func(sh *shard) { sh.deleteTopics(topics) }, func(error) {})
	}
}

// Close unloads everything and calls done.
func (s *Service) Close(done func()) { s.runtime.Close(done) }

// PartitionOf is the partition of __consumer_offsets that a group lives in, as the cluster is now.
func (s *Service) PartitionOf(groupID string) int32 {
	n := s.cfg.OffsetsTopicPartitions
	if t, ok := s.topics.TopicByName(OffsetsTopic); ok {
		n = t.Partitions
	}
	return PartitionFor(groupID, n)
}

// do runs an event of one group on its shard.
func (s *Service) do(name, groupID string, event func(*shard), refuse func(error)) {
	s.runtime.Do(s.PartitionOf(groupID), name, event, refuse)
}

// gather collects n results that come in any order and from any goroutine, and hands them over in order.
type gather[T any] struct {
	mu      sync.Mutex
	results []T
	left    int
	done    func([]T)
}

func newGather[T any](n int, done func([]T)) *gather[T] {
	g := &gather[T]{results: make([]T, n), left: n, done: done}
	if n == 0 {
		done(nil)
	}
	return g
}

func (g *gather[T]) set(i int, v T) {
	g.mu.Lock()
	g.results[i] = v
	g.left--
	last := g.left == 0
	g.mu.Unlock()
	if last {
		g.done(g.results)
	}
}
