package group

import (
	"strings"
	"time"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// newMemberJoinTimeout is how long a member's first JoinGroup may wait before it is taken for abandoned.
const newMemberJoinTimeout = 5 * time.Minute

func (s *shard) heartbeatTimer(g *classicGroup, m *member) *coordinator.Timer {
	return s.rt.NewTimer("session of a member", func() { s.expireMember(g, m.id) })
}

// heartbeat is Heartbeat.
func (s *shard) heartbeat(groupID, memberID string, instanceID *string, generation int32) error {
	g, ok := s.groups[groupID].(*classicGroup)
	if !ok {
		return kerr.UnknownMemberId
	}
	if err := g.validate(memberID, instanceID, "heartbeat"); err != nil {
		return err
	}
	if generation != g.generation {
		return kerr.IllegalGeneration
	}
	switch g.state {
	case empty:
		return kerr.UnknownMemberId
	case preparingRebalance:
		s.heard(g.byID[memberID])
		return kerr.RebalanceInProgress
	default: // also while completing a rebalance: members send heartbeats as soon as they have joined
		s.heard(g.byID[memberID])
		return nil
	}
}

func (s *shard) heard(m *member) { m.heartbeat.Reset(ms(m.sessionTimeoutMs)) }

// expireMember ends the session of a member, or of one that never used its id.
func (s *shard) expireMember(g *classicGroup, id string) {
	if !s.current(g) {
		return
	}
	if _, pending := g.pendingJoin[id]; pending {
		g.logger.Info("Pending member in group has been removed after session timeout expiration", "memberId", id)
		g.remove(id)
		if g.state == preparingRebalance && g.allJoined() {
			s.completeJoin(g)
		}
		return
	}
	m, ok := g.byID[id]
	if !ok || m.heartbeatSatisfied() {
		return
	}
	g.logger.Info("Member in group has failed, removing it from the group", "memberId", id)
	g.answerJoin(m, joinError("", kerr.UnknownMemberId))
	g.remove(id)
	switch {
	case g.state == stable || g.state == completingRebalance:
		s.prepareOrCompleteJoin(g, "removing member "+id+" on heartbeat expiration.")
	case g.state == preparingRebalance && g.allJoined():
		s.completeJoin(g)
	}
}

// leave is LeaveGroup: of members themselves, or by an administrator who knows their instance ids.
func (s *shard) leave(groupID string, members []protocol.LeaveGroupRequestMemberIdentity) []protocol.LeaveGroupResponseMemberResponse {
	answers := make([]protocol.LeaveGroupResponseMemberResponse, 0, len(members))
	g, ok := s.groups[groupID].(*classicGroup)
	var left []string
	for _, who := range members {
		a := protocol.NewLeaveGroupResponseMemberResponse()
		a.MemberId, a.GroupInstanceId = who.MemberId, who.GroupInstanceId
		err := error(kerr.UnknownMemberId)
		if ok {
			err = s.leaveOne(g, who.MemberId, who.GroupInstanceId, deref(who.Reason, "not provided"))
		}
		if err == nil {
			left = append(left, who.MemberId)
		}
		a.ErrorCode = kerr.Code(err)
		answers = append(answers, a)
	}
	if len(left) > 0 {
		switch g.state {
		case stable, completingRebalance:
			s.prepareOrCompleteJoin(g, "explicit `LeaveGroup` request for ("+strings.Join(left, ", ")+") members.")
		case preparingRebalance:
			s.maybeCompleteJoin(g)
		default:
		}
	}
	return answers
}

func (s *shard) leaveOne(g *classicGroup, id string, instanceID *string, reason string) error {
	if id == "" {
		if instanceID == nil || g.static[*instanceID] == "" {
			return kerr.UnknownMemberId
		}
		id = g.static[*instanceID]
	} else if _, pending := g.pendingJoin[id]; pending {
		g.logger.Info("Pending member has left group through explicit `LeaveGroup` request", "memberId", id, "reason", reason)
		g.remove(id)
		return nil
	} else if err := g.validate(id, instanceID, "leave-group"); err != nil {
		return err
	}
	g.logger.Info("Member has left group through explicit `LeaveGroup` request", "memberId", id, "reason", reason)
	m := g.byID[id]
	g.answerJoin(m, joinError("", kerr.UnknownMemberId))
	g.answerSync(m, syncError(kerr.UnknownMemberId))
	g.remove(id)
	return nil
}
