package broker

import (
	"slices"

	"github.com/ottla-io/ottla/internal/controller"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Forward hands a request that only the active controller may carry out to it, in the version in which it came, and its answer back.
// Where the controller does not answer in time, neither do we know what became of the request: 7.
func (b *Broker) Forward(ctx *rpc.Context, req protocol.Request, respond func(protocol.Response)) {
	b.ctrl.Send(ctx, req, ctx.APIVersion, func(resp protocol.Response, err error) {
		if err != nil {
			resp = errorResponse(req, kerr.RequestTimedOut)
		}
		respond(resp)
	})
}

// errorResponse is the answer that says of everything a request asks for that it failed. The messages are Kafka's forms of saying
// nothing further.
func errorResponse(req protocol.Request, e *kerr.Error) protocol.Response {
	code := e.Code
	switch req := req.(type) {
	case *protocol.CreateTopicsRequest:
		resp := protocol.NewCreateTopicsResponse()
		for _, t := range req.Topics {
			r := protocol.NewCreateTopicsResponseCreatableTopicResult()
			r.Name, r.ErrorCode = t.Name, code
			resp.Topics = append(resp.Topics, r)
		}
		return resp
	case *protocol.DeleteTopicsRequest:
		resp := protocol.NewDeleteTopicsResponse()
		for _, name := range req.TopicNames {
			resp.Responses = append(resp.Responses, protocol.DeleteTopicsResponseDeletableTopicResult{Name: &name, ErrorCode: code})
		}
		for _, t := range req.Topics {
			resp.Responses = append(resp.Responses, protocol.DeleteTopicsResponseDeletableTopicResult{Name: t.Name, TopicId: t.TopicId, ErrorCode: code})
		}
		return resp
	case *protocol.CreatePartitionsRequest:
		resp := protocol.NewCreatePartitionsResponse()
		for _, t := range req.Topics {
			resp.Results = append(resp.Results, protocol.CreatePartitionsResponseCreatePartitionsTopicResult{Name: t.Name, ErrorCode: code})
		}
		return resp
	case *protocol.IncrementalAlterConfigsRequest:
		resp := protocol.NewIncrementalAlterConfigsResponse()
		for _, r := range req.Resources {
			resp.Responses = append(resp.Responses, incrementalResult{ResourceType: r.ResourceType, ResourceName: r.ResourceName, ErrorCode: code})
		}
		return resp
	case *protocol.AlterConfigsRequest:
		resp := protocol.NewAlterConfigsResponse()
		for _, r := range req.Resources {
			resp.Responses = append(resp.Responses, legacyResult{ResourceType: r.ResourceType, ResourceName: r.ResourceName, ErrorCode: code})
		}
		return resp
	case *protocol.ElectLeadersRequest:
		resp := protocol.NewElectLeadersResponse()
		resp.ErrorCode = code
		for _, t := range req.TopicPartitions {
			r := protocol.ElectLeadersResponseReplicaElectionResult{Topic: t.Topic}
			for _, p := range t.Partitions {
				r.PartitionResult = append(r.PartitionResult, protocol.ElectLeadersResponsePartitionResult{PartitionId: p, ErrorCode: code})
			}
			resp.ReplicaElectionResults = append(resp.ReplicaElectionResults, r)
		}
		return resp
	case *protocol.UpdateFeaturesRequest:
		resp := protocol.NewUpdateFeaturesResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.AlterPartitionReassignmentsRequest:
		resp := protocol.NewAlterPartitionReassignmentsResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.ListPartitionReassignmentsRequest:
		resp := protocol.NewListPartitionReassignmentsResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.UnregisterBrokerRequest:
		resp := protocol.NewUnregisterBrokerResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.UnregisterControllerRequest:
		resp := protocol.NewUnregisterControllerResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.DescribeQuorumRequest:
		resp := protocol.NewDescribeQuorumResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.AddRaftVoterRequest:
		resp := protocol.NewAddRaftVoterResponse()
		resp.ErrorCode = code
		return resp
	case *protocol.RemoveRaftVoterRequest:
		resp := protocol.NewRemoveRaftVoterResponse()
		resp.ErrorCode = code
		return resp
	}
	return securityErrorResponse(req, code)
}

// NotController reports whether a controller refused a request because it is not the active one.
func NotController(resp protocol.Response) bool {
	code := kerr.NotController.Code
	switch r := resp.(type) {
	case *protocol.CreateTopicsResponse:
		return slices.ContainsFunc(r.Topics, func(t protocol.CreateTopicsResponseCreatableTopicResult) bool { return t.ErrorCode == code })
	case *protocol.DeleteTopicsResponse:
		return slices.ContainsFunc(r.Responses, func(t protocol.DeleteTopicsResponseDeletableTopicResult) bool { return t.ErrorCode == code })
	case *protocol.CreatePartitionsResponse:
		return slices.ContainsFunc(r.Results, func(t protocol.CreatePartitionsResponseCreatePartitionsTopicResult) bool {
			return t.ErrorCode == code
		})
	case *protocol.IncrementalAlterConfigsResponse:
		return slices.ContainsFunc(r.Responses, func(t incrementalResult) bool { return t.ErrorCode == code })
	case *protocol.AlterConfigsResponse:
		return slices.ContainsFunc(r.Responses, func(t legacyResult) bool { return t.ErrorCode == code })
	case *protocol.ElectLeadersResponse:
		return r.ErrorCode == code
	case *protocol.UpdateFeaturesResponse:
		return r.ErrorCode == code
	case *protocol.AlterPartitionReassignmentsResponse:
		return r.ErrorCode == code
	case *protocol.ListPartitionReassignmentsResponse:
		return r.ErrorCode == code
	case *protocol.UnregisterBrokerResponse:
		return r.ErrorCode == code
	case *protocol.UnregisterControllerResponse:
		return r.ErrorCode == code
	case *protocol.DescribeQuorumResponse:
		// The quorum's word for it is that of a partition's leader.
		return r.ErrorCode == code || slices.ContainsFunc(r.Topics, func(t protocol.DescribeQuorumResponseTopicData) bool {
			return slices.ContainsFunc(t.Partitions, func(p protocol.DescribeQuorumResponsePartitionData) bool {
				return p.ErrorCode == kerr.NotLeaderOrFollower.Code
			})
		})
	case *protocol.BrokerRegistrationResponse:
		return r.ErrorCode == code
	case *protocol.BrokerHeartbeatResponse:
		return r.ErrorCode == code
	case *protocol.ControllerRegistrationResponse:
		return r.ErrorCode == code
	case *protocol.AllocateProducerIdsResponse:
		return r.ErrorCode == code
	case *protocol.AlterPartitionResponse:
		return r.ErrorCode == code
	case *protocol.AssignReplicasToDirsResponse:
		return r.ErrorCode == code
	}
	return securityNotController(resp, code)
}

// QuorumMembers answers what is asked of the quorum where it is. *raft.Quorum is one.
type QuorumMembers interface {
	DescribeQuorum(ctx *rpc.Context, req *protocol.DescribeQuorumRequest, respond func(*protocol.DescribeQuorumResponse))
	AddRaftVoter(ctx *rpc.Context, req *protocol.AddRaftVoterRequest, respond func(*protocol.AddRaftVoterResponse))
	RemoveRaftVoter(ctx *rpc.Context, req *protocol.RemoveRaftVoterRequest, respond func(*protocol.RemoveRaftVoterResponse))
}

// LocalController is the Local of a ControllerChannel in a node that is a controller itself.
func LocalController(c *controller.Controller, q QuorumMembers) func(*rpc.Context, protocol.Request, func(protocol.Response)) bool {
	return func(ctx *rpc.Context, req protocol.Request, respond func(protocol.Response)) bool {
		switch req := req.(type) {
		case *protocol.CreateTopicsRequest:
			c.CreateTopics(ctx, req, func(r *protocol.CreateTopicsResponse) { respond(r) })
		case *protocol.DeleteTopicsRequest:
			c.DeleteTopics(ctx, req, func(r *protocol.DeleteTopicsResponse) { respond(r) })
		case *protocol.CreatePartitionsRequest:
			c.CreatePartitions(ctx, req, func(r *protocol.CreatePartitionsResponse) { respond(r) })
		case *protocol.IncrementalAlterConfigsRequest:
			c.IncrementalAlterConfigs(ctx, req, func(r *protocol.IncrementalAlterConfigsResponse) { respond(r) })
		case *protocol.AlterConfigsRequest:
			c.AlterConfigs(ctx, req, func(r *protocol.AlterConfigsResponse) { respond(r) })
		case *protocol.ElectLeadersRequest:
			c.ElectLeaders(ctx, req, func(r *protocol.ElectLeadersResponse) { respond(r) })
		case *protocol.UpdateFeaturesRequest:
			c.UpdateFeatures(ctx, req, func(r *protocol.UpdateFeaturesResponse) { respond(r) })
		case *protocol.AlterPartitionReassignmentsRequest:
			c.AlterPartitionReassignments(ctx, req, func(r *protocol.AlterPartitionReassignmentsResponse) { respond(r) })
		case *protocol.ListPartitionReassignmentsRequest:
			c.ListPartitionReassignments(ctx, req, func(r *protocol.ListPartitionReassignmentsResponse) { respond(r) })
		case *protocol.UnregisterBrokerRequest:
			c.UnregisterBroker(ctx, req, func(r *protocol.UnregisterBrokerResponse) { respond(r) })
		case *protocol.UnregisterControllerRequest:
			c.UnregisterController(ctx, req, func(r *protocol.UnregisterControllerResponse) { respond(r) })
		case *protocol.DescribeQuorumRequest:
			q.DescribeQuorum(ctx, req, func(r *protocol.DescribeQuorumResponse) { respond(r) })
		case *protocol.AddRaftVoterRequest:
			q.AddRaftVoter(ctx, req, func(r *protocol.AddRaftVoterResponse) { respond(r) })
		case *protocol.RemoveRaftVoterRequest:
			q.RemoveRaftVoter(ctx, req, func(r *protocol.RemoveRaftVoterResponse) { respond(r) })
		case *protocol.BrokerRegistrationRequest:
			c.BrokerRegistration(ctx, req, func(r *protocol.BrokerRegistrationResponse) { respond(r) })
		case *protocol.BrokerHeartbeatRequest:
			c.BrokerHeartbeat(ctx, req, func(r *protocol.BrokerHeartbeatResponse) { respond(r) })
		case *protocol.ControllerRegistrationRequest:
			c.ControllerRegistration(ctx, req, func(r *protocol.ControllerRegistrationResponse) { respond(r) })
		case *protocol.AllocateProducerIdsRequest:
			c.AllocateProducerIds(ctx, req, func(r *protocol.AllocateProducerIdsResponse) { respond(r) })
		case *protocol.AlterPartitionRequest:
			c.AlterPartition(ctx, req, func(r *protocol.AlterPartitionResponse) { respond(r) })
		case *protocol.AssignReplicasToDirsRequest:
			c.AssignReplicasToDirs(ctx, req, func(r *protocol.AssignReplicasToDirsResponse) { respond(r) })
		default:
			return localSecurity(c, ctx, req, respond)
		}
		return true
	}
}
