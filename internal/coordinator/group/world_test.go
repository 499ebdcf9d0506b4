package group

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/coordinator/memlog"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/uuid"
)

// clock is an env whose time moves only when a test says so, and whose queues run one function after the other in
// the order of posting.
type clock struct {
	env.Env // what is not here is not used
	now     time.Duration
	ready   []func()
	timers  []*clockTimer
	seed    byte
}

type clockTimer struct {
	at      time.Duration
	fn      func()
	stopped bool
}

func (t *clockTimer) Stop() bool { was := !t.stopped; t.stopped = true; return was }

type clockQueue struct {
	c      *clock
	closed bool
}

func (c *clock) Now() time.Time            { return time.UnixMilli(1_700_000_000_000).Add(c.now) }
func (c *clock) Monotonic() time.Duration  { return c.now }
func (c *clock) Logger() *slog.Logger      { return slog.New(slog.DiscardHandler) }
func (c *clock) Rand() env.Rand            { return c }
func (c *clock) NewQueue(string) env.Queue { return &clockQueue{c: c} }
func (c *clock) Uint64() uint64            { return 4 }
func (c *clock) IntN(int) int              { return 0 }
func (c *clock) Read(p []byte)             { clear(p); c.seed++; p[len(p)-1] = c.seed }

func (q *clockQueue) Len() int { return 0 }
func (q *clockQueue) Post(_ string, fn func()) {
	if !q.closed {
		q.c.ready = append(q.c.ready, fn)
	}
}
func (q *clockQueue) After(d time.Duration, _ string, fn func()) env.Timer {
	t := &clockTimer{at: q.c.now + d, fn: fn}
	q.c.timers = append(q.c.timers, t)
	return t
}
func (q *clockQueue) Close(done func()) {
	q.closed = true
	if done != nil {
		q.c.ready = append(q.c.ready, done)
	}
}

// settle runs what is ready.
func (c *clock) settle() {
	for len(c.ready) > 0 {
		fn := c.ready[0]
		c.ready = c.ready[1:]
		fn()
	}
}

// advance moves the time on by d, with everything that falls due on the way.
func (c *clock) advance(d time.Duration) {
	until := c.now + d
	for {
		c.settle()
		sort.SliceStable(c.timers, func(i, j int) bool { return c.timers[i].at < c.timers[j].at })
		for len(c.timers) > 0 && c.timers[0].stopped {
			c.timers = c.timers[1:]
		}
		if len(c.timers) == 0 || c.timers[0].at > until {
			break
		}
		t := c.timers[0]
		c.timers = c.timers[1:]
		c.now, t.stopped = t.at, true
		t.fn()
	}
	c.now = until
}

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

func newWorld() *world {
	w := &world{clock: &clock{}, logs: &memlog.Logs{}, topics: topicTable{}}
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
	var out strings.Builder
	for _, p := range w.svc.runtime.Partitions() {
		w.svc.runtime.Do(p, "state", func(s *shard) { out.WriteString(s.dump()) }, func(err error) {
			fmt.Fprintf(&out, "partition %d: %v\n", p, err)
		})
	}
	w.clock.settle()
	return out.String()
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
