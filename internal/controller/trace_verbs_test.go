package controller

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/rpc"
	"github.com/ottla-io/ottla/internal/uuid"
)

// open [mv=33] [elr=0] [min-isr=1] [rf=1] [partitions=1]: a controller that stands by on an empty log.
func (w *traceWorld) cmdOpen() {
	node := testNode(w.t, "min.insync.replicas="+w.str("min-isr", "1"), "default.replication.factor="+w.str("rf", "1"),
		"num.partitions="+w.str("partitions", "1"), "leader.imbalance.check.interval.seconds="+w.str("balance", "300"),
		"delete.topic.enable="+w.str("delete", "true"), "delegation.token.secret.key="+w.str("secret", ""))
	cfg := FromNode(node, testClusterID)
	cfg.ACLs = w.has("acls")
	cfg.Bootstrap = DefaultBootstrap(metadata.Version(w.num("mv", 33)))
	if w.has("elr") {
		cfg.Bootstrap = slices.DeleteFunc(cfg.Bootstrap, func(v metadata.Versioned) bool {
			return v.Record.(*metadata.FeatureLevelRecord).Name == metadata.FeatureELR
		})
	}
	w.open(w.t, cfg)
}

func (w *traceWorld) cmdLead()   { w.quorum.lead() }
func (w *traceWorld) cmdFollow() { w.quorum.follow(int32(w.num("leader", -1))) }

// commit [batches=n]: all, from now on at once, or just the next n.
func (w *traceWorld) cmdCommit() {
	if w.has("batches") {
		w.quorum.commitUpTo(w.quorum.handed + int(w.num("batches", 0)))
		return
	}
	w.quorum.hold = false
	w.quorum.commit()
}

func (w *traceWorld) cmdElapse() {
	d, err := time.ParseDuration(w.d.CmdArgs[0].Key)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range w.nums("beating") { // brokers that send heartbeats meanwhile
		for at := time.Second; at < d; at += 2 * time.Second {
			w.env.timers = append(w.env.timers, &testTimer{at: w.env.now + at, fn: func() {
				w.beat(id, func(r *protocol.BrokerHeartbeatRequest) {}, func(*protocol.BrokerHeartbeatResponse) {})
			}})
		}
	}
	w.env.elapse(d)
}

// replay: records of another leader, one a line as type and fields, in one batch.
func (w *traceWorld) cmdReplay() {
	var records []metadata.Record
	for line := range strings.Lines(w.d.Input) {
		records = append(records, w.parseRecord(strings.Fields(line)))
	}
	w.quorum.append(records...)
	w.printed = len(w.quorum.log)
}

func (w *traceWorld) parseRecord(f []string) metadata.Record {
	var rec metadata.Record
	for key := range int16(30) {
		r := metadata.NewRecord(key)
		if r != nil && reflect.TypeOf(r).Elem().Name() == f[0]+"Record" {
			rec = r
		}
	}
	if rec == nil {
		w.t.Fatalf("%s: no record %s", w.d.Pos, f[0])
	}
	v := reflect.ValueOf(rec).Elem()
	for _, kv := range f[1:] {
		k, val, _ := strings.Cut(kv, "=")
		field := v.FieldByName(k)
		switch {
		case !field.IsValid():
			w.t.Fatalf("%s: %s has no field %s", w.d.Pos, f[0], k)
		case field.Type() == reflect.TypeFor[uuid.UUID]():
			field.Set(reflect.ValueOf(incarnation(val)))
		case field.Kind() == reflect.String:
			field.SetString(val)
		case field.Kind() == reflect.Pointer:
			field.Set(reflect.ValueOf(&val))
		case field.Kind() == reflect.Bool:
			field.SetBool(val == "true")
		case field.CanInt():
			n, _ := strconv.ParseInt(val, 10, 64)
			field.SetInt(n)
		case field.CanFloat():
			n, _ := strconv.ParseFloat(val, 64)
			field.SetFloat(n)
		case field.Type() == reflect.TypeFor[[]int32]():
			list := []int32{}
			for _, s := range splitNonEmpty(val) {
				n, _ := strconv.Atoi(s)
				list = append(list, int32(n))
			}
			field.Set(reflect.ValueOf(list))
		case field.Type() == reflect.TypeFor[[]byte]():
			field.SetBytes([]byte(val))
		}
	}
	return rec
}

