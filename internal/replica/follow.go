package replica

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// errNotFollowing: the partition is not what the fetcher took it for any more. It will be told.
var errNotFollowing = errors.New("the partition does not follow in this leader epoch")

// position is where a follower goes on fetching.
type position struct {
	offset   int64
	epoch    int32 // of the record before offset, -1 if there is none
	logStart int64
}

// follow runs fn with the log, if this node follows in the given leader epoch. Only one fetcher at a time does.
func (p *Partition) follow(leaderEpoch int32, fn func(log Log) error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.deleted || p.leader || p.log == nil || p.state.LeaderEpoch != leaderEpoch {
		return errNotFollowing
	}
	return fn(p.log)
}

// position says where the log ends. One without any epoch is cut to its high watermark: nothing else tells which of its records the
// leader has.
func (p *Partition) position(leaderEpoch int32) (at position, err error) {
	err = p.follow(leaderEpoch, func(log Log) error {
		if log.LatestEpoch() < 0 && log.EndOffset() > log.HighWatermark() {
			if err := log.TruncateTo(log.HighWatermark()); err != nil {
				return err
			}
		}
		at = position{log.EndOffset(), log.LatestEpoch(), log.StartOffset()}
		return nil
	})
	return at, err
}

// take appends what the leader answered to a fetch at an offset, and moves the high watermark and the start of the log after the leader's.
func (p *Partition) take(leaderEpoch int32, offset int64, d *protocol.FetchResponsePartitionData) error {
	err := p.follow(leaderEpoch, func(log Log) error {
		if end := log.EndOffset(); end != offset {
			return fmt.Errorf("records from offset %d fetched for %s, which ends at %d", offset, p.Name(), end)
		}
		if b := wholeBatches(d.Records, leaderEpoch); len(b) > 0 {
			if err := log.AppendAsFollower(b); err != nil {
				return err
			}
		}
		if high := min(d.HighWatermark, log.EndOffset()); high > log.HighWatermark() {
			log.SetHighWatermark(high)
			p.m.highMoved()
		}
		if start := min(d.LogStartOffset, log.HighWatermark()); start > log.StartOffset() {
			return log.AdvanceStart(start)
		}
		return nil
	})
	if err == nil {
		p.wake()
	}
	return err
}

// wholeBatches cuts off a batch of which there is only a part, since a leader may fill an answer to the last byte, and what is of a later epoch
// than the one that was asked for: whether it follows on what is here the leader has not checked.
func wholeBatches(b []byte, leaderEpoch int32) []byte {
	n := 0
	for rest := b; len(rest) > 0; {
		batch, next, err := record.Next(rest)
		if errors.Is(err, record.ErrShort) || err == nil && batch.LeaderEpoch() > leaderEpoch {
			return b[:n]
		}
		if err != nil {
			return b // the append names what is wrong
		}
		n += len(batch)
		rest = next
	}
	return b
}

// diverged cuts off what the leader does not have: it knows an epoch, at most as large as the follower's, and where that ended.
func (p *Partition) diverged(leaderEpoch int32, epoch int32, end int64) error {
	return p.follow(leaderEpoch, func(log Log) error {
		to := end
		if _, ours := log.EndOffsetForEpoch(epoch); ours >= 0 {
			to = min(to, ours)
		}
		to = min(to, log.EndOffset())
		if high := log.HighWatermark(); to < high {
			p.m.env.Logger().Warn(fmt.Sprintf("Truncating %s to offset %d below high watermark %d", p.Name(), to, high))
		}
		return log.TruncateTo(to)
	})
}

// outOfRange takes where the leader's log lies. A log that is longer than the leader's is cut; one that ends before the leader's begins starts
// anew there.
func (p *Partition) outOfRange(leaderEpoch int32, leaderStart, leaderEnd int64) error {
	return p.follow(leaderEpoch, func(log Log) error {
		switch end := log.EndOffset(); {
		case leaderEnd < end:
			p.m.env.Logger().Warn(fmt.Sprintf("Reset fetch offset for partition %s from %d to current leader's latest offset %d", p.Name(), end, leaderEnd))
			return log.TruncateTo(leaderEnd)
		case leaderStart > end:
			p.m.env.Logger().Warn(fmt.Sprintf("Reset fetch offset for partition %s from %d to current leader's start offset %d", p.Name(), end, leaderStart))
			return log.TruncateFullyAndStartAt(leaderStart)
		}
		return nil
	})
}
