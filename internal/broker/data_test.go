package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// late is an answer that may take its time.
type late struct {
	times int
	at    time.Duration
	lines []string
}

// send calls a handler and does not wait for the answer.
func (n *testNode) send(req protocol.Request, version int16) *late {
	out := &late{}
	n.node.Do("request", func() {
		ctx := &rpc.Context{APIKey: req.APIKey(), APIVersion: version, Listener: "PLAINTEXT"}
		dispatch(n.broker, ctx, req, func(r protocol.Response) {
			out.times++
			out.at, out.lines = n.world.Now(), answerLines(onTheWire(n.t, r, version))
		})
	})
	n.world.RunFor(time.Millisecond)
	return out
}

func (l *late) check(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, l.lines); diff != "" || l.times != 1 {
		t.Errorf("answered %d times (-want +got):\n%s", l.times, diff)
	}
}

// longPoll asks for what comes behind the end of a log.
func longPoll(wait int32, parts ...fetchPart) *protocol.FetchRequest {
	return fetchRequest(func(r *protocol.FetchRequest) { r.MinBytes, r.MaxWaitMs = 1, wait }, parts...)
}

const nothingThere = "t-0 error 0 high 0 stable 0 start 0 aborted null preferred -1 leader {-1 -1} diverging {-1 -1} records"

func TestFetchWaitsForRecords(t *testing.T) {
	n := runNode(t)
	n.createTopic("t", 1)
	begin := n.world.Now()
	quiet := n.send(longPoll(500, fetchPart{topic: "t"}), 12)
	if quiet.times != 0 {
		t.Fatal("answered at once")
	}
	n.world.RunFor(time.Second)
	quiet.check(t, "error 0 session false", nothingThere)
	if d := (quiet.at - begin).Round(time.Millisecond); d != 500*time.Millisecond {
		t.Errorf("answered after %s", d)
	}
	all := make([]*late, 1000)
	for i := range all {
		all[i] = n.send(longPoll(20_000, fetchPart{topic: "t"}), 12)
	}
	if w := n.data.Waiting(); w != len(all) {
		t.Errorf("%d wait", w)
	}
	n.send(produceRequest(1, part{"t", 0, batchOf(1)}), 9).check(t, "t-0 error 0 base 0 time -1 start 0 leader {-1 -1}")
	for _, l := range all {
		l.check(t, "error 0 session false", "t-0 error 0 high 1 stable 1 start 0 aborted null preferred -1 leader {-1 -1} diverging {-1 -1} records [0-0 epoch 0 of 1]")
	}
}

// A partition with an error known before does not keep the others from waiting, one that fails in the read does.
func TestErrorsAndWaiting(t *testing.T) {
	n := runNode(t)
	n.createTopic("t", 1)
	waits := n.send(longPoll(1000, fetchPart{topic: "t"}, fetchPart{topic: "nowhere"}), 12)
	if waits.times != 0 {
		t.Error("an unknown topic ended the wait")
	}
	n.send(longPoll(1000, fetchPart{topic: "nowhere"}), 12).check(t, "error 0 session false",
		"nowhere-0 error 3 high -1 stable -1 start -1 aborted [] preferred -1 leader {-1 -1} diverging {-1 -1} records")
	n.send(longPoll(1000, fetchPart{topic: "t", offset: 1}), 12).check(t, "error 0 session false",
		"t-0 error 1 high -1 stable -1 start -1 aborted null preferred -1 leader {-1 -1} diverging {-1 -1} records")
	n.send(longPoll(1000), 12).check(t, "error 0 session false")
	n.world.RunFor(time.Second)
	waits.check(t, "error 0 session false", "nowhere-0 error 3 high -1 stable -1 start -1 aborted [] preferred -1 leader {-1 -1} diverging {-1 -1} records", nothingThere)
}