func (w *traceWorld) registration(id int32) *protocol.BrokerRegistrationRequest {
	req := protocol.NewBrokerRegistrationRequest()
	req.BrokerId, req.ClusterId = id, w.str("cluster", testClusterID)
	req.IncarnationId = incarnation(w.str("incarnation", fmt.Sprint(id)))
	req.Listeners = []protocol.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "localhost", Port: uint16(9000 + id)}}
	for i := range metadata.Features {
		f := &metadata.Features[i]
		if !w.has("without") || w.str("without", "") != f.Name {
			high := f.Max
			if f.Name == metadata.FeatureMetadata {
				high = int16(w.num("max-mv", int64(f.Max)))
			}
			req.Features = append(req.Features, protocol.BrokerRegistrationRequestFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: high})
		}
	}
	if w.has("rack") {
		rack := w.str("rack", "")
		req.Rack = &rack
	}
	req.LogDirs = []uuid.UUID{dir(fmt.Sprint(id))}
	if w.has("dirs") {
		req.LogDirs = dirs(w.args("dirs"))
	}
	req.PreviousBrokerEpoch = w.num("previous", -1)
	return req
}

func (w *traceWorld) cmdRegister() {
	w.c.BrokerRegistration(w.ctx(protocol.KeyBrokerRegistration), w.registration(int32(w.num("broker", 0))), func(r *protocol.BrokerRegistrationResponse) {
		w.say("-> %s epoch=%d", errText(r.ErrorCode, nil), r.BrokerEpoch)
	})
}

func (w *worldBase) beat(id int32, set func(*protocol.BrokerHeartbeatRequest), respond func(*protocol.BrokerHeartbeatResponse)) {
	req := protocol.NewBrokerHeartbeatRequest()
	req.BrokerId = id
	req.CurrentMetadataOffset = w.quorum.LogEndOffset() - 1
	req.CordonedLogDirs = []uuid.UUID{}
	if b := w.c.state.cluster.broker(id); b != nil {
		req.BrokerEpoch = b.epoch
		req.CordonedLogDirs = b.cordoned
	}
	if req.CordonedLogDirs == nil {
		req.CordonedLogDirs = []uuid.UUID{}
	}
	set(req)
	w.c.BrokerHeartbeat(&rpc.Context{APIVersion: 2}, req, respond)
}

func (w *traceWorld) cmdHeartbeat() {
	w.beat(int32(w.num("broker", 0)), func(r *protocol.BrokerHeartbeatRequest) {
		r.BrokerEpoch = w.num("epoch", r.BrokerEpoch)
		r.CurrentMetadataOffset = w.num("offset", r.CurrentMetadataOffset)
		r.WantFence, r.WantShutDown = w.has("want-fence"), w.has("want-shutdown")
		r.OfflineLogDirs = dirs(w.args("offline"))
		if w.has("cordoned") {
			r.CordonedLogDirs = dirs(w.args("cordoned"))
		}
		if w.has("not-cordoning") {
			r.CordonedLogDirs = nil
		}
	}, func(r *protocol.BrokerHeartbeatResponse) {
		w.say("-> %s caughtUp=%t fenced=%t shutDown=%t", errText(r.ErrorCode, nil), r.IsCaughtUp, r.IsFenced, r.ShouldShutDown)
	})
}

