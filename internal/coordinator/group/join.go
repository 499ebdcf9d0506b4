package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// joinRequest is a JoinGroup as the state needs it; the bytes are its own.
type joinRequest struct {
	groupID, memberID  string
	instanceID         *string
	clientID           string
	clientHost         string
	protocolType       string
	candidates         []candidate
	sessionTimeoutMs   int32
	rebalanceTimeoutMs int32
	reason             string
	knownMemberID      bool // v4+: a new dynamic member has to come back with the id it is given (KIP-394)
	skipAssignment     bool // v9+: a static leader can be told not to assign (KIP-814)
}

type joinAnswer = func(*protocol.JoinGroupResponse)

// join is JoinGroup. The answer comes when the group's next generation begins, or at once with an error, a member id
// to come back with, or, to a member that knows nothing new, the generation that is.
func (s *shard) join(r *joinRequest, answer joinAnswer) {
	g, err := s.groupToJoin(r)
	switch {
	case err != nil:
		answer(joinError(r.memberID, err))
	case !s.accepts(g, r.memberID):
		g.remove(r.memberID)
		answer(joinError("", kerr.GroupMaxSizeReached))
	case !g.supports(r.protocolType, r.candidates):
		answer(joinError(r.memberID, kerr.InconsistentGroupProtocol))
	case r.memberID == "":
		s.joinNew(g, r, answer)
	default:
		s.joinExisting(g, r, answer)
	}
}

// groupToJoin finds the classic group, or makes it: then the log knows of it before anybody else does. An empty consumer
// group becomes a classic one.
func (s *shard) groupToJoin(r *joinRequest) (*classicGroup, *kerr.Error) {
	var records []coordinator.Record
	switch g := s.groups[r.groupID].(type) {
	case *classicGroup:
		return g, nil
	case *modernGroup:
		if g.kind != consumerType {
			return nil, kerr.InconsistentGroupProtocol
		}
		if !g.isEmpty() {
			return nil, kerr.RebalanceInProgress // its members, of another protocol, are about to expire
		}
		records = g.tombstones()
	}
	if r.memberID != "" {
		return nil, kerr.UnknownMemberId
	}
	g := s.newClassic(r.groupID)
	g.stateTimeMs = s.nowMs()
	if _, err := s.rt.Append(append(records, groupRecord(g, nil))); err != nil {
		g.logger.Warn("Failed to write empty metadata for group", "error", err)
		return nil, protocolError(err)
	}
	s.groups[g.id] = g
	return g, nil
}

// accepts is the group's size limit (KIP-389). While members rejoin, those who wait count, not those who are known: so the
// last to come stay out when the limit was lowered.
func (s *shard) accepts(g *classicGroup, memberID string) bool {
	m, ok := g.byID[memberID]
	switch g.state {
	case preparingRebalance:
		return ok && m.awaitJoin != nil || g.awaitingJoin < int(s.cfg.MaxSize)
	case completingRebalance, stable:
		return ok || len(g.members) < int(s.cfg.MaxSize)
	default:
		return true
	}
}

// joinNew takes in one who has no member id yet.
func (s *shard) joinNew(g *classicGroup, r *joinRequest, answer joinAnswer) {
	if r.instanceID != nil {
		id := s.rt.NewMemberID(*r.instanceID)
		if old, ok := g.static[*r.instanceID]; ok {
			g.logger.Info("Static member with unknown member id joins group. Replacing previously mapped member",
				"instanceId", *r.instanceID, "state", g.state.String(), "memberId", id, "replaced", old)
			s.replaceStatic(g, r, old, id, answer)
			return
		}
		g.logger.Info("Static member with unknown member id joins group. Created a new member id",
			"instanceId", *r.instanceID, "state", g.state.String(), "memberId", id)
		s.addMember(g, r, id, answer)
		return
	}
	id := s.rt.NewMemberID(r.clientID)
	if !r.knownMemberID {
		g.logger.Info("Dynamic member with unknown member id joins group. Created a new member id and added the member to the group",
			"state", g.state.String(), "memberId", id)
		s.addMember(g, r, id, answer)
		return
	}
	g.logger.Info("Dynamic member with unknown member id joins group. Created a new member id and requesting the member to rejoin with this id",
		"state", g.state.String(), "memberId", id)
	t := s.rt.NewTimer("pending member "+id, func() { s.expireMember(g, id) })
	g.pendingJoin[id] = t
	t.Reset(ms(r.sessionTimeoutMs))
	answer(joinError(id, kerr.MemberIdRequired))
}

