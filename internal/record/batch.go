package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Sizes and positions in a batch of format 2. Integers are big endian.
const (
	// BatchHeaderSize is the size in bytes of everything before the records.
	BatchHeaderSize = 61
	// LogOverhead is the size in bytes of the base offset and the length, which the length does
	// not count.
	LogOverhead = 12
	// MagicV2 is the only format version that is written or accepted.
	MagicV2 = 2
	// HeaderSizeUpToMagic is how many bytes are needed to learn a batch's size and format.
	HeaderSizeUpToMagic = 17

	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	// minLengthV0 is the smallest length field that any format version has.
	minLengthV0 = 14
)

// Bits of the attributes field.
const (
	CompressionMask  int16 = 0x07
	LogAppendTimeBit int16 = 0x08
	TransactionalBit int16 = 0x10
	ControlBit       int16 = 0x20
	DeleteHorizonBit int16 = 0x40
)

// What a header field holds when there is nothing to say.
const (
	NoTimestamp     int64 = -1
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
	NoLeaderEpoch   int32 = -1
)

// TimestampType says who set the timestamps of a batch (message.timestamp.type).
type TimestampType int8

const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one complete record batch of format 2, header and records, and nothing behind it.
// The methods read and write its bytes in place and expect at least BatchHeaderSize of them, as
// Next and Builder give.
type Batch []byte

// Next splits the first batch off b. The batch aliases b.
//
// Errors: ErrShort when b ends before the batch does (also when b is empty), with rest = b;
// ErrOldMagic for formats 0 and 1; an *Error that is CorruptMessage for a size or format that cannot be.
func Next(b []byte) (batch Batch, rest []byte, err error) {
	size, err := NextSize(b)
	if err != nil {
		return nil, b, err
	}
	if size > len(b) {
		return nil, b, ErrShort
	}
	return Batch(b[:size:size]), b[size:], nil
}

// NextSize returns the size in bytes of the batch whose first HeaderSizeUpToMagic bytes, at least,
// are in b. The errors are those of Next; ErrShort only when the start is incomplete.
func NextSize(b []byte) (int, error) {
	if len(b) < HeaderSizeUpToMagic {
		if len(b) >= LogOverhead {
			if n := int32(binary.BigEndian.Uint32(b[posLength:])); n < minLengthV0 {
				return 0, corruptf("batch length %d is below the smallest of any format, %d", n, minLengthV0)
			}
		}
		return 0, ErrShort
	}
	n := int32(binary.BigEndian.Uint32(b[posLength:]))
	if n < minLengthV0 {
		return 0, corruptf("batch length %d is below the smallest of any format, %d", n, minLengthV0)
	}
	switch magic := int8(b[posMagic]); {
	case magic == 0 || magic == 1:
		return 0, ErrOldMagic
	case magic != MagicV2:
		return 0, corruptf("batch has unknown magic %d", magic)
	}
	if n < BatchHeaderSize-LogOverhead {
		return 0, corruptf("batch size %d is below the header's, %d", int(n)+LogOverhead, BatchHeaderSize)
	}
	if n > math.MaxInt32-LogOverhead {
		return 0, corruptf("batch length %d does not fit", n)
	}
	return int(n) + LogOverhead, nil
}

func (b Batch) i16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }
func (b Batch) i32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) i64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// BaseOffset is the offset that the record deltas count from. After compaction no record need have it.
func (b Batch) BaseOffset() int64 { return b.i64(posBaseOffset) }

// Length is the size in bytes of the whole batch: the length field plus LogOverhead.
func (b Batch) Length() int { return int(b.i32(posLength)) + LogOverhead }

// LeaderEpoch is the epoch of the leader that appended the batch; it is outside the CRC.
func (b Batch) LeaderEpoch() int32 { return b.i32(posLeaderEpoch) }

// Magic is the format version.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the stored CRC-32C of the bytes from the attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes is the raw bit field.
func (b Batch) Attributes() int16 { return b.i16(posAttributes) }

// Compression is the codec of the records. Values above Zstd are possible in hostile batches.
func (b Batch) Compression() Compression { return Compression(b.Attributes() & CompressionMask) }

// IsTransactional says whether the batch belongs to a transaction (its marker included).
func (b Batch) IsTransactional() bool { return b.Attributes()&TransactionalBit != 0 }

// IsControl says whether the records are control records, which consumers never see.
func (b Batch) IsControl() bool { return b.Attributes()&ControlBit != 0 }

// HasDeleteHorizon says whether BaseTimestamp holds the time after which tombstones and end markers
// of this batch may go (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&DeleteHorizonBit != 0 }