// up (1,2,3): registers brokers and unfences them.
func (w *traceWorld) cmdUp() {
	for _, id := range w.nums("brokers") {
		w.c.BrokerRegistration(w.ctx(protocol.KeyBrokerRegistration), w.registration(id), func(*protocol.BrokerRegistrationResponse) {})
		w.env.run()
		w.beat(id, func(*protocol.BrokerHeartbeatRequest) {}, func(*protocol.BrokerHeartbeatResponse) {})
		w.env.run()
	}
	w.printed = len(w.quorum.log)
}

func (w *traceWorld) cmdUnregister() {
	req := protocol.NewUnregisterBrokerRequest()
	req.BrokerId = int32(w.num("broker", 0))
	w.c.UnregisterBroker(w.ctx(protocol.KeyUnregisterBroker), req, func(r *protocol.UnregisterBrokerResponse) {
		w.say("-> %s", errText(r.ErrorCode, r.ErrorMessage))
	})
}

func (w *traceWorld) cmdRegisterController() {
	req := protocol.NewControllerRegistrationRequest()
	req.ControllerId = int32(w.num("id", 0))
	req.IncarnationId = incarnation(w.str("id", ""))
	req.Listeners = []protocol.ControllerRegistrationRequestListener{{Name: "CONTROLLER", Host: "localhost", Port: uint16(9000 + req.ControllerId)}}
	for i := range metadata.Features {
		f := &metadata.Features[i]
		req.Features = append(req.Features, protocol.ControllerRegistrationRequestFeature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	w.c.ControllerRegistration(w.ctx(protocol.KeyControllerRegistration), req, func(r *protocol.ControllerRegistrationResponse) {
		w.say("-> %s", errText(r.ErrorCode, r.ErrorMessage))
	})
}

func (w *traceWorld) cmdUnregisterController() {
	req := protocol.NewUnregisterControllerRequest()
	req.ControllerId = int32(w.num("id", 0))
	w.c.UnregisterController(w.ctx(protocol.KeyUnregisterController), req, func(r *protocol.UnregisterControllerResponse) {
		w.say("-> %s", errText(r.ErrorCode, r.ErrorMessage))
	})
}

// create-topics: one topic a line: name [partitions=n] [rf=n] [assign=0:1,2;1:2,3] [config.KEY=VALUE] [null.KEY].
func (w *traceWorld) cmdCreateTopics() {
	req := protocol.NewCreateTopicsRequest()
	req.ValidateOnly = w.has("validate-only")
	for line := range strings.Lines(w.d.Input) {
		f := strings.Fields(line)
		t := createTopic{Name: strings.Trim(f[0], `"`), NumPartitions: -1, ReplicationFactor: -1}
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			n, _ := strconv.Atoi(v)
			switch {
			case k == "partitions":
				t.NumPartitions = int32(n)
			case k == "rf":
				t.ReplicationFactor = int16(n)
			case k == "assign":
				for _, a := range strings.Split(v, ";") {
					p, replicas, _ := strings.Cut(a, ":")
					pid, _ := strconv.Atoi(p)
					one := protocol.CreateTopicsRequestCreatableReplicaAssignment{PartitionIndex: int32(pid)}
					for _, s := range splitNonEmpty(replicas) {
						id, _ := strconv.Atoi(s)
						one.BrokerIds = append(one.BrokerIds, int32(id))
					}
					t.Assignments = append(t.Assignments, one)
				}
			case strings.HasPrefix(k, "config."):
				t.Configs = append(t.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: k[len("config."):], Value: &v})
			case strings.HasPrefix(k, "null."):
				t.Configs = append(t.Configs, protocol.CreateTopicsRequestCreatableTopicConfig{Name: k[len("null."):]})
			}
		}
		req.Topics = append(req.Topics, t)
	}
	w.c.CreateTopics(w.ctx(protocol.KeyCreateTopics), req, func(r *protocol.CreateTopicsResponse) {
		for _, t := range r.Topics {
			w.say("-> %s %s partitions=%d rf=%d configs=%d", t.Name, errText(t.ErrorCode, t.ErrorMessage), t.NumPartitions, t.ReplicationFactor, len(t.Configs))
			if w.has("show-configs") {
				for _, c := range t.Configs {
					if c.ConfigSource != fromDefault {
						w.say("   %s=%s source=%d", c.Name, *c.Value, c.ConfigSource)
					}
				}
			}
			if t.ErrorCode != 0 && (t.Configs == nil || t.TopicId != uuid.Zero) {
				w.say("   an error has null configs or an id")
			}
		}
	})
}