// acked0 sends a produce request that nobody answers and returns why its connection was closed.
func (n *testNode) acked0(parts ...part) string {
	n.t.Helper()
	closed, answers := "", 0
	n.node.Do("request", func() {
		ctx := &rpc.Context{APIKey: protocol.KeyProduce, APIVersion: 9, ClientID: "c", CorrelationID: 5, CloseConn: func(reason string) { closed += reason }}
		n.broker.Produce(ctx, produceRequest(0, parts...), func(r *protocol.ProduceResponse) {
			answers++
			if r != nil {
				n.t.Errorf("answered: %+v", r)
			}
		})
	})
	n.world.RunFor(time.Millisecond)
	if answers != 1 {
		n.t.Errorf("responded %d times", answers)
	}
	return closed
}

func TestProduceWithoutAnswer(t *testing.T) {
	n := runNode(t)
	n.createTopic("t", 1)
	if reason := n.acked0(part{"t", 0, batchOf(2)}); reason != "" {
		t.Errorf("closed: %s", reason)
	}
	const prefix = "error during produce request with correlation id 5 from client id c with ack=0: "
	reason := n.acked0(part{"t", 0, batchOf(1)}, part{"nowhere", 3, batchOf(1)})
	if want := prefix + "nowhere-3 -> UNKNOWN_TOPIC_OR_PARTITION"; reason != want {
		t.Errorf("closed: %q, expected %q", reason, want)
	}
	long := make([]part, 1000)
	for i := range long {
		long[i] = part{strings.Repeat("x", 30_000), int32(i), batchOf(1)}
	}
	reason = n.acked0(long...)
	if want := prefix + strings.Repeat("x", 300) + " -> UNKNOWN_TOPIC_OR_PARTITION and 999 more"; reason != want {
		t.Errorf("closed: %d bytes: %.500q", len(reason), reason)
	}
	if lines := n.logged("ack=0"); len(lines) != 0 { // it is for the connection to say
		t.Errorf("log: %q", lines)
	}
	n.send(produceRequest(1, part{"t", 0, batchOf(1)}), 9).check(t, "t-0 error 0 base 3 time -1 start 0 leader {-1 -1}")
}

// Kafka never answers null records: it stumbles over them.
func TestNullRecordsAreRefused(t *testing.T) {
	n := runNode(t)
	n.createTopic("t", 2)
	req := produceRequest(1, part{"t", 0, nil}, part{"t", 1, batchOf(1)})
	req.TopicData[0].PartitionData[0].Records = nil
	n.send(req, 9).check(t, "t-0 error 87 base -1 time -1 start -1 leader {-1 -1}", "t-1 error 0 base 0 time -1 start 0 leader {-1 -1}")
}

// withFollower is a node that knows of another broker, and of a topic t that has replicas on both.
func withFollower(t *testing.T, leader int32) *testNode {
	n := runNode(t)
	other := metadata.NewRegisterBrokerRecord()
	other.BrokerId, other.BrokerEpoch, other.Fenced = 2, 7, false
	other.EndPoints = []metadata.RegisterBrokerRecordBrokerEndpoint{{Name: "PLAINTEXT", Host: "other", Port: 9999}}
	topic := metadata.NewTopicRecord()
	topic.Name, topic.TopicId = "t", uuid.UUID{5, 5}
	records := []metadata.Versioned{{Record: other, Version: 3}, {Record: topic}}
	for i, replicas := range [][]int32{{1, 2}, {2}} {
		p := metadata.NewPartitionRecord()
		p.PartitionId, p.TopicId, p.Replicas, p.Isr, p.Leader, p.LeaderEpoch, p.PartitionEpoch = int32(i), topic.TopicId, replicas, replicas, leader, 4, 9
		p.Directories = make([]uuid.UUID, len(replicas))
		records = append(records, metadata.Versioned{Record: p, Version: 1})
	}
	n.node.Do("metadata", func() {
		if _, err := n.quorum.PrepareAppend(1, records); err != nil {
			t.Error(err)
		}
		n.loader.HandleCommit(n.quorum.prepared) // the controller need not know
		n.quorum.prepared = nil
	})
	n.world.RunFor(time.Second)
	return n
}

