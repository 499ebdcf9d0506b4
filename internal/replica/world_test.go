package replica

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

const testProperties = `
process.roles=broker
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
log.dirs=/logs
`

// testManager is a Manager on the disk of an env, and the image that it was given last.
type testManager struct {
	*Manager
	t   testing.TB
	img *image.Image
}

// newTestManager makes a manager of node 1 whose logs are in a folder.
func newTestManager(t testing.TB, e env.Env, dir string, run func(done func() bool)) *testManager {
	t.Helper()
	entries, errs := config.ParseProperties("server.properties", []byte(testProperties))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	cfg, err := config.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.FS().MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := storage.ManagerOptionsFrom(cfg)
	o.Directories = []storage.DirectoryOptions{{Path: dir, ID: uuid.UUID{7, 1}}}
	o.Settings = func(string) config.Topic { return config.Topic{Layers: config.Layers{Node: cfg}} }
	logs, err := storage.OpenManager(e, o)
	if err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error, 1)
	logs.Load(func(err error) { loaded <- err })
	run(func() bool { return len(loaded) > 0 })
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	return &testManager{Manager: NewManager(e, FromNode(cfg), logs), t: t, img: image.Empty}
}

// world is a manager in the simulator.
type world struct {
	*testManager
	sim  *sim.World
	node *sim.Node
}

func newWorld(t testing.TB) *world {
	s := sim.NewWorld(1, sim.Options{})
	w := &world{sim: s, node: s.NewNode("n1")}
	w.testManager = newTestManager(t, w.node, "/logs", func(done func() bool) { s.RunUntil(time.Second, done) })
	return w
}

// replay gives the manager a new image.
func (m *testManager) replay(records ...metadata.Record) {
	m.t.Helper()
	d := image.NewDelta(m.img)
	for _, r := range records {
		if err := d.Replay(r); err != nil {
			m.t.Fatal(err)
		}
	}
	m.img = d.Apply(image.Provenance{Offset: m.img.Provenance.Offset + 1})
	m.Apply(d, m.img)
	var topics []string
	for _, c := range d.Configs() {
		topics = append(topics, c.Name)
	}
	m.ConfigsChanged(topics, m.img)
}

func brokerRecord(id int32) metadata.Record {
	r := metadata.NewRegisterBrokerRecord()
	r.BrokerId, r.BrokerEpoch, r.Fenced = id, 1, false
	return r
}

func topicRecord(name string, id byte) metadata.Record {
	r := metadata.NewTopicRecord()
	r.Name, r.TopicId = name, uuid.UUID{id, 1}
	return r
}

// partitionRecord is partition 0 with the leader first among the replicas, all of which are in sync.
func partitionRecord(id byte, replicas ...int32) *metadata.PartitionRecord {
	r := metadata.NewPartitionRecord()
	r.PartitionId, r.TopicId, r.Replicas, r.Isr = 0, uuid.UUID{id, 1}, replicas, slices.Clone(replicas)
	r.Leader, r.LeaderEpoch, r.PartitionEpoch = replicas[0], 0, 0
	r.Directories = make([]uuid.UUID, len(replicas))
	for i := range r.Directories {
		r.Directories[i] = uuid.UUID{7, byte(replicas[i])}
	}
	return r
}

// change is a change of partition 0; leader -2 is none.
func change(id byte, leader int32, isr ...int32) metadata.Record {
	r := metadata.NewPartitionChangeRecord()
	r.TopicId, r.PartitionId, r.Leader, r.Isr = uuid.UUID{id, 1}, 0, leader, isr
	return r
}

func removal(id byte) metadata.Record {
	r := metadata.NewRemoveTopicRecord()
	r.TopicId = uuid.UUID{id, 1}
	return r
}

func setting(topic, name, value string) metadata.Record {
	r := metadata.NewConfigRecord()
	r.ResourceType, r.ResourceName, r.Name, r.Value = int8(image.ResourceTopic), topic, name, &value
	return r
}

// create makes a topic with one partition.
func (m *testManager) create(name string, id byte, replicas ...int32) *Partition {
	m.t.Helper()
	m.replay(topicRecord(name, id), partitionRecord(id, replicas...))
	p, err := m.Partition(TopicPartition{Topic: name})
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// records is a batch of n records.
func records(n int) []byte {
	b := record.NewBuilder(0, record.None)
	for range n {
		b.Append(1000, []byte("key"), []byte("value"))
	}
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return slices.Clone(batch)
}

// produced is what became of an Append.
type produced struct {
	times  int
	at     time.Duration
	err    error
	base   int64
	start  int64
	failed int // of the entries
}

// produce appends n records.
func (w *world) produce(topic string, acks int16, timeout time.Duration, n int) *produced {
	w.t.Helper()
	p, err := w.Partition(TopicPartition{Topic: topic})
	a := w.NewAppend()
	a.Acks, a.Timeout = acks, timeout
	a.Entries = append(a.Entries, AppendEntry{Partition: p, Records: records(n), Err: err})
	return w.append(a)
}

func (w *world) append(a *Append) *produced {
	out := &produced{}
	w.Append(a, func(a *Append) {
		out.times++
		out.at = w.sim.Now()
		out.err, out.base, out.start = a.Entries[0].Err, a.Entries[0].Info.BaseOffset, a.Entries[0].LogStart
		for i := range a.Entries {
			if a.Entries[i].Err != nil {
				out.failed++
			}
		}
		a.Release()
	})
	return out
}

func (o *produced) check(t *testing.T, want error, base int64) {
	t.Helper()
	if o.times != 1 || !errors.Is(o.err, want) || o.base != base {
		t.Errorf("answered %d times: error %v, base offset %d; expected once, %v, %d", o.times, o.err, o.base, want, base)
	}
}

// fetched is what became of a Fetch.
type fetched struct {
	times   int
	at      time.Duration
	results []FetchResult
	bytes   []int
}

func part(topic string, offset int64) FetchPart {
	return FetchPart{Topic: topic, Offset: offset, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, LogStart: -1, HighWatermark: 1<<63 - 1}
}

// fetch reads as a consumer, or as another replica.
func (w *world) fetch(replica int32, wait time.Duration, minBytes int, parts ...FetchPart) *fetched {
	f := w.NewFetch()
	f.ReplicaID, f.ReplicaEpoch, f.Version = replica, -1, 17
	f.MaxWait, f.MinBytes, f.MaxBytes = wait, minBytes, 1<<20
	f.Parts = append(f.Parts, parts...)
	return w.read(f)
}

func (w *world) read(f *Fetch) *fetched {
	out := &fetched{}
	w.Fetch(f, func(f *Fetch) {
		out.times++
		out.at = w.sim.Now()
		out.results = append(out.results, f.Results...)
		for _, r := range f.Results {
			out.bytes = append(out.bytes, r.Records.Len)
		}
		f.Release()
	})
	return out
}

func (o *fetched) check(t *testing.T, i int, err *kerr.Error, high int64, bytes int) {
	t.Helper()
	if o.times != 1 {
		t.Fatalf("answered %d times", o.times)
	}
	var code int16
	if err != nil {
		code = err.Code
	}
	if r := o.results[i]; r.Err != code || r.HighWatermark != high || o.bytes[i] != bytes {
		t.Errorf("part %d: error %d, high watermark %d, %d bytes; expected %d, %d, %d", i, r.Err, r.HighWatermark, o.bytes[i], code, high, bytes)
	}
}
