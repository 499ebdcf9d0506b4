package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/ottla-io/ottla/internal/record"
)

// The file of a producer snapshot: version, CRC-32C of what follows it, count, entries.
const (
	producerSnapshotVersion = 1
	producerSnapshotHeader  = 2 + 4 + 4
	producerSnapshotEntry   = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errBadSnapshot = errors.New("the producer snapshot is damaged")

// encodeSnapshot writes the state as the file <offset>.snapshot has it: of each producer the last batch.
func (p *producers) encodeSnapshot() []byte {
	entries := make([]*producerEntry, 0, len(p.entries))
	for _, e := range p.entries {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *producerEntry) int { return cmp.Compare(a.id, b.id) })
	b := make([]byte, producerSnapshotHeader, producerSnapshotHeader+len(entries)*producerSnapshotEntry)
	binary.BigEndian.PutUint16(b, producerSnapshotVersion)
	binary.BigEndian.PutUint32(b[6:], uint32(len(entries)))
	for _, e := range entries {
		last := producedBatch{lastSequence: record.NoSequence, lastOffset: -1}
		if e.kept > 0 {
			last = e.batches[e.kept-1]
		}
		b = binary.BigEndian.AppendUint64(b, uint64(e.id))
		b = binary.BigEndian.AppendUint16(b, uint16(e.epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(last.lastSequence))
		b = binary.BigEndian.AppendUint64(b, uint64(last.lastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(last.offsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(e.lastTimestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(e.coordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.txnStart))
	}
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

// loadSnapshot replaces the state by what a snapshot says, without producers that have expired.
func (p *producers) loadSnapshot(b []byte, nowMs int64) error {
	p.reset()
	if len(b) < producerSnapshotHeader || binary.BigEndian.Uint16(b) != producerSnapshotVersion ||
		binary.BigEndian.Uint32(b[2:]) != crc32.Checksum(b[6:], castagnoli) {
		return errBadSnapshot
	}
	count := int(binary.BigEndian.Uint32(b[6:]))
	b = b[producerSnapshotHeader:]
	if len(b) != count*producerSnapshotEntry {
		return errBadSnapshot
	}
	p.entries = make(map[int64]*producerEntry, count)
	for ; len(b) > 0; b = b[producerSnapshotEntry:] {
		if e := parseSnapshotEntry(b); !p.expired(e, nowMs) {
			p.entries[e.id] = e
			if e.txnStart >= 0 {
				p.open = append(p.open, e.txnStart)
			}
		}
	}
	slices.Sort(p.open)
	return nil
}

func parseSnapshotEntry(b []byte) *producerEntry {
	e := &producerEntry{
		id:               int64(binary.BigEndian.Uint64(b)),
		epoch:            int16(binary.BigEndian.Uint16(b[8:])),
		lastTimestamp:    int64(binary.BigEndian.Uint64(b[26:])),
		coordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
		txnStart:         max(-1, int64(binary.BigEndian.Uint64(b[38:]))),
	}
	last := producedBatch{
		lastSequence: int32(binary.BigEndian.Uint32(b[10:])),
		lastOffset:   int64(binary.BigEndian.Uint64(b[14:])),
		offsetDelta:  max(0, int32(binary.BigEndian.Uint32(b[22:]))),
		timestamp:    e.lastTimestamp,
	}
	if last.lastOffset >= 0 {
		e.add(last)
	}
	return e
}
