package controller

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/raft"
	"github.com/ottla-io/ottla/internal/rpc"
)

// BrokerRegistration is key 62, versions 0–4. v2: log directories (KIP-858). v3: the epoch before a clean stop (KIP-966).
// v4: features whose lowest level is 0.
// Path: cluster.go registerBroker, which cleans up behind the last incarnation → RegisterBrokerRecord → stable → epoch.
// Errors: 104 other cluster, 101 the id is in use by one who may be alive, 119 directories or no metadata.version, 35 features, 41.
func (c *Controller) BrokerRegistration(ctx *rpc.Context, req *protocol.BrokerRegistrationRequest, respond func(*protocol.BrokerRegistrationResponse)) {
	detectClean := ctx.APIVersion >= 3
	appendWrite(c, "registerBroker", 0, func() (Result[int64], error) {
		return c.state.cluster.registerBroker(req, c.nextOffset, c.quorum.KRaftVersion(), detectClean, c.state.replication.brokerShutdown)
	}, nil, func(epoch int64, err error) {
		resp := protocol.NewBrokerRegistrationResponse()
		if err != nil {
			resp.ErrorCode, _ = codeAndMessage(err)
		} else {
			resp.BrokerEpoch = epoch
		}
		respond(resp)
	})
}

// BrokerHeartbeat is key 63, versions 0–2. v1: offline directories (KIP-858). v2: cordoned ones.
// Path: the session is extended at once; on the queue leaders.go heartbeat → records of a change of state → stable → answer.
// Errors: 77 not this incarnation, 41.
func (c *Controller) BrokerHeartbeat(_ *rpc.Context, req *protocol.BrokerHeartbeatRequest, respond func(*protocol.BrokerHeartbeatResponse)) {
	if t := c.tracker.Load(); t != nil {
		t.touch(brokerEpoch{req.BrokerId, req.BrokerEpoch})
	}
	var next brokerState
	appendWrite(c, "processBrokerHeartbeat", 0, func() (Result[*protocol.BrokerHeartbeatResponse], error) {
		res, state, err := c.state.replication.heartbeat(req)
		next = state
		return res, err
	}, func(last int64) {
		if next.inControlledShutdown() {
			c.state.cluster.heartbeats.setShutdownOffset(req.BrokerId, last)
		}
	}, func(resp *protocol.BrokerHeartbeatResponse, err error) {
		if err != nil {
			resp = protocol.NewBrokerHeartbeatResponse()
			resp.ErrorCode, _ = codeAndMessage(err)
		}
		respond(resp)
	})
}

// UnregisterBroker is key 64, version 0.
// Path: leaders.go unregisterBroker → PartitionChangeRecords, UnregisterBrokerRecord → stable → answer.
// Errors: 102 not registered, 44, 41.
func (c *Controller) UnregisterBroker(_ *rpc.Context, req *protocol.UnregisterBrokerRequest, respond func(*protocol.UnregisterBrokerResponse)) {
	appendWrite(c, "unregisterBroker", 0, func() (Result[struct{}], error) {
		return c.state.replication.unregisterBroker(req.BrokerId)
	}, nil, func(_ struct{}, err error) {
		resp := protocol.NewUnregisterBrokerResponse()
		resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		respond(resp)
	})
}

// ControllerRegistration is key 70, version 0 (KIP-919).
// Path: cluster.go registerController → RegisterControllerRecord → stable → answer. Errors: 35, 41.
func (c *Controller) ControllerRegistration(_ *rpc.Context, req *protocol.ControllerRegistrationRequest, respond func(*protocol.ControllerRegistrationResponse)) {
	appendWrite(c, "registerController", 0, func() (Result[struct{}], error) {
		return c.state.cluster.registerController(req)
	}, nil, func(_ struct{}, err error) {
		resp := protocol.NewControllerRegistrationResponse()
		resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		respond(resp)
	})
}

// UnregisterController is key 94, version 0.
// Path: cluster.go unregisterController → UnregisterControllerRecord → stable → answer.
// Errors: 42 itself, 35, 136 not registered, 41.
func (c *Controller) UnregisterController(_ *rpc.Context, req *protocol.UnregisterControllerRequest, respond func(*protocol.UnregisterControllerResponse)) {
	appendWrite(c, "unregisterController", 0, func() (Result[struct{}], error) {
		if req.ControllerId == c.cfg.NodeID {
			return Result[struct{}]{}, fail(kerr.InvalidRequest, "Controller cannot unregister itself while it is active.")
		}
		return c.state.cluster.unregisterController(req.ControllerId)
	}, nil, func(_ struct{}, err error) {
		resp := protocol.NewUnregisterControllerResponse()
		resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		respond(resp)
	})
}

// AllocateProducerIds is key 67, version 0 (KIP-730).
// Path: producerids.go allocate → ProducerIdsRecord → stable → answer. Errors: 77, 41.
func (c *Controller) AllocateProducerIds(_ *rpc.Context, req *protocol.AllocateProducerIdsRequest, respond func(*protocol.AllocateProducerIdsResponse)) {
	appendWrite(c, "allocateProducerIds", 0, func() (Result[int64], error) {
		return c.state.producerIDs.allocate(req.BrokerId, req.BrokerEpoch)
	}, nil, func(first int64, err error) {
		resp := protocol.NewAllocateProducerIdsResponse()
		if err != nil {
			resp.ErrorCode, _ = codeAndMessage(err)
		} else {
			resp.ProducerIdStart, resp.ProducerIdLen = first, producerIDBlock
		}
		respond(resp)
	})
}

