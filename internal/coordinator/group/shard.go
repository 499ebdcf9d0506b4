package group

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/protocol"
)

// runtime is what a shard's state needs of coordinator.Shard.
type runtime interface {
	Now() time.Time
	Logger() *slog.Logger
	NewTimer(name string, fn func()) *coordinator.Timer
	NewMemberID(prefix string) string
	Append(records []coordinator.Record) (first int64, err error)
	Write(records []coordinator.Record, done func(error))
	WhenCommitted(done func(error))
}

// shard is all groups of one partition. Its methods are events on the partition's queue.
type shard struct {
	cfg     *Config
	topics  Topics
	rt      runtime
	groups  map[string]anyGroup
	offsets offsets
	cleanup *coordinator.Timer
}

func newShard(cfg *Config, topics Topics, rt runtime) *shard {
	s := &shard{cfg: cfg, topics: topics, rt: rt, groups: make(map[string]anyGroup), offsets: newOffsets()}
	s.cleanup = rt.NewTimer("expire group metadata", s.expireOffsets)
	return s
}

func (s *shard) nowMs() int64 { return s.rt.Now().UnixMilli() }

// Replay, ReplayEndTxn, Loaded, Unloaded: coordinator.State.

func (s *shard) Replay(offset, producerID int64, _ int16, key, value []byte) error {
	return s.replay(offset, producerID, key, value)
}

func (s *shard) ReplayEndTxn(producerID int64, _ int16, commit bool) error {
	s.offsets.replayEnd(producerID, commit)
	return nil
}

// Loaded gives every member of the loaded groups one session timeout to be heard of.
func (s *shard) Loaded() {
	for _, g := range s.sorted() {
		switch g := g.(type) {
		case *classicGroup:
			s.rt.Logger().Info("Loaded classic group", "group", g.id, "members", len(g.members))
			for _, m := range g.members {
				m.heartbeat.Reset(ms(m.sessionTimeoutMs))
			}
			if len(g.members) > int(s.cfg.MaxSize) {
				s.prepareRebalance(g, fmt.Sprintf("Freshly-loaded group %s (size %d) is over capacity %d. "+
					"Rebalancing in order to give a chance for consumers to commit offsets", g.id, len(g.members), s.cfg.MaxSize))
			}
		case *modernGroup:
			s.rt.Logger().Info("Loaded "+g.kind.String()+" group", "group", g.id, "members", g.memberCount())
			if !g.isEmpty() {
				g.expiry = s.rt.NewTimer("session of a "+g.kind.String()+" group", func() { s.expireModern(g) })
				g.expiry.Reset(s.cfg.ConsumerSessionTimeout)
			}
		}
	}
	s.cleanup.Reset(s.cfg.RetentionCheckInterval)
}

// Unloaded tells everybody who waits for a rebalance to look for the new coordinator.
func (s *shard) Unloaded() {
	for _, g := range s.sorted() {
		g, ok := g.(*classicGroup)
		if !ok {
			continue
		}
		g.logger.Info("Unloading group metadata", "generation", g.generation)
		s.stopTimers(g)
		g.transition(dead, s.nowMs())
		for _, m := range g.members {
			g.answerJoin(m, joinError(m.id, kerr.NotCoordinator))
			g.answerSync(m, syncError(kerr.NotCoordinator))
		}
	}
	s.cleanup.Stop()
}

// sorted is all groups by id.
func (s *shard) sorted() []anyGroup {
	all := make([]anyGroup, 0, len(s.groups))
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		all = append(all, s.groups[id])
	}
	return all
}

// newClassic makes an empty group that is not known yet.
func (s *shard) newClassic(id string) *classicGroup {
	g := newClassicGroup(id, s.rt.Logger())
	g.joinTimer = s.rt.NewTimer("join of group "+id, func() {})
	g.syncTimer = s.rt.NewTimer("sync of group "+id, func() {})
	return g
}

// current says whether g still is the group of its id.
func (s *shard) current(g *classicGroup) bool { return s.groups[g.id] == anyGroup(g) }

func (s *shard) stopTimers(g *classicGroup) {
	g.joinTimer.Stop()
	g.syncTimer.Stop()
	for _, m := range g.members {
		m.heartbeat.Stop()
	}
	for _, t := range g.pendingJoin {
		t.Stop()
	}
}

// expireModern removes members that cannot be heard of: a node that offers their protocol wrote them, this one does
// not, and as long as they are there nobody else may join.
func (s *shard) expireModern(g *modernGroup) {
	if s.groups[g.id] != anyGroup(g) || g.isEmpty() {
		return
	}
	s.rt.Logger().Info("Members of the group have not been heard of within the session timeout, removing them",
		"group", g.id, "members", g.memberCount())
	var records []coordinator.Record
	for _, r := range g.tombstones() {
		if memberOf(g.keys[string(r.Key)]) {
			records = append(records, r)
		}
	}
	s.rt.Write(records, func(error) {})
}

func ms(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

func joinError(memberID string, e *kerr.Error) *protocol.JoinGroupResponse {
	resp := protocol.NewJoinGroupResponse()
	resp.MemberId, resp.ErrorCode, resp.ProtocolName = memberID, e.Code, nil
	return resp
}

func syncError(e *kerr.Error) *protocol.SyncGroupResponse {
	resp := protocol.NewSyncGroupResponse()
	resp.ErrorCode = e.Code
	return resp
}
