package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/coordinator/memlog"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/uuid"
)

// clock is the simulated machine that a Service runs on.
type clock struct {
	*sim.Node
	world *sim.World
}

func newClock(seed uint64) *clock {
	w := sim.NewWorld(seed, sim.Options{Start: time.UnixMilli(1_700_000_000_000)})
	return &clock{w.NewNode("n1"), w}
}

// settle runs what is ready: a hundred hops from queue to queue have time for it.
func (c *clock) settle() { c.world.RunFor(2 * time.Millisecond) }

// advance moves the time on by d, with everything that falls due on the way.
func (c *clock) advance(d time.Duration) { c.world.RunFor(d) }

// topicTable is the topics of a test.
type topicTable map[string]Topic

func (t topicTable) TopicByName(name string) (Topic, bool) { topic, ok := t[name]; return topic, ok }
func (t topicTable) TopicByID(id uuid.UUID) (Topic, bool) {
	for _, topic := range t {
		if topic.ID == id {
			return topic, true
		}
	}
	return Topic{}, false
}

// testConfig is what the recorded Kafka ran with, too.
func testConfig() Config {
	return Config{
		OffsetsTopicPartitions: 2, MinSessionTimeoutMs: 1000, MaxSessionTimeoutMs: 1_800_000,
		InitialRebalanceDelayMs: 1000, MaxSize: 4, OffsetMetadataMaxBytes: 4096,
		OffsetsRetention: 7 * 24 * time.Hour, RetentionCheckInterval: 10 * time.Minute, CommitTimeout: 5 * time.Second,
		LoadBufferSize: 5 << 20, ConsumerSessionTimeout: 45 * time.Second,
	}
}

// world is a Service with its surroundings.
type world struct {
	clock  *clock
	logs   *memlog.Logs
	topics topicTable
	svc    *Service
	epoch  int32
}

func newWorld() *world { return newSeededWorld(1) }

func newSeededWorld(seed uint64) *world {
	w := &world{clock: newClock(seed), logs: &memlog.Logs{}, topics: topicTable{}}
	for i, t := range []Topic{{Name: "t", Partitions: 3}, {Name: "u", Partitions: 1}, {Name: OffsetsTopic, Partitions: 2}} {
		t.ID[15] = byte(i + 10)
		w.topics[t.Name] = t
	}
	w.start()
	return w
}

// start makes a node that is elected for everything.
func (w *world) start() {
	w.svc = NewService(w.clock, testConfig(), Deps{Topics: w.topics, Logs: w.logs})
	for p := range int32(2) {
		w.svc.OnElection(p, w.epoch)
	}
	w.clock.settle()
	w.epoch++
}

// state is everything that the shards know, as text.
func (w *world) state() string {
	partitions := w.svc.runtime.Partitions()
	texts := make([]string, len(partitions))
	for i, p := range partitions {
		w.svc.runtime.Do(p, "state", func(s *shard) { texts[i] = s.dump() }, func(err error) {
			texts[i] = fmt.Sprintf("partition %d: %v\n", p, err)
		})
	}
	w.clock.settle()
	return strings.Join(texts, "")
}

func (s *shard) dump() string {
	var out strings.Builder
	for _, g := range s.sorted() {
		fmt.Fprintf(&out, "%s %s %s", g.groupID(), g.groupType(), g.stateName())
		switch g := g.(type) {
		case *classicGroup:
			fmt.Fprintf(&out, " type=%s gen=%d protocol=%s leader=%s\n", ptr(g.protocolType), g.generation, ptr(g.protocol), ptr(g.leader))
			for _, m := range g.members {
				fmt.Fprintf(&out, "  member %s instance=%s client=%s%s session=%d rebalance=%d reads=%s assignment=%q\n", m.id, ptr(m.instanceID),
					m.clientID, m.clientHost, m.sessionTimeoutMs, m.rebalanceTimeoutMs, subscribed(m.metadata(deref(g.protocol, ""))), m.assignment)
			}
		case *modernGroup:
			fmt.Fprintf(&out, " epoch=%d target=%d members=%d records=%d\n", g.epoch, g.targetEpoch, g.memberCount(), len(g.keys))
		}
		for tp, o := range s.offsets.committed[g.groupID()].all() {
			fmt.Fprintf(&out, "  offset %s-%d=%d/%d/%q at=%d expire=%d topicId=%v record=%d\n", tp.topic, tp.partition, o.offset, o.leaderEpoch,
				o.metadata, o.commitTimeMs, o.expireTimeMs, o.topicID != uuid.Zero, o.recordOffset)
		}
	}
	producers := slices.Sorted(maps.Keys(s.offsets.pending))
	for _, p := range producers {
		for _, id := range slices.Sorted(maps.Keys(s.offsets.pending[p])) {
			for tp, o := range s.offsets.pending[p][id].all() {
				fmt.Fprintf(&out, "  pending of producer %d: %s %s-%d=%d\n", p, id, tp.topic, tp.partition, o.offset)
			}
		}
	}
	return out.String()
}
