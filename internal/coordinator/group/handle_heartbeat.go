package group

import (
	"errors"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// Heartbeat (12), versions 0-4: v3 static members, v4 flexible.
//
// Errors in order: INVALID_GROUP_ID, NOT_COORDINATOR, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
// REBALANCE_IN_PROGRESS. While the group is loading the answer is good.
func (s *Service) Heartbeat(_ *rpc.Context, req *protocol.HeartbeatRequest, respond func(*protocol.HeartbeatResponse)) {
	answer := func(err error) {
		resp := protocol.NewHeartbeatResponse()
		resp.ErrorCode = kerr.Code(err)
		respond(resp)
	}
	if req.GroupId == "" {
		answer(kerr.InvalidGroupId)
		return
	}
	s.do("Heartbeat", req.GroupId, func(sh *shard) {
		answer(sh.heartbeat(req.GroupId, req.MemberId, req.GroupInstanceId, req.GenerationId))
	}, func(err error) {
		if errors.Is(err, kerr.CoordinatorLoadInProgress) {
			err = nil
		}
		answer(err)
	})
}
