package replica

import (
	"github.com/ottla-io/ottla/internal/kerr"
)

// Timestamps of ListOffsets that stand for a position.
const (
	LatestTimestamp                int64 = -1
	EarliestTimestamp              int64 = -2
	MaxTimestamp                   int64 = -3 // KIP-734
	EarliestLocalTimestamp         int64 = -4 // KIP-405
	LatestTieredTimestamp          int64 = -5 // KIP-1005
	EarliestPendingUploadTimestamp int64 = -6 // KIP-1023
)

// OffsetQuery asks for an offset by time or position.
type OffsetQuery struct {
	Timestamp          int64
	CurrentLeaderEpoch int32 // -1: not stated
	Client             bool  // sees nothing above the high watermark or, with ReadCommitted, the last stable offset
	ReadCommitted      bool
	AnyReplica         bool // a follower may answer (debugging)
}

// noOffset is the answer if there is no such record.
var noOffset = TimestampOffset{Timestamp: -1, Offset: -1, LeaderEpoch: -1}

// FindOffset answers an OffsetQuery; offset -1 if there is no such record. Errors: those of the leader epoch;
// OffsetNotAvailable as long as the high watermark of a new leader is behind the start of its epoch.
func (p *Partition) FindOffset(q OffsetQuery) (TimestampOffset, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	log, err := p.readable(q.CurrentLeaderEpoch, !q.AnyReplica)
	if err != nil {
		return noOffset, err
	}
	end := log.EndOffset()
	if q.Client {
		if end = log.HighWatermark(); q.ReadCommitted {
			end = log.LastStableOffset()
		}
	}
	var behind error
	if q.Client && p.leader && p.epochStart > log.HighWatermark() {
		behind = kerr.OffsetNotAvailable
	}
	found, ok := noOffset, false
	switch q.Timestamp {
	case LatestTimestamp:
		return TimestampOffset{Timestamp: -1, Offset: end, LeaderEpoch: p.state.LeaderEpoch}, behind
	case EarliestTimestamp, EarliestLocalTimestamp:
		start := log.StartOffset()
		return TimestampOffset{Timestamp: -1, Offset: start, LeaderEpoch: log.EpochAt(start)}, nil
	case LatestTieredTimestamp, EarliestPendingUploadTimestamp:
		return noOffset, nil // nothing is tiered
	case MaxTimestamp:
		found, ok, err = log.MaxTimestamp()
	default:
		found, ok, err = log.OffsetForTimestamp(q.Timestamp)
	}
	switch {
	case err != nil:
		return noOffset, diskError(err)
	case ok && found.Offset < end:
		return found, nil
	}
	return noOffset, behind
}

// EndOfEpoch gives the largest leader epoch up to epoch that the leader knows, and where it ended; -1, -1 if there
// is none (KIP-101, KIP-320).
func (p *Partition) EndOfEpoch(currentLeaderEpoch, epoch int32) (int32, int64, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	log, err := p.readable(currentLeaderEpoch, true)
	if err != nil {
		return -1, -1, err
	}
	e, end := log.EndOffsetForEpoch(epoch)
	return e, end, nil
}

// Producers describes the idempotent producers of the partition; any replica may.
func (p *Partition) Producers() ([]Producer, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	log, err := p.readable(-1, false)
	if err != nil {
		return nil, err
	}
	return log.Producers(), nil
}
