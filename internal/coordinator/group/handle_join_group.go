package group

import (
	"bytes"

	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/rpc"
)

// JoinGroup (11), versions 0-9: v1 rebalance timeout, v4 a new dynamic member must come back with the id it is given
// (KIP-394), v5 static members (KIP-345), v6 flexible, v7 protocol type (KIP-559), v8 reason (KIP-800), v9 skip
// assignment (KIP-814).
//
// Path: check → shard.join → the generation begins → respond.
// Errors in order: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID
// (no such group), GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID,
// FENCED_INSTANCE_ID.
func (s *Service) JoinGroup(ctx *rpc.Context, req *protocol.JoinGroupRequest, respond func(*protocol.JoinGroupResponse)) {
	version := ctx.APIVersion
	answer := func(resp *protocol.JoinGroupResponse) {
		if version < 7 && resp.ProtocolName == nil {
			resp.ProtocolName = new(string)
		}
		respond(resp)
	}
	switch {
	case req.GroupId == "":
		answer(joinError(req.MemberId, kerr.InvalidGroupId))
		return
	case req.SessionTimeoutMs < s.cfg.MinSessionTimeoutMs || req.SessionTimeoutMs > s.cfg.MaxSessionTimeoutMs:
		answer(joinError(req.MemberId, kerr.InvalidSessionTimeout))
		return
	}
	r := &joinRequest{
		groupID: req.GroupId, memberID: req.MemberId, instanceID: req.GroupInstanceId,
		clientID: ctx.ClientID, clientHost: ctx.ClientHost(),
		protocolType: req.ProtocolType, candidates: candidates(req.Protocols),
		sessionTimeoutMs: req.SessionTimeoutMs, rebalanceTimeoutMs: req.RebalanceTimeoutMs,
		reason:        deref(req.Reason, "not provided"),
		knownMemberID: version >= 4, skipAssignment: version >= 9,
	}
	if r.reason == "" {
		r.reason = "not provided"
	}
	if version == 0 {
		r.rebalanceTimeoutMs = r.sessionTimeoutMs
	}
	s.do("JoinGroup", r.groupID, func(sh *shard) { sh.join(r, answer) }, func(err error) {
		answer(joinError("", protocolError(err)))
	})
}

// candidates copies the protocols out of the request, whose bytes do not outlive it. Of one name the first counts.
func candidates(protocols []protocol.JoinGroupRequestProtocol) []candidate {
	all := make([]candidate, 0, len(protocols))
	seen := make(map[string]struct{}, len(protocols))
	for _, p := range protocols {
		if _, again := seen[p.Name]; again {
			continue
		}
		seen[p.Name] = struct{}{}
		all = append(all, candidate{p.Name, bytes.Clone(p.Metadata)})
	}
	return all
}
