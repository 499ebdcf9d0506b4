package controller

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// loaded is an active controller with live brokers and topics of one partition each.
func loaded(tb testing.TB, brokers, topics int) *worldBase {
	w := &worldBase{}
	w.open(tb, FromNode(testNode(tb), testClusterID))
	w.c.log = slog.New(slog.DiscardHandler)
	w.c.state = w.c.newState()
	w.c.state.registry.Snapshot(-1)
	w.quorum.lead()
	w.env.run()
	for id := range int32(brokers) {
		req := protocol.NewBrokerRegistrationRequest()
		req.BrokerId, req.ClusterId, req.IncarnationId = id, testClusterID, incarnation(fmt.Sprint(id))
		req.LogDirs = dirs([]string{fmt.Sprint("d", id)})
		req.Features = allFeatures()
		w.c.BrokerRegistration(&rpc.Context{APIVersion: 4}, req, func(*protocol.BrokerRegistrationResponse) {})
		w.env.run()
		w.beat(id, func(*protocol.BrokerHeartbeatRequest) {}, func(*protocol.BrokerHeartbeatResponse) {})
		w.env.run()
	}
	for at := 0; at < topics; at += 4000 {
		req := protocol.NewCreateTopicsRequest()
		for i := at; i < min(at+4000, topics); i++ {
			req.Topics = append(req.Topics, createTopic{Name: fmt.Sprintf("topic-%06d", i), NumPartitions: 1, ReplicationFactor: 1})
		}
		w.create(tb, req)
	}
	if topics > 0 { // the log is not looked at
		w.quorum.log, w.quorum.handed = w.quorum.log[len(w.quorum.log)-1:], 1
	}
	return w
}

func (w *worldBase) create(tb testing.TB, req *protocol.CreateTopicsRequest) {
	ok := false
	w.c.CreateTopics(&rpc.Context{APIVersion: 7, Listener: "PLAINTEXT"}, req, func(r *protocol.CreateTopicsResponse) {
		ok = r.Topics[0].ErrorCode == 0
		if !ok {
			tb.Fatal(*r.Topics[0].ErrorMessage)
		}
	})
	w.env.run()
	if !ok {
		tb.Fatal("not answered")
	}
}

// TestManyPartitionsInOneRequest: 9,000 partitions in a request are work for a fraction of a second, not of their square.
func TestManyPartitionsInOneRequest(t *testing.T) {
	w := loaded(t, 1, 0)
	start := time.Now()
	req := protocol.NewCreateTopicsRequest()
	req.Topics = []createTopic{{Name: "many", NumPartitions: 9000, ReplicationFactor: 1}}
	w.create(t, req)
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	w.settle(t)
}

func BenchmarkCreate9000Partitions(b *testing.B) {
	w := loaded(b, 3, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req := protocol.NewCreateTopicsRequest()
		req.Topics = []createTopic{{Name: fmt.Sprint("many", i), NumPartitions: 9000, ReplicationFactor: 3}}
		w.create(b, req)
	}
}

func BenchmarkCreateOneTopicAmong(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := loaded(b, 3, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				req := protocol.NewCreateTopicsRequest()
				req.Topics = []createTopic{{Name: fmt.Sprint("more", i), NumPartitions: 1, ReplicationFactor: 1}}
				w.create(b, req)
			}
		})
	}
}

// BenchmarkFence fences a broker that leads 3,333 partitions alone, and lets it back: two records for each.
func BenchmarkFence(b *testing.B) {
	w := loaded(b, 3, 0)
	for i := range 5 {
		req := protocol.NewCreateTopicsRequest()
		req.Topics = []createTopic{{Name: fmt.Sprint("t", i), NumPartitions: 2000, ReplicationFactor: 1}}
		w.create(b, req)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.beat(1, func(r *protocol.BrokerHeartbeatRequest) { r.WantFence = true }, func(*protocol.BrokerHeartbeatResponse) {})
		w.env.run()
		w.beat(1, func(*protocol.BrokerHeartbeatRequest) {}, func(*protocol.BrokerHeartbeatResponse) {})
		w.env.run()
	}
}
