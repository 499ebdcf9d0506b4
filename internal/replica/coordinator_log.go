package replica

import (
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// CoordinatorLog is a partition as a coordinator sees it.
type CoordinatorLog struct {
	p   *Partition
	log Log
}

// CoordinatorLog finds a partition that this node has. Errors: those of Partition, and KafkaStorageError.
func (m *Manager) CoordinatorLog(topic string, partition int32) (*CoordinatorLog, error) {
	p, err := m.Partition(TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return nil, err
	}
	log := p.Log()
	if log == nil {
		return nil, kerr.KafkaStorageError
	}
	return &CoordinatorLog{p, log}, nil
}

// StartOffset is where the log begins.
func (l *CoordinatorLog) StartOffset() int64 { return l.log.StartOffset() }

// EndOffset is where the log ends.
func (l *CoordinatorLog) EndOffset() int64 { return l.log.EndOffset() }

// HighWatermark is where the committed records end.
func (l *CoordinatorLog) HighWatermark() int64 { return l.log.HighWatermark() }

// Read returns whole batches from offset on, about maxBytes of them but at least one; empty at the end.
func (l *CoordinatorLog) Read(offset int64, maxBytes int) ([]byte, error) {
	end := l.log.EndOffset()
	if offset >= end {
		return nil, nil
	}
	s, err := l.log.Read(offset, maxBytes, true, end)
	if err != nil {
		return nil, diskError(err)
	}
	defer s.Release()
	b, err := s.Bytes()
	return b, diskError(err)
}

// AppendAsLeader appends one batch if this node leads the partition in leaderEpoch and enough replicas are in
// sync, and returns the offset of its last record. It does not wait for them.
func (l *CoordinatorLog) AppendAsLeader(leaderEpoch int32, batch record.Batch) (lastOffset int64, err error) {
	p := l.p
	lastOffset, err = func() (int64, error) {
		p.mu.RLock()
		defer p.mu.RUnlock()
		switch {
		case p.deleted || !p.leader || p.state.LeaderEpoch != leaderEpoch:
			return -1, kerr.NotLeaderOrFollower
		case len(p.state.ISR) < p.effectiveMinISR():
			return -1, kerr.NotEnoughReplicas
		}
		info, err := p.log.AppendAsLeader(batch, leaderEpoch, AppendOptions{Origin: FromCoordinator})
		if err != nil {
			return -1, diskError(err)
		}
		p.advance()
		return info.LastOffset, nil
	}()
	if err == nil {
		p.wake()
	}
	return lastOffset, err
}

// OnHighWatermark has fn called, from any goroutine and with no lock held, when the high watermark may have
// moved, until remove is called. fn may be called once more while remove runs.
func (l *CoordinatorLog) OnHighWatermark(fn func(highWatermark int64)) (remove func()) {
	return l.p.listen(fn)
}
