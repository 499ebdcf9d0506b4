package raft

import (
	"errors"

	"github.com/ottla-io/ottla/internal/env"
	"github.com/ottla-io/ottla/internal/record"
)

// memorySegments is a log in memory: the obvious second version of what storage does, for traces.
type memorySegments struct {
	start   int64
	batches []record.Batch
	synced  int // batches that a crash does not lose
	syncs   int
	writes  int
	fail    error // what Flush says
}

func (m *memorySegments) StartOffset() int64 { return m.start }

func (m *memorySegments) EndOffset() int64 {
	if n := len(m.batches); n > 0 {
		return m.batches[n-1].NextOffset()
	}
	return m.start
}

func (m *memorySegments) LatestEpoch() int32 {
	if n := len(m.batches); n > 0 {
		return m.batches[n-1].LeaderEpoch()
	}
	return -1
}

func (m *memorySegments) EndOffsetForEpoch(epoch int32) (int32, int64) {
	found, end := int32(-1), int64(-1)
	for _, b := range m.batches {
		if b.LeaderEpoch() <= epoch {
			found, end = b.LeaderEpoch(), b.NextOffset()
		}
	}
	return found, end
}

func (m *memorySegments) AppendAsLeader(b []byte, _ int32) error { return m.AppendAsFollower(b) }

func (m *memorySegments) AppendAsFollower(b []byte) error {
	m.writes++
	b = append([]byte(nil), b...)
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err != nil {
			return err
		}
		if batch.BaseOffset() != m.EndOffset() {
			return errors.New("offset out of order")
		}
		m.batches, b = append(m.batches, batch), rest
	}
	return nil
}

func (m *memorySegments) Flush() error {
	if m.fail != nil {
		return m.fail
	}
	m.syncs++
	m.synced = len(m.batches)
	return nil
}

// crash loses what was not synced.
func (m *memorySegments) crash() { m.batches = m.batches[:m.synced] }

func (m *memorySegments) Read(offset int64, maxBytes int) (Region, error) {
	var out []byte
	for _, b := range m.batches {
		if b.LastOffset() >= offset && (len(out) == 0 || len(out)+len(b) <= maxBytes) {
			out = append(out, b...)
		}
	}
	return Region{Part: env.Part{Bytes: out}, Release: func() {}}, nil
}

func (m *memorySegments) TruncateTo(offset int64) error {
	for len(m.batches) > 0 && m.EndOffset() > offset {
		m.batches = m.batches[:len(m.batches)-1]
	}
	m.synced = len(m.batches)
	return nil
}

func (m *memorySegments) TruncateFullyAndStartAt(offset int64) error {
	m.batches, m.synced, m.start = nil, 0, offset
	return nil
}

func (m *memorySegments) AdvanceStart(offset int64) error {
	for len(m.batches) > 0 && m.batches[0].LastOffset() < offset {
		m.batches = m.batches[1:]
		m.synced--
	}
	m.start = offset
	return nil
}

func (m *memorySegments) Size() int64 {
	n := 0
	for _, b := range m.batches {
		n += len(b)
	}
	return int64(n)
}

func (m *memorySegments) Close() error { return nil }