// DeleteHorizon is that time in milliseconds; ok is false when the batch has none.
func (b Batch) DeleteHorizon() (ms int64, ok bool) {
	return b.i64(posBaseTimestamp), b.HasDeleteHorizon()
}

// TimestampType says whether the records' times are the producer's or the broker's. With
// LogAppendTime every record has the time MaxTimestamp.
func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&LogAppendTimeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return b.i32(posLastOffsetDelta) }

// LastOffset is the last offset the batch covers, also when compaction removed that record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is LastOffset + 1.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// BaseTimestamp is what the record timestamp deltas count from, in milliseconds.
func (b Batch) BaseTimestamp() int64 { return b.i64(posBaseTimestamp) }

// MaxTimestamp is the largest timestamp of a record, in milliseconds, or NoTimestamp.
func (b Batch) MaxTimestamp() int64 { return b.i64(posMaxTimestamp) }

// ProducerID is the id of an idempotent producer, or NoProducerID.
func (b Batch) ProducerID() int64 { return b.i64(posProducerID) }

// HasProducerID says whether the batch comes from an idempotent producer.
func (b Batch) HasProducerID() bool { return b.ProducerID() > NoProducerID }

// ProducerEpoch is the producer's epoch, or NoProducerEpoch.
func (b Batch) ProducerEpoch() int16 { return b.i16(posProducerEpoch) }

// BaseSequence is the sequence number of the first record, or NoSequence.
func (b Batch) BaseSequence() int32 { return b.i32(posBaseSequence) }

// LastSequence is the sequence number of the last record, or NoSequence.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return IncrementSequence(base, b.LastOffsetDelta())
}

// Count is the number of records; it may be negative in hostile batches and 0 after compaction.
func (b Batch) Count() int32 { return b.i32(posCount) }

// Payload is the records part, as it stands: compressed if the batch is.
func (b Batch) Payload() []byte { return b[BatchHeaderSize:] }

// IncrementSequence adds n >= 0 to a sequence number; after 2147483647 comes 0.
func IncrementSequence(sequence, n int32) int32 {
	if sequence > math.MaxInt32-n {
		return n - (math.MaxInt32 - sequence) - 1
	}
	return sequence + n
}

// DecrementSequence takes n >= 0 from a sequence number; before 0 comes 2147483647.
func DecrementSequence(sequence, n int32) int32 {
	if sequence < n {
		return math.MaxInt32 - (n - sequence) + 1
	}
	return sequence - n
}

// ComputeCRC returns the CRC that the batch's bytes should have stored.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

// CheckCRC compares the stored CRC with the bytes. The error is CorruptMessage.
func (b Batch) CheckCRC() error {
	if got, want := b.ComputeCRC(), b.CRC(); got != want {
		return corruptf("stored crc %#08x, computed crc %#08x, offsets %d to %d", want, got, b.BaseOffset(), b.LastOffset())
	}
	return nil
}

// UpdateCRC stores the CRC of the present bytes.
func (b Batch) UpdateCRC() { binary.BigEndian.PutUint32(b[posCRC:], b.ComputeCRC()) }

// SetBaseOffset moves the batch; the CRC does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(offset))
}

// SetLeaderEpoch stores the appending leader's epoch; the CRC does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(epoch))
}

// SetLogAppendTime gives all records the broker's time ms, as a topic with
// message.timestamp.type=LogAppendTime asks, and redoes the CRC. The producer's base timestamp and
// deltas stay.
func (b Batch) SetLogAppendTime(ms int64) { b.setMaxTimestamp(LogAppendTime, ms) }

// SetMaxTimestamp stores the largest timestamp found in the records of a CreateTime batch. The CRC
// is redone only if that changes anything.
func (b Batch) SetMaxTimestamp(ms int64) { b.setMaxTimestamp(CreateTime, ms) }

func (b Batch) setMaxTimestamp(t TimestampType, ms int64) {
	if b.TimestampType() == t && b.MaxTimestamp() == ms {
		return
	}
	attributes := b.Attributes() &^ LogAppendTimeBit
	if t == LogAppendTime {
		attributes |= LogAppendTimeBit
	}
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.UpdateCRC()
}

// String is for logs and tests: the header without the records.
func (b Batch) String() string {
	if len(b) < BatchHeaderSize {
		return fmt.Sprintf("batch(%d bytes)", len(b))
	}
	return fmt.Sprintf("batch(offsets=[%d,%d] epoch=%d count=%d codec=%s attributes=%#04x maxTimestamp=%d producer=%d/%d sequence=[%d,%d] size=%d)",
		b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), b.Count(), b.Compression(), b.Attributes(), b.MaxTimestamp(),
		b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence(), b.Length())
}
