// Package memlog is a partition in memory, for tests of coordinators: it commits when it is told to, and fails when it
// is told to.
//
// Called by tests, from any goroutine. Never used by a node.
package memlog

import (
	"fmt"
	"slices"
	"sync"

	"github.com/ottla-io/ottla/internal/coordinator"
	"github.com/ottla-io/ottla/internal/kerr"
	"github.com/ottla-io/ottla/internal/record"
)

// Logs is the partitions of one topic. The zero value is empty; a partition begins when it is asked for.
type Logs struct {
	mu   sync.Mutex
	logs map[int32]*Log
}

// CoordinatorLog finds a partition.
func (l *Logs) CoordinatorLog(_ string, partition int32) (coordinator.Log, error) {
	return l.Partition(partition), nil
}

// Partition finds a partition.
func (l *Logs) Partition(partition int32) *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logs == nil {
		l.logs = make(map[int32]*Log)
	}
	if l.logs[partition] == nil {
		l.logs[partition] = &Log{}
	}
	return l.logs[partition]
}

// Log is one partition. The zero value is empty and commits at once.
type Log struct {
	mu       sync.Mutex
	batches  []record.Batch
	end      int64
	high     int64
	hold     bool
	refusal  error
	watchers map[int]func(int64)
	nextID   int
}

// StartOffset is 0.
func (l *Log) StartOffset() int64 { return 0 }

// EndOffset is where the next batch goes.
func (l *Log) EndOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// HighWatermark is where what is committed ends.
func (l *Log) HighWatermark() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.high
}

// Read returns whole batches.
func (l *Log) Read(offset int64, maxBytes int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b []byte
	for _, batch := range l.batches {
		if batch.LastOffset() < offset {
			continue
		}
		if len(b) > 0 && len(b)+len(batch) > maxBytes {
			break
		}
		b = append(b, batch...)
	}
	return b, nil
}

// AppendAsLeader appends a copy of batch.
func (l *Log) AppendAsLeader(leaderEpoch int32, batch record.Batch) (int64, error) {
	l.mu.Lock()
	if l.refusal != nil {
		defer l.mu.Unlock()
		return 0, l.refusal
	}
	batch = slices.Clone(batch)
	batch.SetBaseOffset(l.end)
	batch.SetLeaderEpoch(leaderEpoch)
	l.batches = append(l.batches, batch)
	l.end = batch.NextOffset()
	last := l.end - 1
	hold := l.hold
	l.mu.Unlock()
	if !hold {
		l.Commit()
	}
	return last, nil
}

// OnHighWatermark registers fn.
func (l *Log) OnHighWatermark(fn func(int64)) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watchers == nil {
		l.watchers = make(map[int]func(int64))
	}
	id := l.nextID
	l.nextID++
	l.watchers[id] = fn
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, id)
	}
}

// Hold has appends wait for Commit.
func (l *Log) Hold() { l.mu.Lock(); l.hold = true; l.mu.Unlock() }

// Refuse has appends fail with err, or succeed again if it is nil.
func (l *Log) Refuse(err error) { l.mu.Lock(); l.refusal = err; l.mu.Unlock() }

// Commit moves the high watermark to the end, and lets later appends commit at once.
func (l *Log) Commit() {
	l.mu.Lock()
	l.hold = false
	l.high = l.end
	high := l.high
	ids := make([]int, 0, len(l.watchers))
	for id := range l.watchers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	fns := make([]func(int64), 0, len(ids))
	for _, id := range ids {
		fns = append(fns, l.watchers[id])
	}
	l.mu.Unlock()
	for _, fn := range fns {
		fn(high)
	}
}

// Load fills an empty log with the batches of a segment file.
func (l *Log) Load(segment []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(segment) > 0 {
		batch, rest, err := record.Next(segment)
		if err != nil {
			return fmt.Errorf("load batch after offset %d: %w", l.end, err)
		}
		l.batches = append(l.batches, batch)
		l.end, l.high = batch.NextOffset(), batch.NextOffset()
		segment = rest
	}
	return nil
}

// Batches is what was appended.
func (l *Log) Batches() []record.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.batches)
}

// NotLeader is the refusal of a deposed leader.
var NotLeader error = kerr.NotLeaderOrFollower

// Forget drops the batches but keeps the offsets, for benchmarks.
func (l *Log) Forget() { l.mu.Lock(); l.batches = nil; l.mu.Unlock() }

// Lose drops what is not committed, as a leader that did not have it does, and says whether there was any.
func (l *Log) Lose() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.end > l.high
	for len(l.batches) > 0 && l.batches[len(l.batches)-1].BaseOffset() >= l.high {
		l.batches = l.batches[:len(l.batches)-1]
	}
	l.end = l.high
	return lost
}