func TestAnotherBrokerLeads(t *testing.T) {
	n := withFollower(t, 2)
	for _, version := range []int16{9, 10} {
		want := []string{"t-0 error 6 base -1 time -1 start -1 leader {-1 -1}", "t-1 error 6 base -1 time -1 start -1 leader {-1 -1}"}
		if version >= 10 {
			want = []string{"node 2 other", "t-0 error 6 base -1 time -1 start -1 leader {2 4}", "t-1 error 6 base -1 time -1 start -1 leader {2 4}"}
		}
		n.send(produceRequest(1, part{"t", 0, batchOf(1)}, part{"t", 1, batchOf(1)}), version).check(t, want...)
	}
	req := func(version int16, parts ...fetchPart) *protocol.FetchRequest {
		r := longPoll(500, parts...)
		if version >= 13 {
			r.Topics[0].TopicId = uuid.UUID{5, 5}
		}
		return r
	}
	gone := " error 6 high -1 stable -1 start -1 aborted null preferred -1 leader {-1 -1} diverging {-1 -1} records"
	n.send(req(10, fetchPart{topic: "t"}, fetchPart{topic: "t", index: 1}), 10).check(t, "error 0 session false", "t-0"+gone, "t-1"+gone)
	hinted := " error 6 high -1 stable -1 start -1 aborted null preferred -1 leader {2 4} diverging {-1 -1} records"
	n.send(req(16, fetchPart{topic: "t", index: 1}), 16).check(t, "-1"+hinted, "error 0 session false", "node 2 other")
	// A follower answers consumers of version 11 and up; an epoch that is over is answered with who leads now.
	fenced := " error 74 high -1 stable -1 start -1 aborted null preferred -1 leader {2 4} diverging {-1 -1} records"
	n.send(req(16, fetchPart{topic: "t", epoch: 4}), 16).check(t, "-0"+fenced, "error 0 session false", "node 2 other")
	l := n.send(req(11, fetchPart{topic: "t"}), 11)
	n.world.RunFor(time.Second)
	l.check(t, "error 0 session false", nothingThere)

	n.send(listing("", 7, nil, at("t", 0, -1), at("t", 1, -1)).req(nil), 7).check(t, "t-0 error 6 timestamp -1 offset -1 epoch -1", "t-1 error 6 timestamp -1 offset -1 epoch -1")
	n.send(describeProducers("t").req(nil), 0).check(t, "t-0 error 0 ", "t-9 error 3 ")
	deletion := protocol.NewDeleteRecordsRequest()
	deletion.Topics = []protocol.DeleteRecordsRequestDeleteRecordsTopic{{Name: "t", Partitions: []protocol.DeleteRecordsRequestDeleteRecordsPartition{{PartitionIndex: 0}, {PartitionIndex: 1}}}}
	n.send(deletion, 2).check(t, "t-0 error 6 low -1", "t-1 error 6 low -1")
}

