package controller

import (
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// AlterPartition is key 56, versions 2–3. v2: topic ids. v3: broker epochs of the ISR (KIP-903).
// Path: alter_partition.go alterPartition → PartitionChangeRecords → stable → answer.
// Errors of a partition in Kafka's order: 100, 3, 41 the leader knows more, 74, 42, 95, 42, 107; 108 with a record. Of
// the request: 77 stale broker, 41.
func (c *Controller) AlterPartition(ctx *rpc.Context, req *protocol.AlterPartitionRequest, respond func(*protocol.AlterPartitionResponse)) {
	version := ctx.APIVersion
	appendWrite(c, "alterPartition", 0, func() (Result[*protocol.AlterPartitionResponse], error) {
		return c.state.replication.alterPartition(req, version)
	}, nil, func(resp *protocol.AlterPartitionResponse, err error) {
		if err != nil {
			resp = protocol.NewAlterPartitionResponse()
			resp.ErrorCode, _ = codeAndMessage(err)
		}
		respond(resp)
	})
}

// ElectLeaders is key 43, versions 0–2. v1: unclean elections (KIP-460).
// Path: leaders.go electLeaders → PartitionChangeRecords → stable → answer.
// Errors of a partition: 3, 84 not needed, 80 the preferred one is not available, 83 nobody is. Of the request: 42, 44, 41, 7.
func (c *Controller) ElectLeaders(_ *rpc.Context, req *protocol.ElectLeadersRequest, respond func(*protocol.ElectLeadersResponse)) {
	appendWrite(c, "electLeaders", millis(req.TimeoutMs), func() (Result[*protocol.ElectLeadersResponse], error) {
		return c.state.replication.electLeaders(req)
	}, nil, func(resp *protocol.ElectLeadersResponse, err error) {
		if err != nil {
			resp = protocol.NewElectLeadersResponse()
			code, message := codeAndMessage(err)
			resp.ErrorCode = code
			for _, t := range req.TopicPartitions {
				r := protocol.ElectLeadersResponseReplicaElectionResult{Topic: t.Topic}
				for _, id := range t.Partitions {
					r.PartitionResult = append(r.PartitionResult, protocol.ElectLeadersResponsePartitionResult{PartitionId: id, ErrorCode: code, ErrorMessage: message})
				}
				resp.ReplicaElectionResults = append(resp.ReplicaElectionResults, r)
			}
		}
		respond(resp)
	})
}

// AssignReplicasToDirs is key 73, version 0 (KIP-858).
// Path: alter_partition.go assignDirs → PartitionChangeRecords → stable → answer.
// Errors of a partition: 100, 3, 6 not a replica. Of the request: 35, 77, 41.
func (c *Controller) AssignReplicasToDirs(_ *rpc.Context, req *protocol.AssignReplicasToDirsRequest, respond func(*protocol.AssignReplicasToDirsResponse)) {
	appendWrite(c, "assignReplicasToDirs", 0, func() (Result[*protocol.AssignReplicasToDirsResponse], error) {
		return c.state.replication.assignDirs(req)
	}, nil, func(resp *protocol.AssignReplicasToDirsResponse, err error) {
		if err != nil {
			resp = protocol.NewAssignReplicasToDirsResponse()
			resp.ErrorCode, _ = codeAndMessage(err)
		}
		respond(resp)
	})
}

// AlterPartitionReassignments is key 45, versions 0–1 (KIP-455). v1: whether the number of replicas may change (KIP-860).
// Path: reassign.go reassign → PartitionChangeRecords → stable → answer; completed later by AlterPartition.
// Errors of a partition: 3, 39 assignment, 38 number of replicas, 85 nothing to cancel. Of the request: 44, 41, 7.
func (c *Controller) AlterPartitionReassignments(_ *rpc.Context, req *protocol.AlterPartitionReassignmentsRequest, respond func(*protocol.AlterPartitionReassignmentsResponse)) {
	appendWrite(c, "alterPartitionReassignments", millis(req.TimeoutMs), func() (Result[*protocol.AlterPartitionReassignmentsResponse], error) {
		return c.state.replication.reassign(req)
	}, nil, func(resp *protocol.AlterPartitionReassignmentsResponse, err error) {
		if err != nil {
			resp = protocol.NewAlterPartitionReassignmentsResponse()
			resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
			for _, t := range req.Topics {
				answer := protocol.AlterPartitionReassignmentsResponseReassignableTopicResponse{Name: t.Name}
				for _, p := range t.Partitions {
					answer.Partitions = append(answer.Partitions, reassignResult{PartitionIndex: p.PartitionIndex, ErrorCode: resp.ErrorCode, ErrorMessage: resp.ErrorMessage})
				}
				resp.Responses = append(resp.Responses, answer)
			}
		}
		respond(resp)
	})
}

// ListPartitionReassignments is key 46, version 0 (KIP-455). Path: read of the stable state in reassign.go. Errors: 41.
func (c *Controller) ListPartitionReassignments(_ *rpc.Context, req *protocol.ListPartitionReassignmentsRequest, respond func(*protocol.ListPartitionReassignmentsResponse)) {
	appendRead(c, "listPartitionReassignments", func(offset int64) (*protocol.ListPartitionReassignmentsResponse, error) {
		if c.claimEpoch < 0 {
			return nil, c.notController()
		}
		return c.state.replication.reassignments(req.Topics, offset), nil
	}, func(resp *protocol.ListPartitionReassignmentsResponse, err error) {
		if err != nil {
			resp = protocol.NewListPartitionReassignmentsResponse()
			resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		}
		respond(resp)
	})
}
