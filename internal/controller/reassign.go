package controller

import (
	"fmt"
	"slices"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
)

// A reassignment has two steps. First the new replicas are added to the list and both kinds are noted as adding and
// removing; the leader lets the new ones into the ISR as they catch up. The AlterPartition that makes it whole completes
// it (change.go): the removed ones leave. A mere change of order is one step.

type reassignResult = protocol.AlterPartitionReassignmentsResponseReassignablePartitionResponse

// reassign answers a whole request: each partition for itself.
func (m *replication) reassign(req *protocol.AlterPartitionReassignmentsRequest) (Result[*protocol.AlterPartitionReassignmentsResponse], error) {
	resp := protocol.NewAlterPartitionReassignmentsResponse()
	resp.AllowReplicationFactorChange, resp.ErrorMessage = req.AllowReplicationFactorChange, nil
	res := Result[*protocol.AlterPartitionReassignmentsResponse]{Response: resp, Atomic: true}
	done, total := 0, 0
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := protocol.AlterPartitionReassignmentsResponseReassignableTopicResponse{Name: t.Name}
		for j := range t.Partitions {
			one := reassignResult{PartitionIndex: t.Partitions[j].PartitionIndex}
			v, changed, err := m.reassignOne(t.Name, &t.Partitions[j], req.AllowReplicationFactorChange)
			one.ErrorCode, one.ErrorMessage = codeAndMessage(err)
			if changed {
				if res.Records = append(res.Records, v); len(res.Records) > maxRecordsPerUserOp {
					return res, errTooManyRecords
				}
			}
			if total++; err == nil {
				done++
			} else {
				m.log.Info(fmt.Sprintf("Unable to alter partition reassignment for %s:%d: %v", t.Name, one.PartitionIndex, err))
			}
			answer.Partitions = append(answer.Partitions, one)
		}
		resp.Responses = append(resp.Responses, answer)
	}
	m.log.Info(fmt.Sprintf("Successfully altered %d out of %d partition reassignment(s).", done, total))
	return res, nil
}

func (m *replication) reassignOne(name string, target *protocol.AlterPartitionReassignmentsRequestReassignablePartition, allowFactor bool) (v metadata.Versioned, changed bool, err error) {
	t := m.topicByName(name)
	if t == nil {
		return v, false, fail(kerr.UnknownTopicOrPartition, "Unable to find a topic named "+name+".")
	}
	p, ok := t.partitions.Get(target.PartitionIndex)
	if !ok {
		return v, false, fail(kerr.UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", name, target.PartitionIndex))
	}
	c := m.newChange(p, t, target.PartitionIndex)
	if target.Replicas == nil {
		if err := m.cancelReassignment(c, t); err != nil {
			return v, false, err
		}
	} else {
		if err := m.checkAssignment(target.Replicas, -1); err != nil {
			return v, false, err
		}
		// What the replication factor is without a reassignment that is on its way.
		if have := len(without(p.replicas, p.removing...)); !allowFactor && have != len(target.Replicas) {
			return v, false, fail(kerr.InvalidReplicationFactor, fmt.Sprintf("The replication factor is changed from %d to %d", have, len(target.Replicas)))
		}
		removing := slices.Sorted(slices.Values(without(p.replicas, target.Replicas...)))
		adding := slices.Sorted(slices.Values(without(target.Replicas, p.replicas...)))
		c.targetReplicas = slices.Concat(target.Replicas, removing)
		if len(removing) > 0 {
			c.targetRemoving = removing
		}
		if len(adding) > 0 {
			c.targetAdding = adding
		}
	}
	v, changed = c.record()
	return v, changed, nil
}

// cancelReassignment goes back to the replicas before. If none of them is in sync that would lose data: only topics that
// allow unclean elections may.
func (m *replication) cancelReassignment(c *change, t *topic) error {
	p := c.partition
	if !p.isReassigning() {
		return fail(kerr.NoReassignmentInProgress, "")
	}
	unclean := m.configs.uncleanElection(t.name)
	c.targetReplicas, c.targetISR = without(p.replicas, p.adding...), without(p.isr, p.adding...)
	if len(c.targetISR) == 0 {
		if len(c.targetReplicas) == 0 {
			return fail(kerr.InvalidReplicaAssignment, "Invalid replica assignment: addingReplicas contains all replicas.")
		}
		if !unclean {
			return fail(kerr.InvalidReplicaAssignment, fmt.Sprintf("Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", t.name, c.id))
		}
		c.targetISR = c.targetReplicas[:1]
	}
	if unclean {
		c.elect = electUnclean
	}
	c.targetRemoving, c.targetAdding = nil, nil
	return nil
}

// reassignments lists what is on its way as of an offset; topics nil: all.
func (m *replication) reassignments(topics []protocol.ListPartitionReassignmentsRequestListPartitionReassignmentsTopics, offset int64) *protocol.ListPartitionReassignmentsResponse {
	resp := protocol.NewListPartitionReassignmentsResponse()
	resp.ErrorMessage = nil
	list := func(t *topic, ids []int32) {
		answer := protocol.ListPartitionReassignmentsResponseOngoingTopicReassignment{Name: t.name}
		for _, id := range ids {
			if p, ok := t.partitions.GetAt(id, offset); ok && p.isReassigning() {
				answer.Partitions = append(answer.Partitions, protocol.ListPartitionReassignmentsResponseOngoingPartitionReassignment{
					PartitionIndex: id, Replicas: p.replicas, AddingReplicas: p.adding, RemovingReplicas: p.removing,
				})
			}
		}
		if len(answer.Partitions) > 0 {
			resp.Topics = append(resp.Topics, answer)
		}
	}
	if topics != nil {
		for i := range topics {
			if id, ok := m.byName.GetAt(topics[i].Name, offset); ok {
				t, _ := m.topics.GetAt(id, offset)
				list(t, topics[i].PartitionIndexes)
			}
		}
		return resp
	}
	var t *topic
	var ids []int32
	for tp := range m.reassigned.AllAt(offset) { // sorted: partitions of a topic are together
		if t == nil || t.id != tp.topicID {
			if t != nil {
				list(t, ids)
			}
			t, _ = m.topics.GetAt(tp.topicID, offset)
			ids = nil
		}
		ids = append(ids, tp.partition)
	}
	if t != nil {
		list(t, ids)
	}
	return resp
}
