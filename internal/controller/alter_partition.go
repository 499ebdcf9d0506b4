package controller

import (
	"fmt"
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/uuid"
)

// member is a replica that a leader wants in the ISR. epoch -1: not told.
type member struct {
	id    int32
	epoch int64
}

// alterPartition works out what leaders ask for their ISRs. Every check fences something that may be stale: the
// broker's incarnation, the leader, the partition's state as the leader knows it, the replicas' incarnations (KIP-903).
func (m *replication) alterPartition(req *protocol.AlterPartitionRequest, version int16) (Result[*protocol.AlterPartitionResponse], error) {
	resp := protocol.NewAlterPartitionResponse()
	res := Result[*protocol.AlterPartitionResponse]{Response: resp}
	if err := m.cluster.checkEpoch(req.BrokerId, req.BrokerEpoch); err != nil {
		return res, err
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		answer := protocol.AlterPartitionResponseTopicData{TopicId: asked.TopicId}
		t, ok := m.topics.Get(asked.TopicId)
		if !ok {
			m.log.Info(fmt.Sprintf("Rejecting AlterPartition request for unknown topic ID %s.", asked.TopicId))
		}
		for j := range asked.Partitions {
			one := protocol.AlterPartitionResponsePartitionData{PartitionIndex: asked.Partitions[j].PartitionIndex}
			if !ok {
				one.ErrorCode = kerr.UnknownTopicId.Code
			} else if v, changed := m.alterOne(req.BrokerId, t, &asked.Partitions[j], version, &one); changed {
				res.Records = append(res.Records, v)
			}
			answer.Partitions = append(answer.Partitions, one)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return res, nil
}

func (m *replication) alterOne(leader int32, t *topic, asked *protocol.AlterPartitionRequestPartitionData, version int16,
	answer *protocol.AlterPartitionResponsePartitionData) (v metadata.Versioned, changed bool) {
	var isr []member
	if version >= 3 {
		for _, s := range asked.NewIsrWithEpochs {
			isr = append(isr, member{s.BrokerId, s.BrokerEpoch})
		}
	} else {
		for _, id := range asked.NewIsr {
			isr = append(isr, member{id, -1})
		}
	}
	p, _ := t.partitions.Get(asked.PartitionIndex)
	if code, why := m.checkAlter(leader, p, asked, isr); code != nil {
		m.log.Info(fmt.Sprintf("Rejecting AlterPartition request from node %d for %s-%d because %s.", leader, t.name, asked.PartitionIndex, why), "error", code.Name)
		answer.ErrorCode = code.Code
		return v, false
	}
	c := m.newChange(p, t, asked.PartitionIndex)
	if m.configs.uncleanElection(t.name) {
		c.elect = electUnclean
	}
	c.targetISR = ids(isr)
	c.targetRecovery = asked.LeaderRecoveryState
	v, changed = c.record()
	if changed {
		r := v.Record.(*metadata.PartitionChangeRecord)
		next, err := p.merge(r)
		if err != nil {
			panic(fmt.Sprintf("controller: our own change of %s-%d does not apply: %v", t.name, asked.PartitionIndex, err))
		}
		m.log.Debug(fmt.Sprintf("Node %d has altered ISR for %s-%d. %s", leader, t.name, asked.PartitionIndex, next.diff(p)))
		if r.Leader != leader && r.Leader != noLeaderChange {
			// The leader only asks for an ISR. But when that completes a reassignment the leader may go with it, and
			// has to learn that from the metadata before it asks again: an answer that is an error and a record.
			m.log.Info(fmt.Sprintf("AlterPartition request from node %d for %s-%d completed the ongoing partition reassignment and triggered a leadership change. Returning NEW_LEADER_ELECTED.",
				leader, t.name, asked.PartitionIndex))
			answer.ErrorCode = kerr.NewLeaderElected.Code
			return v, true
		}
		if p.isReassigning() && !next.isReassigning() {
			m.log.Info(fmt.Sprintf("AlterPartition request from node %d for %s-%d completed the ongoing partition reassignment. %s",
				leader, t.name, asked.PartitionIndex, next.diff(p)))
		}
		p = next
	}
	answer.LeaderId, answer.LeaderEpoch, answer.PartitionEpoch = p.leader, p.leaderEpoch, p.partitionEpoch
	answer.Isr, answer.LeaderRecoveryState = p.isr, p.leaderRecovery
	return v, changed
}

func ids(isr []member) []int32 {
	out := make([]int32, len(isr))
	for i, m := range isr {
		out[i] = m.id
	}
	return out
}

// checkAlter says why a leader cannot have the ISR it asks for. A leader that knows more than this controller is told to
// look for another one.
func (m *replication) checkAlter(leader int32, p *partition, asked *protocol.AlterPartitionRequestPartitionData, isr []member) (*kerr.Error, string) {
	if p == nil {
		return kerr.UnknownTopicOrPartition, "there is no such partition"
	}
	list := ids(isr)
	switch {
	case asked.LeaderEpoch > p.leaderEpoch:
		return kerr.NotController, fmt.Sprintf("the current leader epoch is %d, which is lower than the request value %d", p.leaderEpoch, asked.LeaderEpoch)
	case asked.PartitionEpoch > p.partitionEpoch:
		return kerr.NotController, fmt.Sprintf("the current partition epoch is %d, which is lower than the request value %d", p.partitionEpoch, asked.PartitionEpoch)
	case asked.LeaderEpoch < p.leaderEpoch:
		return kerr.FencedLeaderEpoch, fmt.Sprintf("the current leader epoch is %d, not %d", p.leaderEpoch, asked.LeaderEpoch)
	case leader != p.leader:
		return kerr.InvalidRequest, fmt.Sprintf("the current leader is %d", p.leader)
	case asked.PartitionEpoch < p.partitionEpoch:
		return kerr.InvalidUpdateVersion, fmt.Sprintf("the current partition epoch is %d, not %d", p.partitionEpoch, asked.PartitionEpoch)
	case !validISR(p.replicas, list):
		return kerr.InvalidRequest, "it specified an invalid ISR " + listText(list)
	case !slices.Contains(list, p.leader):
		return kerr.InvalidRequest, "it specified an invalid ISR " + listText(list) + " that doesn't include itself"
	case asked.LeaderRecoveryState != recovered && asked.LeaderRecoveryState != recovering:
		return kerr.InvalidRequest, fmt.Sprintf("there is no leader recovery state %d", asked.LeaderRecoveryState)
	case asked.LeaderRecoveryState == recovering && len(list) > 1:
		return kerr.InvalidRequest, "the ISR had more than one replica while the leader was still recovering from an unclean leader election"
	case p.leaderRecovery == recovered && asked.LeaderRecoveryState == recovering:
		return kerr.InvalidRequest, "the leader recovery state cannot change from RECOVERED to RECOVERING"
	}
	var bad []string
	for _, r := range isr {
		switch b := m.cluster.broker(r.id); {
		case b == nil:
			bad = append(bad, fmt.Sprintf("%d (not registered)", r.id))
		case b.inControlledShutdown:
			bad = append(bad, fmt.Sprintf("%d (shutting down)", r.id))
		case b.fenced:
			bad = append(bad, fmt.Sprintf("%d (fenced)", r.id))
		case r.epoch != -1 && r.epoch != b.epoch:
			bad = append(bad, fmt.Sprintf("%d (broker epoch mismatch: requested=%d VS expected=%d)", r.id, r.epoch, b.epoch))
		}
	}
	if len(bad) > 0 {
		return kerr.IneligibleReplica, "it specified ineligible replicas " + listText(bad) + " in the new ISR"
	}
	return nil, ""
}

// assignDirs notes in which directories a broker keeps its replicas (KIP-858). One in a directory that is offline
// leaves the ISR with it.
func (m *replication) assignDirs(req *protocol.AssignReplicasToDirsRequest) (Result[*protocol.AssignReplicasToDirsResponse], error) {
	resp := protocol.NewAssignReplicasToDirsResponse()
	res := Result[*protocol.AssignReplicasToDirsResponse]{Response: resp}
	if !m.features.version().DirectoryAssignment() {
		return res, fail(kerr.UnsupportedVersion, "Directory assignment is not supported yet.")
	}
	id := req.BrokerId
	if err := m.cluster.checkEpoch(id, req.BrokerEpoch); err != nil {
		return res, err
	}
	b := m.cluster.broker(id)
	var lost []topicPartition
	for i := range req.Directories {
		dir := &req.Directories[i]
		answer := protocol.AssignReplicasToDirsResponseDirectoryData{Id: dir.Id}
		offline := !b.hasOnlineDir(dir.Id)
		for j := range dir.Topics {
			topicAnswer := protocol.AssignReplicasToDirsResponseTopicData{TopicId: dir.Topics[j].TopicId}
			for _, part := range dir.Topics[j].Partitions {
				one := protocol.AssignReplicasToDirsResponsePartitionData{PartitionIndex: part.PartitionIndex}
				tp := topicPartition{dir.Topics[j].TopicId, part.PartitionIndex}
				switch t, p := m.find(tp); {
				case t == nil:
					one.ErrorCode = kerr.UnknownTopicId.Code
				case p == nil:
					one.ErrorCode = kerr.UnknownTopicOrPartition.Code
				case !slices.Contains(p.replicas, id):
					one.ErrorCode = kerr.NotLeaderOrFollower.Code
				default:
					c := m.newChange(p, t, part.PartitionIndex)
					c.targetDirs = map[int32]uuid.UUID{id: dir.Id}
					if v, ok := c.record(); ok {
						res.Records = append(res.Records, v)
					}
					if offline && !slices.Contains(lost, tp) {
						lost = append(lost, tp)
					}
				}
				if one.ErrorCode != kerr.None {
					m.log.Warn("AssignReplicasToDirsRequest references a partition that cannot be assigned.", "broker", id,
						"topicId", tp.topicID, "partition", tp.partition, "error", kerr.Name(one.ErrorCode))
				}
				topicAnswer.Partitions = append(topicAnswer.Partitions, one)
			}
			answer.Topics = append(answer.Topics, topicAnswer)
		}
		resp.Directories = append(resp.Directories, answer)
	}
	if len(lost) > 0 {
		slices.SortFunc(lost, compareTopicPartition)
		e := event("offline-dir-assignment")
		e.removed = id
		res.Records = append(res.Records, m.updateLeaders(e, lost)...)
	}
	return res, nil
}