// delete-topics: one a line: a name, or id=name, or id=name:name for both.
func (w *traceWorld) cmdDeleteTopics() {
	req := protocol.NewDeleteTopicsRequest()
	for line := range strings.Lines(w.d.Input) {
		s := protocol.DeleteTopicsRequestDeleteTopicState{}
		line = strings.TrimSpace(line)
		if id, byID := strings.CutPrefix(line, "id="); byID {
			id, name, both := strings.Cut(id, ":")
			if id != "zero" {
				s.TopicId = w.topicID(id)
			}
			if both {
				s.Name = &name
			}
		} else {
			s.Name = &line
		}
		req.Topics = append(req.Topics, s)
	}
	w.c.DeleteTopics(w.ctx(protocol.KeyDeleteTopics), req, func(r *protocol.DeleteTopicsResponse) {
		for _, t := range r.Responses {
			name := "null"
			if t.Name != nil {
				name = *t.Name
			}
			w.say("-> %s %s", name, errText(t.ErrorCode, t.ErrorMessage))
		}
	})
}

// create-partitions: name count [assign=1,2;2,3] a line.
func (w *traceWorld) cmdCreatePartitions() {
	req := protocol.NewCreatePartitionsRequest()
	req.ValidateOnly = w.has("validate-only")
	for line := range strings.Lines(w.d.Input) {
		f := strings.Fields(line)
		n, _ := strconv.Atoi(f[1])
		t := protocol.CreatePartitionsRequestCreatePartitionsTopic{Name: f[0], Count: int32(n)}
		if len(f) > 2 {
			for _, a := range strings.Split(strings.TrimPrefix(f[2], "assign="), ";") {
				one := protocol.CreatePartitionsRequestCreatePartitionsAssignment{}
				for _, s := range splitNonEmpty(a) {
					id, _ := strconv.Atoi(s)
					one.BrokerIds = append(one.BrokerIds, int32(id))
				}
				t.Assignments = append(t.Assignments, one)
			}
		}
		req.Topics = append(req.Topics, t)
	}
	w.c.CreatePartitions(w.ctx(protocol.KeyCreatePartitions), req, func(r *protocol.CreatePartitionsResponse) {
		for _, t := range r.Results {
			w.say("-> %s %s", t.Name, errText(t.ErrorCode, t.ErrorMessage))
		}
	})
}