// joinExisting takes in one who has a member id: pending since joinNew, or a member that rejoins.
func (s *shard) joinExisting(g *classicGroup, r *joinRequest, answer joinAnswer) {
	if _, pending := g.pendingJoin[r.memberID]; pending {
		if r.instanceID != nil {
			// Only dynamic members are asked to come back with an id.
			answer(joinError(r.memberID, kerr.UnknownServerError))
			return
		}
		g.logger.Info("Pending dynamic member joins group. Adding to the group now", "state", g.state.String(), "memberId", r.memberID)
		s.addMember(g, r, r.memberID, answer)
		return
	}
	if err := g.validate(r.memberID, r.instanceID, "join-group"); err != nil {
		answer(joinError(r.memberID, protocolError(err)))
		return
	}
	m := g.byID[r.memberID]
	rejoin := func(why string) {
		g.update(m, r.candidates, r.rebalanceTimeoutMs, r.sessionTimeoutMs, answer)
		s.prepareOrCompleteJoin(g, why+"; client reason: "+r.reason)
	}
	switch g.state {
	case preparingRebalance:
		rejoin("Member " + m.id + " is joining group during " + g.state.String())
	case completingRebalance:
		if !m.matches(r.candidates) {
			rejoin("Updating metadata for member " + m.id + " during " + g.state.String())
			return
		}
		answer(s.joined(g, m)) // it may have missed the answer: here it is again
	case stable:
		switch {
		case g.isLeader(m.id): // something that only the leader sees has changed, such as a topic's partitions
			rejoin("Leader " + m.id + " re-joining group during " + g.state.String())
		case !m.matches(r.candidates):
			rejoin("Updating metadata for member " + m.id + " during " + g.state.String())
		default:
			resp := s.joined(g, m)
			resp.Members = nil
			answer(resp)
		}
	default:
		g.logger.Warn("Attempt to add rejoining member in unexpected group state", "memberId", m.id, "state", g.state.String())
		answer(joinError(m.id, kerr.UnknownMemberId))
	}
}

// joined is the answer of the present generation.
func (s *shard) joined(g *classicGroup, m *member) *protocol.JoinGroupResponse {
	resp := protocol.NewJoinGroupResponse()
	resp.MemberId, resp.GenerationId = m.id, g.generation
	resp.ProtocolName, resp.ProtocolType, resp.Leader = g.protocol, g.protocolType, deref(g.leader, "")
	if g.isLeader(m.id) {
		resp.Members = g.memberData()
	}
	return resp
}

func (s *shard) addMember(g *classicGroup, r *joinRequest, id string, answer joinAnswer) {
	m := &member{
		id: id, instanceID: r.instanceID, clientID: r.clientID, clientHost: r.clientHost,
		rebalanceTimeoutMs: r.rebalanceTimeoutMs, sessionTimeoutMs: r.sessionTimeoutMs,
		protocolType: r.protocolType, candidates: r.candidates, isNew: true,
	}
	m.heartbeat = s.heartbeatTimer(g, m)
	if g.state == preparingRebalance && g.previous == empty {
		g.newMemberAdded = true
	}
	g.add(m, answer)
	// A new member cannot send heartbeats before it has its answer, and a client that has gone away cannot be told
	// from one that waits: its JoinGroup is given up after five minutes.
	m.heartbeat.Reset(newMemberJoinTimeout)
	s.prepareOrCompleteJoin(g, fmt.Sprintf("Adding new member %s with group instance id %s; client reason: %s",
		id, deref(r.instanceID, "null"), r.reason))
}

