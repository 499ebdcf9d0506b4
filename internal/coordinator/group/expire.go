package group

import (
	"github.com/ottla-io/ottla/internal/coordinator"
)

// expireOffsets removes offsets whose retention has passed, and empty groups that then have none (KIP-211). It runs
// every offsets.retention.check.interval.ms.
func (s *shard) expireOffsets() {
	s.cleanup.Reset(s.cfg.RetentionCheckInterval)
	started := s.nowMs()
	var records []coordinator.Record
	for _, g := range s.sorted() {
		expired, all := s.expiredOffsets(g, started)
		records = append(records, expired...)
		if all && g.isEmpty() && len(s.offsets.open[g.groupID()]) == 0 {
			records = append(records, groupTombstones(g)...)
		}
	}
	s.rt.Logger().Info("Generated tombstone records while cleaning up group metadata", "records", len(records), "ms", s.nowMs()-started)
	if len(records) > 0 {
		s.rt.Write(records, func(err error) {
			if err != nil {
				s.rt.Logger().Warn("Failed to write tombstones of expired offsets", "error", err)
			}
		})
	}
}

// expiredOffsets are the tombstones for a group's expired offsets; all: nothing is left after them.
func (s *shard) expiredOffsets(g anyGroup, nowMs int64) (tombstones []coordinator.Record, all bool) {
	offsets := s.offsets.committed[g.groupID()]
	if len(offsets) == 0 {
		return nil, true
	}
	since, may := retentionStart(g)
	if !may {
		return nil, false
	}
	all = true
	for tp, o := range offsets.all() {
		expired := nowMs-since(o) >= s.cfg.OffsetsRetention.Milliseconds()
		if o.expireTimeMs >= 0 {
			expired = nowMs >= o.expireTimeMs
		}
		if !expired || g.subscribedTo(tp.topic) || s.offsets.hasPending(g.groupID(), tp.topic, tp.partition) {
			all = false
			continue
		}
		tombstones = append(tombstones, offsetTombstone(g.groupID(), tp.topic, tp.partition))
	}
	return tombstones, all
}

// retentionStart says from when on the retention of an offset counts: while a group is empty, from the time when it
// became so; else from the commit. may is false for groups of which it is not known what they use.
func retentionStart(g anyGroup) (since func(offset) int64, may bool) {
	fromCommit := func(o offset) int64 { return o.commitTimeMs }
	c, ok := g.(*classicGroup)
	switch {
	case !ok || c.protocolType == nil: // modern groups, and simple ones
		return fromCommit, true
	case c.state == empty && c.stateTimeMs >= 0:
		return func(offset) int64 { return c.stateTimeMs }, true
	case c.state == empty:
		return fromCommit, true
	case c.state == stable && c.subscribed != nil:
		return fromCommit, true
	}
	return nil, false
}

// groupTombstones deletes a group.
func groupTombstones(g anyGroup) []coordinator.Record {
	if m, ok := g.(*modernGroup); ok {
		return m.tombstones()
	}
	return []coordinator.Record{{Key: groupKey(g.groupID())}}
}