// alter-partition topic=t partition=0 isr=(1,2) [leader=] [leader-epoch=] [partition-epoch=] [broker-epoch=] [recovering]:
// what is not given is as it is.
func (w *traceWorld) cmdAlterPartition() {
	name, pid := w.str("topic", ""), int32(w.num("partition", 0))
	p := &partition{}
	if t := w.c.state.replication.topicByName(name); t != nil {
		if got, ok := t.partitions.Get(pid); ok {
			p = got
		}
	}
	req := protocol.NewAlterPartitionRequest()
	req.BrokerId = int32(w.num("leader", int64(p.leader)))
	if b := w.c.state.cluster.broker(req.BrokerId); b != nil {
		req.BrokerEpoch = b.epoch
	}
	req.BrokerEpoch = w.num("broker-epoch", req.BrokerEpoch)
	one := protocol.AlterPartitionRequestPartitionData{PartitionIndex: pid}
	one.LeaderEpoch = int32(w.num("leader-epoch", int64(p.leaderEpoch)))
	one.PartitionEpoch = int32(w.num("partition-epoch", int64(p.partitionEpoch)))
	if w.has("recovering") {
		one.LeaderRecoveryState = recovering
	}
	for _, id := range w.nums("isr") {
		s := protocol.AlterPartitionRequestBrokerState{BrokerId: id, BrokerEpoch: -1}
		if b := w.c.state.cluster.broker(id); b != nil {
			s.BrokerEpoch = b.epoch - w.num("stale", 0)
		}
		one.NewIsrWithEpochs = append(one.NewIsrWithEpochs, s)
	}
	one.NewIsr = w.nums("isr")
	req.Topics = []protocol.AlterPartitionRequestTopicData{{TopicId: w.topicID(name), Partitions: []protocol.AlterPartitionRequestPartitionData{one}}}
	w.c.AlterPartition(w.ctx(protocol.KeyAlterPartition), req, func(r *protocol.AlterPartitionResponse) {
		if r.ErrorCode != 0 {
			w.say("-> %s", errText(r.ErrorCode, nil))
			return
		}
		a := r.Topics[0].Partitions[0]
		w.say("-> %s leader=%d isr=%v leaderEpoch=%d partitionEpoch=%d recovery=%d", errText(a.ErrorCode, nil), a.LeaderId, a.Isr, a.LeaderEpoch, a.PartitionEpoch, a.LeaderRecoveryState)
	})
}

// elect [unclean] [type=n] [topic=t partitions=(0,1)]: without a topic all.
func (w *traceWorld) cmdElect() {
	req := protocol.NewElectLeadersRequest()
	req.ElectionType = int8(w.num("type", 0))
	if w.has("unclean") {
		req.ElectionType = 1
	}
	if w.has("topic") {
		req.TopicPartitions = []protocol.ElectLeadersRequestTopicPartitions{{Topic: w.str("topic", ""), Partitions: w.nums("partitions")}}
	}
	w.c.ElectLeaders(w.ctx(protocol.KeyElectLeaders), req, func(r *protocol.ElectLeadersResponse) {
		w.say("-> %s", errText(r.ErrorCode, nil))
		for _, t := range r.ReplicaElectionResults {
			for _, p := range t.PartitionResult {
				w.say("   %s-%d %s", t.Topic, p.PartitionId, errText(p.ErrorCode, p.ErrorMessage))
			}
		}
	})
}

// assign-dirs broker=1: topic partition dir a line.
func (w *traceWorld) cmdAssignDirs() {
	req := protocol.NewAssignReplicasToDirsRequest()
	req.BrokerId = int32(w.num("broker", 0))
	if b := w.c.state.cluster.broker(req.BrokerId); b != nil {
		req.BrokerEpoch = b.epoch
	}
	for line := range strings.Lines(w.d.Input) {
		f := strings.Fields(line)
		pid, _ := strconv.Atoi(f[1])
		req.Directories = append(req.Directories, protocol.AssignReplicasToDirsRequestDirectoryData{Id: dir(f[2]),
			Topics: []protocol.AssignReplicasToDirsRequestTopicData{{TopicId: w.topicID(f[0]),
				Partitions: []protocol.AssignReplicasToDirsRequestPartitionData{{PartitionIndex: int32(pid)}}}}})
	}
	w.c.AssignReplicasToDirs(w.ctx(protocol.KeyAssignReplicasToDirs), req, func(r *protocol.AssignReplicasToDirsResponse) {
		w.say("-> %s", errText(r.ErrorCode, nil))
		for _, d := range r.Directories {
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					w.say("   %s %s-%d %s", dirName(d.Id), w.topicName(t.TopicId), p.PartitionIndex, errText(p.ErrorCode, nil))
				}
			}
		}
	})
}