func TestAcksAllWaitsForTheFollower(t *testing.T) {
	n := withFollower(t, 1)
	l := n.send(produceRequest(-1, part{"t", 0, batchOf(2)}), 9)
	behind := n.send(produceRequest(-1, part{"t", 0, batchOf(1)}), 9)
	consumer := n.send(longPoll(5000, fetchPart{topic: "t"}), 12)
	follow := func(offset int64) *late {
		r := longPoll(0, fetchPart{topic: "t", offset: offset})
		r.Topics[0].TopicId = uuid.UUID{5, 5}
		r.ReplicaState = protocol.FetchRequestReplicaState{ReplicaId: 2, ReplicaEpoch: 7}
		return n.send(r, 17)
	}
	follow(0).check(t, "-0 error 0 high 0 stable 0 start 0 aborted null preferred -1 leader {-1 -1} diverging {-1 -1} records [0-1 epoch 4 of 2] [2-2 epoch 4 of 1]", "error 0 session false")
	if l.times+consumer.times != 0 {
		t.Error("answered before the follower has it")
	}
	follow(2)
	l.check(t, "t-0 error 0 base 0 time -1 start 0 leader {-1 -1}")
	consumer.check(t, "error 0 session false", "t-0 error 0 high 2 stable 2 start 0 aborted null preferred -1 leader {-1 -1} diverging {-1 -1} records [0-1 epoch 4 of 2]")
	n.world.RunFor(2 * time.Second)
	behind.check(t, "t-0 error 7 base 2 time -1 start 0 leader {-1 -1}")
}

// Whoever reads as a follower is told where its log leaves the leader's.
func TestDivergingEpoch(t *testing.T) {
	n := withFollower(t, 1)
	n.send(produceRequest(1, part{"t", 0, batchOf(2)}), 9)
	follow := func(offset int64, last int32) *late {
		r := longPoll(500, fetchPart{topic: "t", offset: offset, last: last + 1})
		r.ReplicaId = 2
		return n.send(r, 12)
	}
	follow(5, 4).check(t, "error 0 session false", "t-0 error 0 high 0 stable 0 start 0 aborted null preferred -1 leader {-1 -1} diverging {4 2} records")
	follow(1, 3).check(t, "error 0 session false", "t-0 error 0 high 0 stable 0 start 0 aborted null preferred -1 leader {-1 -1} diverging {3 0} records")
}

// Steady produce and fetch requests use their memory again. (The race detector lets pools forget some of it: what counts is that nothing
// is allocated for each partition.)
func TestSteadyRequestsAllocateLittle(t *testing.T) {
	n := runNode(t)
	n.createTopic("t", 50)
	var parts []fetchPart
	for i := range int32(50) {
		parts = append(parts, fetchPart{topic: "t", index: i})
	}
	n.send(produceRequest(1, part{"t", 0, batchOf(5)}), 9)
	ctx := &rpc.Context{APIVersion: 12, Listener: "PLAINTEXT"}
	var session int32
	respond := func(r *rpc.FetchReply) {
		session = r.Response.SessionId
		r.Release()
	}
	n.broker.Fetch(ctx, fetchRequest(func(r *protocol.FetchRequest) { r.SessionEpoch = 0 }, parts...), respond)
	steady := fetchRequest(func(r *protocol.FetchRequest) { r.SessionId = session })
	steady.SessionEpoch = 0
	allocs := testing.AllocsPerRun(100, func() {
		steady.SessionEpoch++
		n.broker.Fetch(ctx, steady, respond)
	})
	if allocs > 20 {
		t.Errorf("%.0f allocations for a fetch of a session of 50 partitions", allocs)
	}
	req := produceRequest(1, part{"t", 1, batchOf(5)}, part{"t", 2, batchOf(5)}, part{"t", 3, batchOf(5)}, part{"t", 4, batchOf(5)})
	allocs = testing.AllocsPerRun(100, func() {
		for i := range req.TopicData[0].PartitionData {
			record.Batch(req.TopicData[0].PartitionData[i].Records).SetBaseOffset(0)
		}
		n.broker.Produce(ctx, req, func(r *protocol.ProduceResponse) {
			if slices.ContainsFunc(r.Responses[0].PartitionResponses, func(p protocol.ProduceResponsePartitionProduceResponse) bool { return p.ErrorCode != kerr.None }) {
				t.Errorf("%+v", r.Responses[0].PartitionResponses)
			}
		})
	})
	t.Logf("%.0f allocations for a produce to four partitions", allocs)
	if allocs > 16 {
		t.Errorf("%.0f allocations for a produce to four partitions", allocs)
	}
}
