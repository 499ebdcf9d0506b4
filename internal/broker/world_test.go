package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/coordinator/group"
	"github.com/ottla-io/ottla/internal/env/sim"
	"github.com/ottla-io/ottla/internal/image"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/replica"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/storage"
	"github.com/ottla-io/ottla/internal/uuid"
)

var (
	_ Groups          = (*group.Service)(nil)
	_ Channel         = (*ControllerChannel)(nil)
	_ raft.Listener   = (*ControllerChannel)(nil)
	_ QuorumMembers   = (*raft.Quorum)(nil)
	_ image.Publisher = (*ControllerRegistration)(nil)
)

// memoryQuorum is a metadata log in memory with one voter, which leads and commits at once.
type memoryQuorum struct {
	node      *sim.Node
	leader    raft.LeaderAndEpoch
	end       int64
	prepared  []raft.Batch
	listeners []raft.Listener
}

func (q *memoryQuorum) PrepareAppend(_ int32, records []metadata.Versioned) (int64, error) {
	base := q.end
	q.end += int64(len(records))
	q.prepared = append(q.prepared, raft.Batch{
		BaseOffset: base, LastOffset: q.end - 1, Epoch: q.leader.Epoch, AppendTime: q.node.Now().UnixMilli(), Bytes: 100 * len(records), Records: q.written(records),
	})
	return q.end - 1, nil
}

// written are records as they come back from a log.
func (q *memoryQuorum) written(records []metadata.Versioned) []metadata.Versioned {
	out := make([]metadata.Versioned, len(records))
	for i, v := range records {
		b, err := metadata.AppendRecord(nil, v.Record, v.Version)
		if err != nil {
			panic(err)
		}
		if out[i].Record, out[i].Version, err = metadata.ParseRecord(b); err != nil {
			panic(err)
		}
	}
	return out
}

func (q *memoryQuorum) SchedulePreparedAppend() {
	batches := q.prepared
	q.prepared = nil
	for _, l := range q.listeners {
		l.HandleCommit(batches)
	}
}

func (q *memoryQuorum) Resign(int32)                                 {}
func (q *memoryQuorum) LeaderAndEpoch() raft.LeaderAndEpoch          { return q.leader }
func (q *memoryQuorum) LogEndOffset() int64                          { return q.end }
func (q *memoryQuorum) HighWatermark() int64                         { return q.end }
func (q *memoryQuorum) UpgradeKRaftVersion(int32, int16, bool) error { return nil }
func (q *memoryQuorum) KRaftVersion() int16                          { return 1 }
func (q *memoryQuorum) Voters() *raft.VoterSet                       { return nil }

func (q *memoryQuorum) AddRaftVoter(_ *rpc.Context, _ *protocol.AddRaftVoterRequest, respond func(*protocol.AddRaftVoterResponse)) {
	respond(protocol.NewAddRaftVoterResponse())
}

func (q *memoryQuorum) RemoveRaftVoter(_ *rpc.Context, _ *protocol.RemoveRaftVoterRequest, respond func(*protocol.RemoveRaftVoterResponse)) {
	respond(protocol.NewRemoveRaftVoterResponse())
}

func (q *memoryQuorum) DescribeQuorum(_ *rpc.Context, _ *protocol.DescribeQuorumRequest, respond func(*protocol.DescribeQuorumResponse)) {
	respond(protocol.NewDescribeQuorumResponse())
}

// elect makes a node the leader.
func (q *memoryQuorum) elect(id int32) {
	q.leader = raft.LeaderAndEpoch{LeaderID: id, Epoch: q.leader.Epoch + 1}
	for _, l := range q.listeners {
		l.HandleLeaderChange(q.leader)
	}
}

// told writes down what replicas and groups are told.
type told struct {
	lines []string
	data  *replica.Manager // is told as well
}

func (r *told) Apply(d *image.Delta, img *image.Image) {
	r.data.Apply(d, img)
	c := d.Topics().LocalChanges(1)
	for _, list := range []struct {
		verb  string
		parts []image.LocalPartition
	}{{"delete", c.Deletes}, {"lead", c.Leaders}, {"follow", c.Followers}} {
		for _, p := range list.parts {
			r.lines = append(r.lines, fmt.Sprintf("%s %s-%d", list.verb, p.Topic.Name, p.ID))
		}
	}
}