// alter-configs [whole] [validate-only]: type name op key[=value] a line, lines of one resource together. Types are
// topic, broker, group, client-metrics or a number; the name may be "". op is set, null, delete, append or subtract.
func (w *traceWorld) cmdAlterConfigs() {
	var a []protocol.IncrementalAlterConfigsRequestAlterConfigsResource
	for line := range strings.Lines(w.d.Input) {
		f := strings.Fields(line)
		kind, ok := map[string]int8{"topic": resourceTopic, "broker": resourceBroker, "group": resourceGroup, "client-metrics": resourceClientMetrics}[f[0]]
		if !ok {
			n, _ := strconv.Atoi(f[0])
			kind = int8(n)
		}
		name := strings.Trim(f[1], `"`)
		op := map[string]int8{"set": opSet, "null": opSet, "delete": opDelete, "append": opAppend, "subtract": opSubtract, "bad": 9}[f[2]]
		k, v, _ := strings.Cut(f[3], "=")
		c := protocol.IncrementalAlterConfigsRequestAlterableConfig{Name: k, ConfigOperation: op, Value: &v}
		if f[2] == "null" || f[2] == "delete" {
			c.Value = nil
		}
		if n := len(a); n > 0 && a[n-1].ResourceType == kind && a[n-1].ResourceName == name && len(f) < 5 {
			a[n-1].Configs = append(a[n-1].Configs, c)
			continue
		}
		a = append(a, protocol.IncrementalAlterConfigsRequestAlterConfigsResource{ResourceType: kind, ResourceName: name,
			Configs: []protocol.IncrementalAlterConfigsRequestAlterableConfig{c}})
	}
	if w.has("whole") {
		req := protocol.NewAlterConfigsRequest()
		req.ValidateOnly = w.has("validate-only")
		for _, r := range a {
			one := protocol.AlterConfigsRequestAlterConfigsResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
			for _, c := range r.Configs {
				one.Configs = append(one.Configs, protocol.AlterConfigsRequestAlterableConfig{Name: c.Name, Value: c.Value})
			}
			req.Resources = append(req.Resources, one)
		}
		w.c.AlterConfigs(w.ctx(protocol.KeyAlterConfigs), req, func(r *protocol.AlterConfigsResponse) {
			for _, one := range r.Responses {
				w.say("-> %d %q %s", one.ResourceType, one.ResourceName, errText(one.ErrorCode, one.ErrorMessage))
			}
		})
		return
	}
	req := protocol.NewIncrementalAlterConfigsRequest()
	req.ValidateOnly, req.Resources = w.has("validate-only"), a
	w.c.IncrementalAlterConfigs(w.ctx(protocol.KeyIncrementalAlterConfigs), req, func(r *protocol.IncrementalAlterConfigsResponse) {
		for _, one := range r.Responses {
			w.say("-> %d %q %s", one.ResourceType, one.ResourceName, errText(one.ErrorCode, one.ErrorMessage))
		}
	})
}

