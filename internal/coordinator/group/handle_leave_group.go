package group

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// LeaveGroup (13), versions 0-5: v3 several members, by instance id too (KIP-345), v4 flexible, v5 reasons (KIP-800).
//
// Errors in order: INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS; by member UNKNOWN_MEMBER_ID,
// FENCED_INSTANCE_ID. Up to v2 the member's error is the answer's.
func (s *Service) LeaveGroup(ctx *rpc.Context, req *protocol.LeaveGroupRequest, respond func(*protocol.LeaveGroupResponse)) {
	version := ctx.APIVersion
	answer := func(err error, members []protocol.LeaveGroupResponseMemberResponse) {
		resp := protocol.NewLeaveGroupResponse()
		resp.ErrorCode = kerr.Code(err)
		if version >= 3 {
			resp.Members = members
		} else if err == nil && len(members) > 0 {
			resp.ErrorCode = members[0].ErrorCode
		}
		respond(resp)
	}
	if req.GroupId == "" {
		answer(kerr.InvalidGroupId, nil)
		return
	}
	members := req.Members
	if version < 3 {
		m := protocol.NewLeaveGroupRequestMemberIdentity()
		m.MemberId = req.MemberId
		members = []protocol.LeaveGroupRequestMemberIdentity{m}
	}
	s.do("LeaveGroup", req.GroupId, func(sh *shard) {
		left := sh.leave(req.GroupId, members)
		sh.rt.WhenCommitted(func(err error) {
			if err != nil {
				left = nil
			}
			answer(err, left)
		})
	}, func(err error) { answer(err, nil) })
}
