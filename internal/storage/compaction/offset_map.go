package compaction

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// bytesPerSlot is what one key takes: 16 bytes of its hash, and the offset. Kafka's map needs as much, so log.cleaner.dedupe.buffer.size
// says of both how many keys they take.
const bytesPerSlot = 24

// OffsetMap knows the last offset of each key of a part of a log. It holds hashes in place of keys: 128 bits of SHA-256, so that
// nobody can make two keys that count as one.
type OffsetMap struct {
	table  []slot
	slots  int // as many as the memory has room for; the table may be smaller
	bound  int // of the keys
	keys   int
	latest int64
}

// slot is a key's hash and the offset behind its record; 0 marks a free one.
type slot struct {
	hash [2]uint64
	next int64
}

// NewOffsetMap makes a map that takes up to memory bytes and is full when loadFactor of that is used. records is a bound of what will
// be added: the map does not take more memory than for so many.
func NewOffsetMap(memory int64, loadFactor float64, records int64) *OffsetMap {
	slots := int(min(memory, math.MaxInt32) / bytesPerSlot)
	table := int64(slots)
	if records < table/2 {
		table = 2*records + 1
	}
	return &OffsetMap{table: make([]slot, table), slots: slots, bound: min(int(float64(slots)*loadFactor), slots), latest: -1}
}

// Usable says whether a map of so much memory takes a key at all.
func Usable(memory int64, loadFactor float64) bool {
	return float64(min(memory, math.MaxInt32)/bytesPerSlot)*loadFactor > 1
}

// Put notes a record. It returns false, and does nothing, if the map is full.
func (m *OffsetMap) Put(key []byte, offset int64) bool {
	if m.keys >= m.bound {
		return false
	}
	h := hash(key)
	s := m.find(h)
	if s.next == 0 {
		m.keys++
	}
	*s = slot{h, offset + 1}
	m.latest = offset
	return true
}

// Get is the last offset of a key; -1 if it is not there.
func (m *OffsetMap) Get(key []byte) int64 {
	if s := m.find(hash(key)); s != nil {
		return s.next - 1
	}
	return -1
}

func hash(key []byte) [2]uint64 {
	sum := sha256.Sum256(key)
	return [2]uint64{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

// find returns the slot of a key or the free one where it belongs; nil if there is neither.
func (m *OffsetMap) find(hash [2]uint64) *slot {
	n := len(m.table)
	if n == 0 {
		return nil
	}
	at := int(hash[0] % uint64(n))
	for range n {
		if s := &m.table[at]; s.next == 0 || s.hash == hash {
			return s
		}
		if at++; at == n {
			at = 0
		}
	}
	return nil
}

// Latest is the last offset that the map speaks of; -1 if it speaks of nothing. Records behind it are not judged.
func (m *OffsetMap) Latest() int64 { return m.latest }

// Passed says that everything up to offset was looked at, whether it had keys or not.
func (m *OffsetMap) Passed(offset int64) { m.latest = offset }

// Utilization is the part of the memory that is used, from 0 to 1.
func (m *OffsetMap) Utilization() float64 { return float64(m.keys) / float64(max(m.slots, 1)) }
