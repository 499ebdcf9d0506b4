package raft

import (
	"fmt"
	"sync"

	"github.com/ottla-io/ottla/internal/metadata"
	"github.com/ottla-io/ottla/internal/protocol"
	"github.com/ottla-io/ottla/internal/record"
)

// accumulator gives records their offsets before they are written. It is open while this node leads. What is prepared
// while the quorum syncs an earlier batch shares the next one: that is all the lingering there is.
type accumulator struct {
	mu        sync.Mutex
	maxBytes  int
	open      bool
	epoch     int32
	next      int64 // offset of the next record
	batches   []preparedBatch
	spare     []*record.Builder
	scheduled bool
	upgraded  bool   // kraft.version was raised in this epoch
	values    []byte // scratch
	ends      []int
}

// preparedBatch is a batch of one or several atomic results, or one of control records.
type preparedBatch struct {
	builder *record.Builder
	time    int64
	batch   Batch
	control bool
}

func newAccumulator(maxBytes int) *accumulator { return &accumulator{maxBytes: maxBytes} }

func (a *accumulator) begin(epoch int32, next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open, a.epoch, a.next, a.scheduled, a.upgraded = true, epoch, next, false, false
	a.batches = nil
}

// close drops what was not written.
func (a *accumulator) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open, a.scheduled = false, false
	a.batches = nil
}

func (a *accumulator) prepare(epoch int32, records []metadata.Versioned, now int64) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.open || epoch > a.epoch:
		return 0, ErrNotLeader
	case epoch < a.epoch:
		return 0, ErrEpochFenced
	case len(records) == 0:
		return a.next - 1, nil
	}
	a.values, a.ends = a.values[:0], a.ends[:0]
	size := record.BatchHeaderSize
	for i, v := range records {
		from := len(a.values)
		var err error
		if a.values, err = metadata.AppendRecord(a.values, v.Record, v.Version); err != nil {
			return 0, fmt.Errorf("prepare append: %w", err)
		}
		a.ends = append(a.ends, len(a.values))
		size += record.RecordSize(int32(i), 0, nil, a.values[from:], nil)
	}
	if size > a.maxBytes {
		return 0, fmt.Errorf("prepare append of %d bytes: %w", size, ErrBatchTooLarge)
	}
	p := a.batchFor(size-record.BatchHeaderSize+2*len(records), now)
	from := 0
	for _, end := range a.ends {
		p.builder.Append(p.time, nil, a.values[from:end])
		from = end
	}
	a.next += int64(len(records))
	p.batch.LastOffset = a.next - 1
	p.batch.Records = append(p.batch.Records, records...)
	return a.next - 1, nil
}

// batchFor returns the batch that so many bytes of records go to.
func (a *accumulator) batchFor(bytes int, now int64) *preparedBatch {
	if n := len(a.batches); n > 0 && !a.batches[n-1].control && a.batches[n-1].builder.Size()+bytes <= a.maxBytes {
		return &a.batches[n-1]
	}
	return a.newBatch(now)
}

func (a *accumulator) newBatch(now int64) *preparedBatch {
	var b *record.Builder
	if n := len(a.spare); n > 0 {
		b, a.spare = a.spare[n-1], a.spare[:n-1]
		b.Reset(a.next, record.None)
	} else {
		b = record.NewBuilder(a.next, record.None)
	}
	b.SetLeaderEpoch(a.epoch)
	a.batches = append(a.batches, preparedBatch{b, now, Batch{BaseOffset: a.next, Epoch: a.epoch, AppendTime: now}, false})
	return &a.batches[len(a.batches)-1]
}

// prepareControl gives control records the next offsets, in a batch of their own, and returns the last one.
func (a *accumulator) prepareControl(epoch int32, now int64, messages ...protocol.Message) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.open || epoch > a.epoch:
		return 0, ErrNotLeader
	case epoch < a.epoch:
		return 0, ErrEpochFenced
	}
	p := a.newBatch(now)
	p.control = true
	for _, m := range messages {
		if err := appendControl(p.builder, now, m); err != nil {
			panic(fmt.Sprintf("raft: encode %T: %v", m, err))
		}
	}
	a.next += int64(len(messages))
	p.batch.LastOffset = a.next - 1
	return p.batch.LastOffset, nil
}

// schedule reports whether an event must be posted.
func (a *accumulator) schedule() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.scheduled || len(a.batches) == 0 {
		return false
	}
	a.scheduled = true
	return true
}

func (a *accumulator) drain() []preparedBatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.batches
	a.batches, a.scheduled = nil, false
	return out
}

// recycle gives builders back whose bytes nobody needs any more.
func (a *accumulator) recycle(done []preparedBatch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range done {
		if len(a.spare) < 2 && p.builder.Size() < 1<<20 {
			a.spare = append(a.spare, p.builder)
		}
	}
}

type appendScheduled struct{}

func (appendScheduled) event() string { return "append" }

// onAppendScheduled writes what was prepared, with one sync for all of it, and counts it.
func (q *Quorum) onAppendScheduled() {
	l, ok := q.state.(*leader)
	if !ok {
		return // what was prepared went with the leadership
	}
	batches := q.prepare.drain()
	if len(batches) == 0 {
		return
	}
	for i := range batches {
		p := &batches[i]
		b, err := p.builder.Build()
		if err == nil {
			p.batch.Bytes = len(b)
			if end := q.disk.EndOffset(); b.BaseOffset() != end {
				panic(fmt.Sprintf("raft: append of offsets from %d at the end %d of the log", b.BaseOffset(), end))
			}
			err = q.disk.AppendAsLeader(b, q.election.Epoch)
		}
		if err == nil && p.control {
			err = q.noteControls(b)
			q.votersChanged()
		}
		if err != nil {
			q.fault(fmt.Errorf("append to metadata log at offset %d: %w", p.batch.BaseOffset, err))
			return
		}
		q.tail = append(q.tail, p.batch)
	}
	q.prepare.recycle(batches)
	q.syncLeaderLog(l)
}

// syncLeaderLog makes what was appended durable; only then it counts.
func (q *Quorum) syncLeaderLog(l *leader) {
	if err := q.disk.Flush(); err != nil {
		q.fault(fmt.Errorf("sync metadata log: %w", err))
		return
	}
	l.durable = q.disk.EndOffset()
	q.updateLocalReplica(l)
	q.wakeFetches(false)
}