// UpdateFeatures is key 57, versions 0–2. v1: upgrade types, validate only (KIP-778). v2: no answers by feature.
// Path: features.go update → FeatureLevelRecords, and settings that ELR needs first → stable → answer.
// kraft.version is the quorum's: it writes the level and the voters itself (KIP-853).
// Errors: 95 with the first feature's problem, 41, 7; -1 while a voter has not told its directory.
func (c *Controller) UpdateFeatures(ctx *rpc.Context, req *protocol.UpdateFeaturesRequest, respond func(*protocol.UpdateFeaturesResponse)) {
	version := ctx.APIVersion
	appendWrite(c, "updateFeatures", 0, func() (Result[struct{}], error) {
		records, err := c.updateFeatures(req, version)
		if req.ValidateOnly {
			records = nil
		}
		return Result[struct{}]{Records: records, Atomic: true}, err
	}, nil, func(_ struct{}, err error) {
		resp := protocol.NewUpdateFeaturesResponse()
		resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		if resp.ErrorCode == kerr.InvalidUpdateVersion.Code && resp.ErrorMessage != nil {
			message := "The update failed for all features since the following feature had an error: " + *resp.ErrorMessage
			resp.ErrorMessage = &message
		}
		if err == nil && version <= 1 {
			for _, u := range req.FeatureUpdates {
				resp.Results = append(resp.Results, protocol.UpdateFeaturesResponseUpdatableFeatureResult{Feature: u.Feature})
			}
		}
		respond(resp)
	})
}

func (c *Controller) updateFeatures(req *protocol.UpdateFeaturesRequest, version int16) ([]metadata.Versioned, error) {
	s := c.state
	records, err := s.features.update(req, version, support{s.cluster, c.quorum.Voters().IDs()}, c.quorum.KRaftVersion())
	if err != nil {
		return nil, err
	}
	for _, u := range req.FeatureUpdates {
		if u.Feature == metadata.FeatureELR && u.MaxVersionLevel > 0 && !req.ValidateOnly {
			records = append(s.configs.elrSafety(), records...)
		}
	}
	for _, u := range req.FeatureUpdates {
		if u.Feature != metadata.FeatureKRaft || upgradeKind(&u, version) != upgrade {
			continue
		}
		if err := c.upgradeKRaftVersion(u.MaxVersionLevel, req.ValidateOnly); err != nil {
			return nil, err
		}
		// The answer waits for this one, which is committed after the new level.
		records = append(records, metadata.Versioned{Record: metadata.NewNoOpRecord()})
	}
	return records, nil
}

func (c *Controller) upgradeKRaftVersion(level int16, validateOnly bool) error {
	err := c.quorum.UpgradeKRaftVersion(c.claimEpoch, level, validateOnly)
	var refused *raft.UpgradeError
	if errors.As(err, &refused) {
		return fail(refused.Err, refused.Message)
	}
	return err
}

// What DescribeCluster tells of endpoints, and which operations everybody may do on a cluster without ACLs: create,
// alter, describe, cluster action, describe and alter configs, idempotent write.
const (
	endpointBroker     int8  = 1
	endpointController int8  = 2
	allClusterOps      int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// DescribeCluster is key 60 at a controller, versions 0–2 (KIP-700). v1: endpoint types (KIP-919). v2: fenced brokers.
// Path: read of the stable state: the registered controllers that have the listener the request came in on.
// Errors: 115 unknown endpoint type, 114 brokers asked for (both 42 in v0), 35.
func (c *Controller) DescribeCluster(ctx *rpc.Context, req *protocol.DescribeClusterRequest, respond func(*protocol.DescribeClusterResponse)) {
	appendRead(c, "describeCluster", func(offset int64) (*protocol.DescribeClusterResponse, error) {
		return c.describeCluster(ctx, req, offset)
	}, func(resp *protocol.DescribeClusterResponse, err error) {
		if err != nil {
			resp = protocol.NewDescribeClusterResponse()
			resp.ErrorCode, resp.ErrorMessage = codeAndMessage(err)
		}
		respond(resp)
	})
}

func (c *Controller) describeCluster(ctx *rpc.Context, req *protocol.DescribeClusterRequest, offset int64) (*protocol.DescribeClusterResponse, error) {
	s := c.state
	level, _ := s.features.levels.GetAt(metadata.FeatureMetadata, offset)
	unsupported, mismatched := kerr.UnsupportedEndpointType, kerr.MismatchedEndpointType
	if ctx.APIVersion == 0 {
		unsupported, mismatched = kerr.InvalidRequest, kerr.InvalidRequest
	}
	switch {
	case level == 0:
		return nil, fail(kerr.UnsupportedVersion, "There is no finalized MetadataVersion, so direct-to-controller communication is not supported.")
	case !metadata.Version(level).ControllerRegistration():
		return nil, fail(kerr.UnsupportedVersion, "Direct-to-controller communication is not supported with the current MetadataVersion.")
	case req.EndpointType != endpointBroker && req.EndpointType != endpointController:
		return nil, fail(unsupported, fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType))
	case req.EndpointType == endpointBroker:
		return nil, fail(mismatched, "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER")
	}
	resp := protocol.NewDescribeClusterResponse()
	resp.ErrorMessage, resp.EndpointType, resp.ClusterId = nil, endpointController, c.cfg.ClusterID
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOps
	}
	leader := c.quorum.LeaderAndEpoch().LeaderID
	for id, n := range s.cluster.controllers.AllAt(offset) {
		for _, e := range n.endpoints {
			if e.Name == ctx.Listener {
				resp.Brokers = append(resp.Brokers, protocol.DescribeClusterResponseDescribeClusterBroker{BrokerId: id, Host: e.Host, Port: int32(e.Port)})
				if id == leader {
					resp.ControllerId = id
				}
			}
		}
	}
	return resp, nil
}