// replaceStatic lets a static member that has lost its member id (it restarted) take its place again (KIP-345). A stable
// group whose protocol stays the same is not rebalanced.
func (s *shard) replaceStatic(g *classicGroup, r *joinRequest, oldID, newID string, answer joinAnswer) {
	formerLeader := deref(g.leader, "")
	copyMember := func(of *member) *member {
		c := *of
		c.awaitJoin, c.awaitSync, c.isNew = nil, nil, false
		c.heartbeat = s.heartbeatTimer(g, &c)
		return &c
	}
	m := g.replaceStatic(*r.instanceID, oldID, newID, copyMember)
	m.heartbeat.Reset(ms(m.sessionTimeoutMs))
	before := *m
	g.update(m, r.candidates, r.rebalanceTimeoutMs, r.sessionTimeoutMs, answer)

	switch g.state {
	case stable:
		if deref(g.protocol, "") != g.selectProtocol() {
			s.prepareOrCompleteJoin(g, fmt.Sprintf("Group's selectedProtocol will change because static member %s with instance id %s "+
				"joined with change of protocol; client reason: %s", newID, *r.instanceID, r.reason))
			return
		}
		g.logger.Info("Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a rebalance")
		stored := func(err error) { s.staticStored(g, m, &before, r, oldID, formerLeader, err) }
		if _, err := s.rt.Append([]coordinator.Record{groupRecord(g, nil)}); err != nil {
			stored(err)
			return
		}
		s.rt.WhenCommitted(stored)
	case completingRebalance:
		// The leader may already have been told of the old id, and would assign to it.
		s.prepareRebalance(g, fmt.Sprintf("Updating metadata for static member %s with instance id %s; client reason: %s",
			newID, *r.instanceID, r.reason))
	default:
		s.maybeCompleteJoin(g)
	}
}

// staticStored answers a static member that has taken its place in a stable group. When that could not be stored, the
// place goes back to the old member id.
func (s *shard) staticStored(g *classicGroup, m, before *member, r *joinRequest, oldID, formerLeader string, err error) {
	if !s.current(g) || g.byID[m.id] != m || g.state == dead {
		return // it has left, was replaced again, or the group is gone: it has had its answer
	}
	if err != nil {
		g.logger.Warn("Failed to persist metadata for group static member, reverting to the old member id",
			"memberId", m.id, "instanceId", *r.instanceID, "old", oldID, "error", err)
		resp := joinError("", protocolError(err))
		resp.GenerationId, resp.ProtocolName, resp.ProtocolType, resp.Leader = g.generation, g.protocol, g.protocolType, formerLeader
		g.answerJoin(m, resp)
		g.update(m, before.candidates, before.rebalanceTimeoutMs, before.sessionTimeoutMs, nil)
		old := g.replaceStatic(*r.instanceID, m.id, oldID, func(of *member) *member {
			c := *of
			c.heartbeat = s.heartbeatTimer(g, &c)
			return &c
		})
		old.heartbeat.Reset(ms(old.sessionTimeoutMs))
		return
	}
	resp := s.joined(g, m)
	if r.skipAssignment {
		resp.SkipAssignment = g.isLeader(m.id)
	} else {
		// Clients that do not know SkipAssignment would assign, which a stable group ignores: they are told that
		// the member which they replace still leads.
		resp.Leader, resp.Members = formerLeader, nil
	}
	g.answerJoin(m, resp)
}

// prepareOrCompleteJoin begins a rebalance, or ends the one that is on if this was the last to join.
func (s *shard) prepareOrCompleteJoin(g *classicGroup, reason string) {
	if g.canRebalance() {
		s.prepareRebalance(g, reason)
		return
	}
	s.maybeCompleteJoin(g)
}