func (r *told) ConfigsChanged(topics []string, img *image.Image) {
	r.data.ConfigsChanged(topics, img)
	r.lines = append(r.lines, "configs of "+strings.Join(topics, " "))
}

func (r *told) OnElection(p, epoch int32) {
	r.lines = append(r.lines, fmt.Sprintf("elected %d epoch %d", p, epoch))
}

func (r *told) OnResignation(p, epoch int32) {
	r.lines = append(r.lines, fmt.Sprintf("resigned %d epoch %d", p, epoch))
}

func (r *told) OnTopicsDeleted(topics []group.Topic) {
	for _, t := range topics {
		r.lines = append(r.lines, "deleted "+t.Name)
	}
}

// properties is a node with two client listeners.
const properties = `
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:19093
listeners=PLAINTEXT://localhost:19092,EXT://localhost:19094,CONTROLLER://localhost:19093
advertised.listeners=PLAINTEXT://localhost:19092,EXT://127.0.0.1:19094,CONTROLLER://localhost:19093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kafka-judge
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXT:PLAINTEXT
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
`

func parse(t testing.TB, text string) *config.Node {
	t.Helper()
	entries, errs := config.ParseProperties("server.properties", []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	cfg, err := config.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// trace keeps the log lines of a world.
type trace struct{ b strings.Builder }

func (t *trace) Write(p []byte) (int, error) { return t.b.Write(p) }

// testNode is a broker and the controller it belongs to, in one process.
type testNode struct {
	t       *testing.T
	world   *sim.World
	node    *sim.Node
	trace   *trace
	quorum  *memoryQuorum
	ctrl    *controller.Controller
	loader  *image.Loader
	channel *ControllerChannel
	broker  *Broker
	logs    *storage.Manager
	data    *replica.Manager
	told    *told
	running error
	started bool
}

var errNotYet = fmt.Errorf("not running yet")

// newNode makes a node that has no controller yet, and no broker that was started.
func newNode(t *testing.T) *testNode {
	cfg := parse(t, properties)
	n := &testNode{t: t, trace: &trace{}, told: &told{}, running: errNotYet}
	n.world = sim.NewWorld(1, sim.Options{Trace: n.trace})
	n.node = n.world.NewNode("n1")
	n.quorum = &memoryQuorum{node: n.node, leader: raft.LeaderAndEpoch{LeaderID: raft.NoNode}}
	n.ctrl = controller.New(n.node, controller.FromNode(cfg, "AAAAAAAAAAAAAAAAAAAAAQ"), n.quorum)
	n.loader = image.NewLoader(n.node, n.quorum, image.LoaderOptions{OnFault: func(err error) { t.Error(err) }})
	n.channel = NewControllerChannel(n.node, "to-controller", ChannelOptions{NodeID: 1, Timeout: 10 * time.Second, Local: LocalController(n.ctrl, n.quorum)})
	n.quorum.listeners = []raft.Listener{n.ctrl, n.loader, n.channel}
	n.openLogs(cfg)
	n.broker = New(Deps{
		Env: n.node, Config: cfg, ClusterID: "AAAAAAAAAAAAAAAAAAAAAQ", LogDirs: []uuid.UUID{{7, 1}}, PreviousEpoch: -1, Lifecycle: n.channel, Controller: n.channel,
		Advertised:     []image.Endpoint{{Name: "PLAINTEXT", Host: "localhost", Port: 19092}, {Name: "EXT", Host: "127.0.0.1", Port: 19094}},
		MetadataOffset: func() int64 { return n.loader.Image().Provenance.Offset }, Replicas: n.told, Data: n.data, Groups: n.told,
	})
	return n
}

// openLogs opens the partitions' logs on the node's disk.
func (n *testNode) openLogs(cfg *config.Node) {
	const dir = "/tmp/kafka-judge"
	var err error
	loaded := false
	n.node.Do("open logs", func() {
		if err = n.node.FS().MkdirAll(dir, 0o755); err != nil {
			return
		}
		o := storage.ManagerOptionsFrom(cfg)
		o.Directories = []storage.DirectoryOptions{{Path: dir, ID: uuid.UUID{7, 1}}}
		o.Settings = func(string) config.Topic { return config.Topic{Layers: config.Layers{Node: cfg}} }
		if n.logs, err = storage.OpenManager(n.node, o); err == nil {
			n.logs.Load(func(e error) { err, loaded = e, true })
		}
	})
	n.world.RunUntil(time.Second, func() bool { return loaded || err != nil })
	if err != nil {
		n.t.Fatal(err)
	}
	n.data = replica.NewManager(n.node, replica.FromNode(cfg), n.logs)
	n.told.data = n.data
}

// start starts the broker.
func (n *testNode) start() {
	n.node.Do("start", func() {
		n.broker.Start(func(err error) { n.running, n.started = err, true })
		n.loader.AddPublisher(n.broker.Publishers()...)
	})
}

// runNode is a node whose broker runs.
func runNode(t *testing.T) *testNode {
	n := newNode(t)
	n.start()
	n.node.Do("elect", func() { n.quorum.elect(1) })
	if !n.world.RunUntil(time.Second, func() bool { return n.started }) || n.running != nil {
		n.world.Report(t.Output(), 50)
		t.Fatalf("the broker does not run: %v", n.running)
	}
	return n
}

// roundTrip calls a handler and returns its answer, as a client decodes it.
func (n *testNode) roundTrip(req protocol.Request, version int16, listener string, call func(*rpc.Context, func(protocol.Response))) protocol.Response {
	n.t.Helper()
	var resp protocol.Response
	n.node.Do("request", func() {
		ctx := &rpc.Context{APIKey: req.APIKey(), APIVersion: version, Listener: listener, ClientID: "test", Principal: "User:ANONYMOUS"}
		call(ctx, func(r protocol.Response) {
			if resp != nil {
				n.t.Errorf("%T was answered twice", req)
			}
			resp = onTheWire(n.t, r, version) // handlers use their answers again
		})
	})
	if !n.world.RunUntil(15*time.Second, func() bool { return resp != nil }) {
		n.world.Report(n.t.Output(), 50)
		n.t.Fatalf("%T was not answered", req)
	}
	return resp
}

// onTheWire is a response as a client sees it.
func onTheWire(t *testing.T, resp protocol.Response, version int16) protocol.Response {
	t.Helper()
	b, err := resp.Encode(nil, version)
	if err != nil {
		t.Fatalf("encode %T v%d: %v", resp, version, err)
	}
	return decoded(t, b, resp.APIKey(), version)
}

// forward calls the controller through the broker.
func (n *testNode) forward(req protocol.Request, version int16) protocol.Response {
	n.t.Helper()
	return n.roundTrip(req, version, "PLAINTEXT", func(ctx *rpc.Context, respond func(protocol.Response)) { n.broker.Forward(ctx, req, respond) })
}

// createTopic creates a topic and waits until the broker knows it.
func (n *testNode) createTopic(name string, partitions int32, settings ...string) {
	n.t.Helper()
	req := protocol.NewCreateTopicsRequest()
	topic := protocol.NewCreateTopicsRequestCreatableTopic()
	topic.Name, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(settings); i += 2 {
		topic.Configs = append(topic.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: settings[i], Value: &settings[i+1]})
	}
	req.Topics = append(req.Topics, topic)
	resp := n.forward(req, 7).(*protocol.CreateTopicsResponse)
	if resp.Topics[0].ErrorCode != 0 {
		n.t.Fatalf("create %s: %+v", name, resp.Topics[0])
	}
	n.world.RunFor(10 * time.Millisecond)
}

// logged are the lines of the log that contain one of the words, without time and name.
func (n *testNode) logged(words ...string) []string {
	var out []string
	for line := range strings.Lines(n.trace.b.String()) {
		if _, message, ok := strings.Cut(line, " log "); ok && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) }) {
			out = append(out, strings.TrimSpace(message))
		}
	}
	return out
}
