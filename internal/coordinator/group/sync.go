package group

import (
	"slices"
	"strings"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// syncRequest is a SyncGroup as the state needs it; the bytes are its own.
type syncRequest struct {
	groupID, memberID      string
	instanceID             *string
	generation             int32
	protocolType, protocol *string
	assignments            map[string][]byte // from the leader, by member id
}

// sync is SyncGroup: the leader brings the assignment, everybody gets theirs when it is committed.
func (s *shard) sync(r *syncRequest, answer func(*protocol.SyncGroupResponse)) {
	g, ok := s.groups[r.groupID].(*classicGroup)
	if !ok || g.isEmpty() {
		answer(syncError(kerr.UnknownMemberId))
		return
	}
	if err := s.validateSync(g, r); err != nil {
		answer(syncError(protocolError(err)))
		return
	}
	m := g.byID[r.memberID]
	switch g.state {
	case preparingRebalance:
		answer(syncError(kerr.RebalanceInProgress))
	case completingRebalance:
		g.answerSync(m, syncError(kerr.RebalanceInProgress)) // an earlier request whose client has given up
		m.awaitSync = answer
		s.synced(g, m)
		if g.isLeader(m.id) {
			s.storeAssignment(g, r)
		}
	case stable:
		s.synced(g, m)
		answer(assigned(g, m))
	default: // it would not have members
		answer(syncError(kerr.UnknownMemberId))
	}
}

func (s *shard) validateSync(g *classicGroup, r *syncRequest) error {
	if err := g.validate(r.memberID, r.instanceID, "sync-group"); err != nil {
		return err
	}
	if r.generation != g.generation {
		return kerr.IllegalGeneration
	}
	differs := func(a, b *string) bool { return a != nil && b != nil && *a != *b }
	if differs(r.protocolType, g.protocolType) || differs(r.protocol, g.protocol) {
		return kerr.InconsistentGroupProtocol
	}
	return nil
}

// synced notes that a member has sent its SyncGroup.
func (s *shard) synced(g *classicGroup, m *member) {
	delete(g.pendingSync, m.id)
	if len(g.pendingSync) == 0 {
		g.syncTimer.Stop()
	}
}

func assigned(g *classicGroup, m *member) *protocol.SyncGroupResponse {
	resp := protocol.NewSyncGroupResponse()
	resp.ProtocolType, resp.ProtocolName, resp.Assignment = g.protocolType, g.protocol, m.assignment
	return resp
}

// storeAssignment writes the leader's assignment; it counts when it is committed.
func (s *shard) storeAssignment(g *classicGroup, r *syncRequest) {
	g.logger.Info("Assignment received from leader", "leader", r.memberID, "generation", g.generation,
		"members", len(g.members), "static", len(g.static))
	assignments := make(map[string][]byte, len(g.members))
	var missing []string
	for _, m := range g.members {
		a, ok := r.assignments[m.id]
		if !ok {
			missing = append(missing, m.id)
		}
		assignments[m.id] = a
	}
	if len(missing) > 0 {
		g.logger.Warn("Setting empty assignments for members", "members", strings.Join(missing, ","), "generation", g.generation)
	}
	stored := func(err error) {
		// Somebody may have joined or left while this was on its way: then this generation is over, and whoever
		// waited for it has been told.
		if !s.current(g) || g.state != completingRebalance || g.generation != r.generation {
			return
		}
		if err != nil {
			e := protocolError(err)
			s.resetAssignment(g, e)
			s.prepareOrCompleteJoin(g, "Error "+e.Name+" when storing group assignment during SyncGroup (member: "+r.memberID+").")
			return
		}
		for _, m := range g.members {
			m.assignment = assignments[m.id]
		}
		s.propagate(g, nil)
		g.transition(stable, s.nowMs())
	}
	if _, err := s.rt.Append([]coordinator.Record{groupRecord(g, assignments)}); err != nil {
		stored(err)
		return
	}
	s.rt.WhenCommitted(stored)
}

// resetAssignment forgets the assignments of a generation that will not be, and tells those who wait for them.
func (s *shard) resetAssignment(g *classicGroup, e *kerr.Error) {
	for _, m := range g.members {
		m.assignment = nil
	}
	s.propagate(g, e)
}

// propagate answers all waiting SyncGroups. Their sessions begin anew: while they waited no heartbeat was expected.
func (s *shard) propagate(g *classicGroup, e *kerr.Error) {
	for _, m := range g.members {
		resp := assigned(g, m)
		if e != nil {
			resp = syncError(e)
		} else if len(m.assignment) == 0 {
			g.logger.Warn("Sending empty assignment to member with no errors", "memberId", m.id, "generation", g.generation)
		}
		if g.answerSync(m, resp) {
			m.heartbeat.Reset(ms(m.sessionTimeoutMs))
		}
	}
}

// expireSync removes members that joined a generation but never came for their assignment.
func (s *shard) expireSync(g *classicGroup, generation int32) {
	if !s.current(g) || g.generation != generation || len(g.pendingSync) == 0 ||
		g.state != completingRebalance && g.state != stable {
		return
	}
	var gone []string
	for _, m := range slices.Clone(g.members) {
		if _, pending := g.pendingSync[m.id]; pending {
			gone = append(gone, m.id)
			g.remove(m.id)
		}
	}
	list := strings.Join(gone, ",")
	g.logger.Info("Group removed members who haven't sent their sync requests", "members", list)
	s.prepareRebalance(g, "Removing ["+list+"] on pending sync request expiration")
}