// maybeCompleteJoin ends the join phase if all have joined, but not the delay of the very first one.
func (s *shard) maybeCompleteJoin(g *classicGroup) {
	if g.state == preparingRebalance && g.previous != empty && g.allJoined() {
		s.completeJoin(g)
	}
}

// prepareRebalance asks all members to join: by their next heartbeat, or by the answer they wait for.
func (s *shard) prepareRebalance(g *classicGroup, reason string) {
	if g.state == completingRebalance {
		s.resetAssignment(g, kerr.RebalanceInProgress)
	}
	clear(g.pendingSync)
	g.syncTimer.Stop()

	initial := g.state == empty
	if initial {
		// More members of a new group are likely to come: wait a little for them (KIP-134).
		delay := s.cfg.InitialRebalanceDelayMs
		remaining := max(g.rebalanceTimeoutMs()-delay, 0)
		g.joinTimer.Start(ms(delay), func() { s.initialDelayOver(g, delay, remaining) })
	}
	g.transition(preparingRebalance, s.nowMs())
	g.logger.Info("Preparing to rebalance group", "state", g.state.String(), "oldGeneration", g.generation, "reason", reason)
	if initial {
		return
	}
	if g.allJoined() {
		s.completeJoin(g)
		return
	}
	g.joinTimer.Start(ms(g.rebalanceTimeoutMs()), func() { s.completeJoin(g) })
}

// initialDelayOver extends the delay while members keep coming, up to the rebalance timeout.
func (s *shard) initialDelayOver(g *classicGroup, delay, remaining int32) {
	if !s.current(g) {
		return
	}
	if !g.newMemberAdded || remaining == 0 {
		s.completeJoin(g)
		return
	}
	g.newMemberAdded = false
	next := min(s.cfg.InitialRebalanceDelayMs, remaining)
	left := max(remaining-delay, 0)
	g.joinTimer.Start(ms(next), func() { s.initialDelayOver(g, next, left) })
}

// completeJoin begins the next generation with those who have joined. Dynamic members that have not are out.
func (s *shard) completeJoin(g *classicGroup) {
	g.joinTimer.Stop()
	if !s.current(g) || g.state != preparingRebalance {
		return
	}
	var absent []string
	for _, m := range slices.Clone(g.members) {
		if m.awaitJoin == nil && m.instanceID == nil {
			absent = append(absent, m.id)
			g.remove(m.id)
		}
	}
	if len(absent) > 0 {
		g.logger.Info("Group removed dynamic members who haven't joined", "members", strings.Join(absent, ","))
	}
	if !g.electJoinedLeader() && len(g.members) > 0 {
		// Only static members are left, and none is here: wait until their sessions end.
		g.logger.Error("Group could not complete rebalance because no members rejoined")
		g.joinTimer.Start(ms(g.rebalanceTimeoutMs()), func() { s.completeJoin(g) })
		return
	}
	g.nextGeneration(s.nowMs())
	if g.state == empty {
		g.logger.Info("Group is now empty", "generation", g.generation)
		// If this is lost the last generation comes back when the group is loaded, without members that could take
		// part in it: no harm.
		if _, err := s.rt.Append([]coordinator.Record{groupRecord(g, nil)}); err != nil {
			g.logger.Warn("Failed to write empty metadata for group", "error", err)
		}
		return
	}
	g.logger.Info("Stabilized group", "generation", g.generation, "members", len(g.members))
	for _, m := range g.members {
		g.answerJoin(m, s.joined(g, m))
		m.heartbeat.Reset(ms(m.sessionTimeoutMs))
		m.isNew = false
		g.pendingSync[m.id] = struct{}{}
	}
	generation := g.generation
	g.syncTimer.Start(ms(g.rebalanceTimeoutMs()), func() { s.expireSync(g, generation) })
}

// protocolError is the protocol error in err.
func protocolError(err error) *kerr.Error {
	var e *kerr.Error
	if errors.As(err, &e) {
		return e
	}
	return kerr.UnknownServerError
}
