//go:build interop

package controller

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/config"
	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/env/real"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// ourNode is our controller on a log in memory, with one broker that is only a name.
type ourNode struct {
	t *testing.T
	q *memoryQuorum
	c *controller.Controller
}

// memoryQuorum commits at once what is appended.
type memoryQuorum struct {
	log      []raft.Batch
	listener raft.Listener
	next     int64
	prepared []raft.Batch
}

func (q *memoryQuorum) LeaderAndEpoch() raft.LeaderAndEpoch {
	return raft.LeaderAndEpoch{LeaderID: 1, Epoch: 1}
}
func (q *memoryQuorum) LogEndOffset() int64                          { return q.next }
func (q *memoryQuorum) KRaftVersion() int16                          { return 1 }
func (q *memoryQuorum) UpgradeKRaftVersion(int32, int16, bool) error { return nil }
func (q *memoryQuorum) Voters() *raft.VoterSet {
	return raft.NewVoterSet(raft.Voter{Key: raft.ReplicaKey{ID: 1}})
}
func (q *memoryQuorum) Resign(int32) {}

func (q *memoryQuorum) PrepareAppend(epoch int32, records []metadata.Versioned) (int64, error) {
	b := raft.Batch{BaseOffset: q.next, LastOffset: q.next + int64(len(records)) - 1, Epoch: epoch, Records: records}
	q.next = b.LastOffset + 1
	q.prepared = append(q.prepared, b)
	return b.LastOffset, nil
}

func (q *memoryQuorum) SchedulePreparedAppend() {
	b := q.prepared
	q.prepared = nil
	q.log = append(q.log, b...)
	q.listener.HandleCommit(b)
}

// await calls a handler and waits for its answer.
func await[T any](t *testing.T, call func(respond func(T))) T {
	t.Helper()
	answer := make(chan T, 1)
	call(func(r T) { answer <- r })
	select {
	case r := <-answer:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("our controller does not answer")
		panic("unreachable")
	}
}

// newOurs is a controller that stands by on an empty log.
func newOurs(t *testing.T, extra ...string) *ourNode {
	t.Helper()
	var entries []config.Entry
	for _, s := range append(append(settings, extra...), "controller.quorum.bootstrap.servers=127.0.0.1:9093",
		"listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093", "log.dirs=/nowhere") {
		k, v, _ := strings.Cut(s, "=")
		entries = append(entries, config.Entry{Key: k, Value: v})
	}
	node, err := config.New(entries)
	if err != nil {
		t.Fatal(err)
	}
	q := &memoryQuorum{next: 1}
	o := &ourNode{t: t, q: q}
	o.c = controller.New(real.New(real.Options{Logger: slog.New(slog.DiscardHandler)}), controller.FromNode(node, clusterID), q)
	q.listener = o.c
	return o
}

func startOurs(t *testing.T, extra ...string) *ourNode {
	t.Helper()
	o := newOurs(t, extra...)
	o.c.HandleLeaderChange(o.q.LeaderAndEpoch())

	reg := protocol.NewBrokerRegistrationRequest()
	reg.BrokerId, reg.ClusterId, reg.IncarnationId = 1, clusterID, uuid.UUID{1, 15: 200}
	reg.LogDirs = []uuid.UUID{{2, 15: 200}}
	for _, f := range metadata.Features {
		reg.Features = append(reg.Features, protocol.BrokerRegistrationRequestFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	ctx := &rpc.Context{APIVersion: 4, Listener: "CONTROLLER"}
	answer := await(t, func(respond func(*protocol.BrokerRegistrationResponse)) { o.c.BrokerRegistration(ctx, reg, respond) })
	if answer.ErrorCode != 0 {
		t.Fatalf("registration: error %d", answer.ErrorCode)
	}
	beat := protocol.NewBrokerHeartbeatRequest()
	beat.BrokerId, beat.BrokerEpoch, beat.CurrentMetadataOffset = 1, answer.BrokerEpoch, answer.BrokerEpoch
	if r := await(t, func(respond func(*protocol.BrokerHeartbeatResponse)) {
		o.c.BrokerHeartbeat(&rpc.Context{APIVersion: 2, Listener: "CONTROLLER"}, beat, respond)
	}); r.IsFenced {
		t.Fatal("our broker is fenced")
	}
	return o
}

// ask calls the handler of a request.
func (o *ourNode) ask(req protocol.Request, version int16) protocol.Response {
	o.t.Helper()
	ctx := &rpc.Context{APIKey: req.APIKey(), APIVersion: version, Listener: "PLAINTEXT"}
	switch req := req.(type) {
	case *protocol.CreateTopicsRequest:
		return await(o.t, func(f func(*protocol.CreateTopicsResponse)) { o.c.CreateTopics(ctx, req, f) })
	case *protocol.DeleteTopicsRequest:
		return await(o.t, func(f func(*protocol.DeleteTopicsResponse)) { o.c.DeleteTopics(ctx, req, f) })
	case *protocol.CreatePartitionsRequest:
		return await(o.t, func(f func(*protocol.CreatePartitionsResponse)) { o.c.CreatePartitions(ctx, req, f) })
	case *protocol.IncrementalAlterConfigsRequest:
		return await(o.t, func(f func(*protocol.IncrementalAlterConfigsResponse)) { o.c.IncrementalAlterConfigs(ctx, req, f) })
	case *protocol.AlterConfigsRequest:
		return await(o.t, func(f func(*protocol.AlterConfigsResponse)) { o.c.AlterConfigs(ctx, req, f) })
	case *protocol.ElectLeadersRequest:
		return await(o.t, func(f func(*protocol.ElectLeadersResponse)) { o.c.ElectLeaders(ctx, req, f) })
	case *protocol.UpdateFeaturesRequest:
		return await(o.t, func(f func(*protocol.UpdateFeaturesResponse)) { o.c.UpdateFeatures(ctx, req, f) })
	case *protocol.UnregisterBrokerRequest:
		return await(o.t, func(f func(*protocol.UnregisterBrokerResponse)) { o.c.UnregisterBroker(ctx, req, f) })
	case *protocol.AlterPartitionReassignmentsRequest:
		return await(o.t, func(f func(*protocol.AlterPartitionReassignmentsResponse)) {
			o.c.AlterPartitionReassignments(ctx, req, f)
		})
	case *protocol.ListPartitionReassignmentsRequest:
		return await(o.t, func(f func(*protocol.ListPartitionReassignmentsResponse)) {
			o.c.ListPartitionReassignments(ctx, req, f)
		})
	}
	return o.askSecurity(ctx, req)
}

// askSecurity calls the handlers of who may do what, and how much.
func (o *ourNode) askSecurity(ctx *rpc.Context, req protocol.Request) protocol.Response {
	o.t.Helper()
	switch req := req.(type) {
	case *protocol.AlterUserScramCredentialsRequest:
		return await(o.t, func(f func(*protocol.AlterUserScramCredentialsResponse)) { o.c.AlterUserScramCredentials(ctx, req, f) })
	case *protocol.AlterClientQuotasRequest:
		return await(o.t, func(f func(*protocol.AlterClientQuotasResponse)) { o.c.AlterClientQuotas(ctx, req, f) })
	case *protocol.CreateAclsRequest:
		return await(o.t, func(f func(*protocol.CreateAclsResponse)) { o.c.CreateAcls(ctx, req, f) })
	case *protocol.DeleteAclsRequest:
		return await(o.t, func(f func(*protocol.DeleteAclsResponse)) { o.c.DeleteAcls(ctx, req, f) })
	}
	o.t.Fatalf("no handler for %T", req)
	return nil
}
