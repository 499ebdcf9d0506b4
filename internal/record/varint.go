package record

import "encoding/binary"

// Varints are 7 bits a byte, lowest first, at most 5 bytes for 32 bits and 10 for 64; signed
// numbers are zigzag coded. As in Kafka, bits beyond the width are dropped.

// varint reads a signed 32-bit number at b[i:]. next is negative when b ends or the number does not,
// and when i is negative.
func varint(b []byte, i int) (v int32, next int) {
	if uint(i) < uint(len(b)) {
		u := uint32(b[i])
		if u < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
		if i+1 < len(b) && b[i+1] < 0x80 {
			u = u&0x7f | uint32(b[i+1])<<7
			return int32(u>>1) ^ -int32(u&1), i + 2
		}
	}
	v64, next := readVarint(b, i, 5)
	return int32(uint32(v64)>>1) ^ -int32(v64&1), next
}

// varlong reads a signed 64-bit number at b[i:], as varint.
func varlong(b []byte, i int) (v int64, next int) {
	if uint(i) < uint(len(b)) {
		u := uint64(b[i])
		if u < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
		if i+1 < len(b) && b[i+1] < 0x80 {
			u = u&0x7f | uint64(b[i+1])<<7
			return int64(u>>1) ^ -int64(u&1), i + 2
		}
	}
	u, next := readVarint(b, i, 10)
	return int64(u>>1) ^ -int64(u&1), next
}

// readVarint reads an unsigned number of at most the given bytes.
func readVarint(b []byte, i, most int) (u uint64, next int) {
	for k := range most {
		if uint(i) >= uint(len(b)) {
			return 0, -1
		}
		c := b[i]
		i++
		u |= uint64(c&0x7f) << (7 * k)
		if c < 0x80 {
			return u, i
		}
	}
	return 0, -1
}

func appendVarint(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, uint64(v<<1)^uint64(v>>63))
}

func varintSize(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
