package group

import (
	"bytes"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// SyncGroup (14), versions 0-5: v3 static members, v4 flexible, v5 the protocol must be named (KIP-559).
//
// Path: check → shard.sync → the leader's assignment is committed → respond.
// Errors in order: INCONSISTENT_GROUP_PROTOCOL (v5 without protocol), INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
func (s *Service) SyncGroup(ctx *rpc.Context, req *protocol.SyncGroupRequest, respond func(*protocol.SyncGroupResponse)) {
	switch {
	case ctx.APIVersion >= 5 && (req.ProtocolType == nil || req.ProtocolName == nil):
		respond(syncError(kerr.InconsistentGroupProtocol))
		return
	case req.GroupId == "":
		respond(syncError(kerr.InvalidGroupId))
		return
	}
	r := &syncRequest{
		groupID: req.GroupId, memberID: req.MemberId, instanceID: req.GroupInstanceId, generation: req.GenerationId,
		protocolType: req.ProtocolType, protocol: req.ProtocolName,
		assignments: make(map[string][]byte, len(req.Assignments)),
	}
	for _, a := range req.Assignments {
		r.assignments[a.MemberId] = bytes.Clone(a.Assignment)
	}
	s.do("SyncGroup", r.groupID, func(sh *shard) { sh.sync(r, respond) }, func(err error) {
		respond(syncError(protocolError(err)))
	})
}