// update-features [validate-only]: feature level [type] a line.
func (w *traceWorld) cmdUpdateFeatures() {
	req := protocol.NewUpdateFeaturesRequest()
	req.ValidateOnly = w.has("validate-only")
	if w.has("kraft") {
		w.quorum.kraftBelow = 1 - int16(w.num("kraft", 1))
	}
	w.quorum.upgradeErr = nil
	if w.has("unsupported") {
		w.quorum.upgradeErr = &raft.UpgradeError{Err: kerr.InvalidUpdateVersion, Message: "not all of the voters support it"}
	}
	for line := range strings.Lines(w.d.Input) {
		f := strings.Fields(line)
		n, _ := strconv.Atoi(f[1])
		u := protocol.UpdateFeaturesRequestFeatureUpdateKey{Feature: f[0], MaxVersionLevel: int16(n), UpgradeType: upgrade}
		if len(f) > 2 {
			u.UpgradeType = map[string]int8{"upgrade": upgrade, "safe": safeDowngrade, "unsafe": unsafeDowngrade, "unknown": 9}[f[2]]
		}
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	w.c.UpdateFeatures(w.ctx(protocol.KeyUpdateFeatures), req, func(r *protocol.UpdateFeaturesResponse) {
		w.say("-> %s", errText(r.ErrorCode, r.ErrorMessage))
	})
}

func (w *traceWorld) cmdProducerIDs() {
	req := protocol.NewAllocateProducerIdsRequest()
	req.BrokerId = int32(w.num("broker", 0))
	if b := w.c.state.cluster.broker(req.BrokerId); b != nil {
		req.BrokerEpoch = b.epoch
	}
	w.c.AllocateProducerIds(w.ctx(protocol.KeyAllocateProducerIds), req, func(r *protocol.AllocateProducerIdsResponse) {
		w.say("-> %s first=%d len=%d", errText(r.ErrorCode, nil), r.ProducerIdStart, r.ProducerIdLen)
	})
}

// reassign [keep-factor]: topic partition replicas a line; "cancel" for replicas.
func (w *traceWorld) cmdReassign() {
	req := protocol.NewAlterPartitionReassignmentsRequest()
	req.AllowReplicationFactorChange = !w.has("keep-factor")
	for line := range strings.Lines(w.d.Input) {
		f := strings.Fields(line)
		pid, _ := strconv.Atoi(f[1])
		one := protocol.AlterPartitionReassignmentsRequestReassignablePartition{PartitionIndex: int32(pid)}
		if f[2] != "cancel" {
			one.Replicas = []int32{}
			for _, s := range strings.Split(f[2], ",") {
				id, _ := strconv.Atoi(s)
				one.Replicas = append(one.Replicas, int32(id))
			}
		}
		req.Topics = append(req.Topics, protocol.AlterPartitionReassignmentsRequestReassignableTopic{Name: f[0],
			Partitions: []protocol.AlterPartitionReassignmentsRequestReassignablePartition{one}})
	}
	w.c.AlterPartitionReassignments(w.ctx(protocol.KeyAlterPartitionReassignments), req, func(r *protocol.AlterPartitionReassignmentsResponse) {
		w.say("-> %s", errText(r.ErrorCode, r.ErrorMessage))
		for _, t := range r.Responses {
			for _, p := range t.Partitions {
				w.say("   %s-%d %s", t.Name, p.PartitionIndex, errText(p.ErrorCode, p.ErrorMessage))
			}
		}
	})
}

// list-reassignments [topic=t partitions=(0,1)]: without a topic all.
func (w *traceWorld) cmdListReassignments() {
	req := protocol.NewListPartitionReassignmentsRequest()
	if w.has("topic") {
		req.Topics = []protocol.ListPartitionReassignmentsRequestListPartitionReassignmentsTopics{{Name: w.str("topic", ""), PartitionIndexes: w.nums("partitions")}}
	}
	w.c.ListPartitionReassignments(w.ctx(protocol.KeyListPartitionReassignments), req, func(r *protocol.ListPartitionReassignmentsResponse) {
		w.say("-> %s", errText(r.ErrorCode, r.ErrorMessage))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				w.say("   %s-%d replicas=%v adding=%v removing=%v", t.Name, p.PartitionIndex, p.Replicas, p.AddingReplicas, p.RemovingReplicas)
			}
		}
	})
}

// describe-cluster [endpoint=2] [version=2]: at the controller listener.
func (w *traceWorld) cmdDescribeCluster() {
	req := protocol.NewDescribeClusterRequest()
	req.EndpointType = int8(w.num("endpoint", 2))
	ctx := w.ctx(protocol.KeyDescribeCluster)
	ctx.Listener = "CONTROLLER"
	w.c.DescribeCluster(ctx, req, func(r *protocol.DescribeClusterResponse) {
		w.say("-> %s controller=%d", errText(r.ErrorCode, r.ErrorMessage), r.ControllerId)
		for _, b := range r.Brokers {
			w.say("   %d %s:%d", b.BrokerId, b.Host, b.Port)
		}
	})
}
