package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// TestRandomHistories runs random requests, clocks and changes of leadership, with commits at once and held back, and
// checks I6 and I7 after each event: the state equals what replaying the committed log gives, from zero and from a
// snapshot, and every partition's registration is sound.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			h := newRandomHistory(t, seed)
			for range 150 {
				h.step(t)
			}
			h.answered(t)
		})
	}
}

type randomHistory struct {
	worldBase
	rng     *rand.Rand
	asked   int
	answers int
	seen    map[string]bool // error codes and successes by request
}

func newRandomHistory(t testing.TB, seed uint64) *randomHistory {
	h := &randomHistory{rng: rand.New(rand.NewPCG(seed, 3)), seen: map[string]bool{}}
	cfg := FromNode(testNode(t, fmt.Sprint("min.insync.replicas=", 1+seed%3)), testClusterID)
	if seed%4 == 3 { // an older cluster
		cfg.Bootstrap = DefaultBootstrap(metadata.Version(7 + h.rng.IntN(25)))
	}
	cfg.ACLs, cfg.Tokens.Secret = true, "hush"
	h.open(t, cfg)
	h.env.rng = rand.New(rand.NewPCG(seed, 4))
	h.quorum.lead()
	h.settle(t)
	return h
}

// allFeatures are what a broker of this release supports.
func allFeatures() (list []protocol.BrokerRegistrationRequestFeature) {
	for i := range metadata.Features {
		f := &metadata.Features[i]
		list = append(list, protocol.BrokerRegistrationRequestFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	return list
}

func (h *randomHistory) ctx(version int16) *rpc.Context {
	return &rpc.Context{APIVersion: version, Listener: "PLAINTEXT"}
}

func (h *randomHistory) broker() int32 { return int32(1 + h.rng.IntN(5)) }
func (h *randomHistory) name() string  { return fmt.Sprint("t", h.rng.IntN(6)) }

// pick is a topic and a partition that exist, or not.
func (h *randomHistory) pick() (*topic, int32, *partition) {
	t := h.c.state.replication.topicByName(h.name())
	if t == nil || t.partitions.Len() == 0 {
		return nil, 0, nil
	}
	id := int32(h.rng.IntN(t.partitions.Len()))
	p, _ := t.partitions.Get(id)
	return t, id, p
}

func ask[T any](h *randomHistory, handler func(func(T))) {
	h.asked++
	handler(func(T) { h.answers++ })
}

func (h *randomHistory) step(t *testing.T) {
	switch h.rng.IntN(30) {
	case 0, 1, 2:
		id := h.broker()
		req := protocol.NewBrokerRegistrationRequest()
		req.BrokerId, req.ClusterId = id, testClusterID
		req.IncarnationId = incarnation(fmt.Sprint(id, h.rng.IntN(3)))
		req.LogDirs = dirs([]string{fmt.Sprint(id, "a"), fmt.Sprint(id, "b")}[:1+h.rng.IntN(2)])
		req.Features = allFeatures()
		if b := h.c.state.cluster.broker(id); b != nil && h.rng.IntN(2) == 0 {
			req.PreviousBrokerEpoch = b.epoch
		}
		ask(h, func(done func(*protocol.BrokerRegistrationResponse)) { h.c.BrokerRegistration(h.ctx(4), req, done) })
	case 3, 4, 5, 6, 7:
		id := h.broker()
		ask(h, func(done func(*protocol.BrokerHeartbeatResponse)) {
			h.beat(id, func(r *protocol.BrokerHeartbeatRequest) {
				r.WantFence, r.WantShutDown = h.rng.IntN(12) == 0, h.rng.IntN(12) == 0
				if h.rng.IntN(15) == 0 {
					r.OfflineLogDirs = dirs([]string{fmt.Sprint(id, "a")})
				}
				if h.rng.IntN(15) == 0 {
					r.CordonedLogDirs = dirs([]string{fmt.Sprint(id, "b")})
				}
				if h.rng.IntN(10) == 0 {
					r.CurrentMetadataOffset = 0
				}
			}, done)
		})
	case 8, 9:
		req := protocol.NewCreateTopicsRequest()
		ct := createTopic{Name: h.name(), NumPartitions: int32(h.rng.IntN(4)), ReplicationFactor: int16(1 + h.rng.IntN(4))}
		if h.rng.IntN(3) == 0 {
			v := []string{"true", "false", "2"}[h.rng.IntN(3)]
			ct.Configs = append(ct.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: []string{uncleanKey, minISRKey}[h.rng.IntN(2)], Value: &v})
		}
		req.Topics = append(req.Topics, ct)
		ask(h, func(done func(*protocol.CreateTopicsResponse)) { h.c.CreateTopics(h.ctx(7), req, done) })
	case 10:
		req := protocol.NewDeleteTopicsRequest()
		name := h.name()
		req.Topics = append(req.Topics, protocol.DeleteTopicsRequestDeleteTopicState{Name: &name})
		if h.rng.IntN(4) == 0 {
			ask(h, func(done func(*protocol.DeleteTopicsResponse)) { h.c.DeleteTopics(h.ctx(6), req, done) })
		}
	case 11:
		req := protocol.NewCreatePartitionsRequest()
		req.Topics = append(req.Topics, protocol.CreatePartitionsRequestCreatePartitionsTopic{Name: h.name(), Count: int32(h.rng.IntN(6))})
		ask(h, func(done func(*protocol.CreatePartitionsResponse)) { h.c.CreatePartitions(h.ctx(3), req, done) })
	case 12, 13, 14, 15:
		h.alterISR()
	case 16:
		req := protocol.NewElectLeadersRequest()
		req.ElectionType = int8(h.rng.IntN(2))
		ask(h, func(done func(*protocol.ElectLeadersResponse)) { h.c.ElectLeaders(h.ctx(2), req, done) })
	case 17:
		if top, id, _ := h.pick(); top != nil {
			req := protocol.NewAssignReplicasToDirsRequest()
			req.BrokerId = h.broker()
			if b := h.c.state.cluster.broker(req.BrokerId); b != nil {
				req.BrokerEpoch = b.epoch
			}
			req.Directories = []protocol.AssignReplicasToDirsRequestDirectoryData{{Id: dir(fmt.Sprint(req.BrokerId, "b")),
				Topics: []protocol.AssignReplicasToDirsRequestTopicData{{TopicId: top.id,
					Partitions: []protocol.AssignReplicasToDirsRequestPartitionData{{PartitionIndex: id}}}}}}
			ask(h, func(done func(*protocol.AssignReplicasToDirsResponse)) { h.c.AssignReplicasToDirs(h.ctx(0), req, done) })
		}
	case 18:
		req := protocol.NewIncrementalAlterConfigsRequest()
		v := fmt.Sprint(1 + h.rng.IntN(3))
		one := protocol.IncrementalAlterConfigsRequestAlterConfigsResource{ResourceType: []int8{resourceTopic, resourceBroker}[h.rng.IntN(2)]}
		if one.ResourceType == resourceTopic {
			one.ResourceName = h.name()
		}
		one.Configs = append(one.Configs, protocol.IncrementalAlterConfigsRequestAlterableConfig{Name: minISRKey, ConfigOperation: int8(h.rng.IntN(2)), Value: &v})
		req.Resources = append(req.Resources, one)
		ask(h, func(done func(*protocol.IncrementalAlterConfigsResponse)) {
			h.c.IncrementalAlterConfigs(h.ctx(1), req, done)
		})
	case 19:
		req := protocol.NewUnregisterBrokerRequest()
		req.BrokerId = h.broker()
		if h.rng.IntN(4) == 0 {
			ask(h, func(done func(*protocol.UnregisterBrokerResponse)) { h.c.UnregisterBroker(h.ctx(0), req, done) })
		}
	case 20:
		h.env.elapse(time.Duration(h.rng.IntN(4000)) * time.Millisecond)
	case 21:
		if h.quorum.hold = !h.quorum.hold; !h.quorum.hold {
			h.quorum.commit()
		}
	case 22:
		if h.rng.IntN(3) == 0 { // somebody else leads, perhaps writes, and we lead again
			h.quorum.follow(101)
			h.settle(t)
			if h.rng.IntN(2) == 0 {
				h.quorum.append(metadata.NewNoOpRecord())
			}
			h.settle(t)
			h.quorum.lead()
		}
	case 24, 25:
		if top, id, p := h.pick(); top != nil {
			req := protocol.NewAlterPartitionReassignmentsRequest()
			one := protocol.AlterPartitionReassignmentsRequestReassignablePartition{PartitionIndex: id}
			if h.rng.IntN(3) > 0 {
				for _, b := range h.rng.Perm(5)[:1+h.rng.IntN(len(p.replicas)+1)%5] {
					one.Replicas = append(one.Replicas, int32(1+b))
				}
			}
			req.Topics = []protocol.AlterPartitionReassignmentsRequestReassignableTopic{{Name: top.name,
				Partitions: []protocol.AlterPartitionReassignmentsRequestReassignablePartition{one}}}
			ask(h, func(done func(*protocol.AlterPartitionReassignmentsResponse)) {
				h.c.AlterPartitionReassignments(h.ctx(1), req, done)
			})
		}
	case 26, 27, 28, 29:
		h.securityStep()
	case 23:
		if h.rng.IntN(4) == 0 { // raft noticed first: the controller learns it by its next write
			h.quorum.leader.LeaderID = -1
			req := protocol.NewAllocateProducerIdsRequest()
			req.BrokerId = h.broker()
			if b := h.c.state.cluster.broker(req.BrokerId); b != nil {
				req.BrokerEpoch = b.epoch
			}
			ask(h, func(done func(*protocol.AllocateProducerIdsResponse)) { h.c.AllocateProducerIds(h.ctx(0), req, done) })
			h.settle(t)
			h.quorum.follow(-1)
			h.settle(t)
			h.quorum.lead()
		}
	}
	h.settle(t)
}

// alterISR is a leader that asks for some ISR, mostly a sensible one.
func (h *randomHistory) alterISR() {
	top, id, p := h.pick()
	if top == nil {
		return
	}
	req := protocol.NewAlterPartitionRequest()
	req.BrokerId = p.leader
	if h.rng.IntN(10) == 0 {
		req.BrokerId = h.broker()
	}
	if b := h.c.state.cluster.broker(req.BrokerId); b != nil {
		req.BrokerEpoch = b.epoch
	}
	one := protocol.AlterPartitionRequestPartitionData{PartitionIndex: id, LeaderEpoch: p.leaderEpoch, PartitionEpoch: p.partitionEpoch}
	if h.rng.IntN(10) == 0 {
		one.LeaderEpoch += int32(h.rng.IntN(3) - 1)
		one.PartitionEpoch += int32(h.rng.IntN(3) - 1)
	}
	if h.rng.IntN(10) == 0 {
		one.LeaderRecoveryState = recovering
	}
	for _, r := range p.replicas {
		if r == p.leader || h.rng.IntN(3) > 0 {
			s := protocol.AlterPartitionRequestBrokerState{BrokerId: r, BrokerEpoch: -1}
			if b := h.c.state.cluster.broker(r); b != nil {
				s.BrokerEpoch = b.epoch
			}
			one.NewIsrWithEpochs = append(one.NewIsrWithEpochs, s)
		}
	}
	req.Topics = []protocol.AlterPartitionRequestTopicData{{TopicId: top.id, Partitions: []protocol.AlterPartitionRequestPartitionData{one}}}
	ask(h, func(done func(*protocol.AlterPartitionResponse)) { h.c.AlterPartition(h.ctx(3), req, done) })
}

// answered: each request was answered once, when everything has settled.
func (h *randomHistory) answered(t *testing.T) {
	h.quorum.hold = false
	h.quorum.commit()
	h.settle(t)
	done := false
	h.c.Shutdown(func() { done = true })
	h.env.run()
	if !done || h.asked != h.answers {
		t.Errorf("shut down: %t; %d requests, %d answers", done, h.asked, h.answers)
	}
}

// TestSnapshotAndRest: a controller that loads a snapshot of the state at an offset and replays the rest is in the same
// state as one that replays everything.
func TestSnapshotAndRest(t *testing.T) {
	h := newRandomHistory(t, 11)
	for range 300 {
		h.step(t)
	}
	h.quorum.hold = false
	h.quorum.commit()
	h.settle(t)
	log := h.quorum.committed()
	whole := New(newTestEnv(), h.c.cfg, &testQuorum{id: -7})
	for i := range log {
		whole.commit(&log[i])
	}
	for cut := 0; cut <= len(log); cut += 1 + len(log)/7 {
		first := New(newTestEnv(), h.c.cfg, &testQuorum{id: -7})
		end := int64(0)
		for i := range log[:cut] {
			first.commit(&log[i])
			end = log[i].LastOffset + 1
		}
		records := first.state.snapshotRecords()
		second := New(newTestEnv(), h.c.cfg, &testQuorum{id: -7})
		second.loadSnapshot(end, func() ([]metadata.Versioned, bool, error) {
			batch := records
			records = nil
			return batch, batch != nil, nil
		})
		for i := range log[cut:] {
			second.commit(&log[cut+i])
		}
		for id := range second.state.cluster.registered.All() { // the snapshot's end stands for those before it
			if offset, _ := whole.state.cluster.registered.Get(id); offset < end {
				whole.state.cluster.registered.Put(id, end-1)
			}
		}
		if got, want := second.state.dump(), whole.state.dump(); got != want {
			t.Fatalf("from a snapshot at %d:\n%s\nfrom zero:\n%s", end, got, want)
		}
	}
}

// snapshotRecords writes a state as records, in the order of a snapshot.
func (s *state) snapshotRecords() []metadata.Versioned {
	var out []metadata.Versioned
	v := s.features.version()
	add := func(r metadata.Record) { out = append(out, metadata.Versioned{Record: r, Version: v.RecordVersion(r)}) }
	for name, level := range s.features.levels.All() {
		r := metadata.NewFeatureLevelRecord()
		r.Name, r.FeatureLevel = name, level
		add(r)
	}
	for _, b := range s.cluster.brokers.All() {
		r := metadata.NewRegisterBrokerRecord()
		r.BrokerId, r.IncarnationId, r.BrokerEpoch = b.id, b.incarnation, b.epoch
		r.EndPoints, r.Features, r.Rack = b.endpoints, b.features, b.rack
		r.Fenced, r.InControlledShutdown, r.LogDirs, r.CordonedLogDirs = b.fenced, b.inControlledShutdown, b.dirs, b.cordoned
		add(r)
	}
	for _, t := range s.replication.topics.All() {
		r := metadata.NewTopicRecord()
		r.Name, r.TopicId = t.name, t.id
		add(r)
		for id, p := range t.partitions.All() {
			rec := p.record(t.id, id, v)
			pr := rec.Record.(*metadata.PartitionRecord)
			pr.EligibleLeaderReplicas, pr.LastKnownElr = p.elr, p.lastKnownELR
			add(pr)
		}
	}
	for res, own := range s.configs.data.All() {
		for k, val := range own.All() {
			out = append(out, configRecord(res, k, val, true))
		}
	}
	for _, r := range s.security.acls.All() {
		add(r)
	}
	for _, r := range s.security.scram.All() {
		add(r)
	}
	for _, r := range s.tokens.byID.All() {
		add(r)
	}
	for k, value := range s.security.quotas.All() {
		r := metadata.NewClientQuotaRecord()
		r.Entity, r.Key, r.Value = entityOfKey(k.entity), k.key, value
		add(r)
	}
	if next := s.producerIDs.next.Get(); next > 0 {
		r := metadata.NewProducerIdsRecord()
		r.BrokerId, r.NextProducerId = -1, next
		add(r)
	}
	return out
}
