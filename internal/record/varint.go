package record

import "encoding/binary"

// Varints are 7 bits a byte, lowest first, at most 5 bytes for 32 bits and 10 for 64; signed
// numbers are zigzag coded. As in Kafka, bits beyond the width are dropped.

// varint reads a signed 32-bit number at b[i:]. next is negative when b ends or the number does not.
func varint(b []byte, i int) (v int32, next int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		u := uint32(b[i])
		return int32(u>>1) ^ -int32(u&1), i + 1
	}
	return varintLong(b, i)
}

func varintLong(b []byte, i int) (int32, int) {
	if len(b)-i >= 4 {
		// Gather the first four bytes without a loop; the second byte ends most numbers.
		w := binary.LittleEndian.Uint32(b[i:])
		if w&0x8000 == 0 {
			u := w&0x7f | w>>1&0x3f80
			return int32(u>>1) ^ -int32(u&1), i + 2
		}
	}
	var u uint32
	for shift := 0; shift < 35; shift += 7 {
		if uint(i) >= uint(len(b)) {
			return 0, -1
		}
		c := b[i]
		i++
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i
		}
	}
	return 0, -1
}

// varlong reads a signed 64-bit number at b[i:], as varint.
func varlong(b []byte, i int) (v int64, next int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		u := uint64(b[i])
		return int64(u>>1) ^ -int64(u&1), i + 1
	}
	return varlongLong(b, i)
}

func varlongLong(b []byte, i int) (int64, int) {
	var u uint64
	for shift := 0; shift < 70; shift += 7 {
		if uint(i) >= uint(len(b)) {
			return 0, -1
		}
		c := b[i]
		i++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i
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
