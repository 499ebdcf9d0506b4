package group

import (
	"math"
	"unicode/utf16"
)

// OffsetsTopic is the internal topic whose partitions hold the groups.
const OffsetsTopic = "__consumer_offsets"

// PartitionFor is the partition of __consumer_offsets that a group lives in, of numPartitions > 0.
func PartitionFor(groupID string, numPartitions int32) int32 {
	h := javaHash(groupID)
	switch {
	case h == math.MinInt32:
		h = 0 // Kafka's Utils.abs
	case h < 0:
		h = -h
	}
	return h % numPartitions
}

// javaHash is Java's String.hashCode: over UTF-16 code units, wrapping.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + r
			continue
		}
		hi, lo := utf16.EncodeRune(r)
		h = 31*(31*h+hi) + lo
	}
	return h
}

// javaLength is Java's String.length: UTF-16 code units.
func javaLength(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}
