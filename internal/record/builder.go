package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Builder makes batches. Set what the batch needs, append records, take the bytes with Build;
// Reset starts the next one with the same memory.
//
//	b := record.NewBuilder(offset, record.None)
//	b.SetLeaderEpoch(epoch)
//	b.Append(now, key, value)
//	batch, err := b.Build()
type Builder struct {
	buf     []byte // header space, then records, not compressed
	out     []byte // the compressed batch
	codec   Compression
	level   int
	failure error

	baseOffset    int64
	lastOffset    int64 // of the last record, or what SetLastOffset asked for
	setLastOffset bool
	leaderEpoch   int32
	attributes    int16
	baseTimestamp int64
	haveBase      bool // baseTimestamp is set
	maxTimestamp  int64
	logAppendTime bool
	producerID    int64
	producerEpoch int16
	baseSequence  int32
	count         int32
}

// NewBuilder starts a batch at baseOffset: CreateTime, leader epoch, producer and sequence -1.
func NewBuilder(baseOffset int64, codec Compression) *Builder {
	b := new(Builder)
	b.Reset(baseOffset, codec)
	return b
}

// Reset starts a new batch in the same memory; bytes that Build returned are no longer valid.
func (b *Builder) Reset(baseOffset int64, codec Compression) {
	buf, out := b.buf, b.out
	if cap(buf) < BatchHeaderSize {
		buf = make([]byte, BatchHeaderSize, 512)
	}
	*b = Builder{
		buf: buf[:BatchHeaderSize], out: out[:0], codec: codec, level: DefaultLevel,
		baseOffset: baseOffset, lastOffset: baseOffset - 1, leaderEpoch: NoLeaderEpoch,
		maxTimestamp: NoTimestamp, producerID: NoProducerID, producerEpoch: NoProducerEpoch, baseSequence: NoSequence,
	}
	if !codec.Valid() {
		b.failure = fmt.Errorf("build batch: unknown codec %d", int8(codec))
	}
}

// SetLevel chooses a level of the codec.
func (b *Builder) SetLevel(level int) { b.level = level }

// SetLeaderEpoch stores the epoch of the appending leader.
func (b *Builder) SetLeaderEpoch(epoch int32) { b.leaderEpoch = epoch }

// SetProducer stores an idempotent producer and the sequence number of the first record.
func (b *Builder) SetProducer(id int64, epoch int16, sequence int32) {
	b.producerID, b.producerEpoch, b.baseSequence = id, epoch, sequence
}

// SetSequence stores a base sequence alone; the group coordinator's batches have 0 without a producer.
func (b *Builder) SetSequence(sequence int32) { b.baseSequence = sequence }

// SetTransactional marks the batch as part of its producer's transaction.
func (b *Builder) SetTransactional() { b.attributes |= TransactionalBit }

// SetControl marks the records as control records.
func (b *Builder) SetControl() { b.attributes |= ControlBit }

// SetLogAppendTime gives every record the broker's time ms.
func (b *Builder) SetLogAppendTime(ms int64) {
	b.attributes |= LogAppendTimeBit
	b.logAppendTime, b.maxTimestamp = true, ms
}

// SetDeleteHorizon stores the time, in milliseconds, after which tombstones and end markers may go.
// Call it before the first record: deltas count from it.
func (b *Builder) SetDeleteHorizon(ms int64) {
	b.attributes |= DeleteHorizonBit
	b.baseTimestamp, b.haveBase = ms, true
}

// SetLastOffset keeps the range of a batch of which compaction has removed the last records.
func (b *Builder) SetLastOffset(offset int64) { b.lastOffset, b.setLastOffset = offset, true }

// SetMaxTimestamp overrides the largest timestamp of the appended records.
func (b *Builder) SetMaxTimestamp(ms int64) { b.maxTimestamp = ms }

// Append adds a record at the next offset. The bytes are copied.
func (b *Builder) Append(timestamp int64, key, value []byte, headers ...Header) {
	b.AppendAt(b.NextOffset(), timestamp, key, value, headers...)
}

// AppendAt adds a record at an offset that is at least NextOffset. An offset out of order or out of
// range makes Build fail.
func (b *Builder) AppendAt(offset, timestamp int64, key, value []byte, headers ...Header) {
	delta := offset - b.baseOffset
	if delta < 0 || delta > math.MaxInt32 || (!b.setLastOffset && offset <= b.lastOffset) {
		if b.failure == nil {
			b.failure = fmt.Errorf("build batch: offset %d after %d in a batch from %d", offset, b.lastOffset, b.baseOffset)
		}
		return
	}
	if !b.haveBase {
		b.baseTimestamp, b.haveBase = timestamp, true
	}
	b.buf = appendRecord(b.buf, int32(delta), timestamp-b.baseTimestamp, key, value, headers)
	b.count++
	if !b.setLastOffset {
		b.lastOffset = offset
	}
	if !b.logAppendTime {
		b.maxTimestamp = max(b.maxTimestamp, timestamp)
	}
}

// NextOffset is one above the last record, or the base offset.
func (b *Builder) NextOffset() int64 { return b.lastOffset + 1 }

// Count is the number of records appended.
func (b *Builder) Count() int { return int(b.count) }

// Size is the bytes of the batch so far, before compression.
func (b *Builder) Size() int { return len(b.buf) }

// SizeWith is what Size would be after appending the record at the next offset.
func (b *Builder) SizeWith(timestamp int64, key, value []byte, headers []Header) int {
	delta := timestamp - b.baseTimestamp
	if !b.haveBase {
		delta = 0
	}
	return len(b.buf) + RecordSize(int32(b.NextOffset()-b.baseOffset), delta, key, value, headers)
}

// Build returns the batch; it stays valid until Reset. A batch without records is legal: what
// compaction leaves of a producer's last batch.
func (b *Builder) Build() (Batch, error) {
	if b.failure != nil {
		return nil, b.failure
	}
	batch, codec := Batch(b.buf), b.codec
	if b.count == 0 {
		codec = None
	}
	if codec != None {
		out, err := Compress(append(b.out[:0], b.buf[:BatchHeaderSize]...), b.buf[BatchHeaderSize:], codec, b.level)
		if err != nil {
			return nil, fmt.Errorf("build batch: %w", err)
		}
		b.out = out
		batch = Batch(out)
	}
	if len(batch) > math.MaxInt32 {
		return nil, fmt.Errorf("build batch: %d bytes do not fit into one", len(batch))
	}
	delta := b.lastOffset - b.baseOffset
	if delta > math.MaxInt32 {
		return nil, fmt.Errorf("build batch: last offset %d in a batch from %d", b.lastOffset, b.baseOffset)
	}
	base := b.baseTimestamp
	if !b.haveBase {
		base = NoTimestamp
	}
	putHeader(batch, b.baseOffset, b.leaderEpoch, b.attributes|int16(codec), int32(delta), base, b.maxTimestamp,
		b.producerID, b.producerEpoch, b.baseSequence, b.count)
	return batch[:len(batch):len(batch)], nil
}

// AppendTo appends the batch to dst.
func (b *Builder) AppendTo(dst []byte) ([]byte, error) {
	batch, err := b.Build()
	if err != nil {
		return dst, err
	}
	return append(dst, batch...), nil
}

// putHeader writes the 61 bytes before the records, the CRC of which it computes.
func putHeader(b Batch, baseOffset int64, leaderEpoch int32, attributes int16, lastOffsetDelta int32,
	baseTimestamp, maxTimestamp, producerID int64, producerEpoch int16, baseSequence, count int32) {
	be := binary.BigEndian
	be.PutUint64(b[posBaseOffset:], uint64(baseOffset))
	be.PutUint32(b[posLength:], uint32(len(b)-LogOverhead))
	be.PutUint32(b[posLeaderEpoch:], uint32(leaderEpoch))
	b[posMagic] = MagicV2
	be.PutUint16(b[posAttributes:], uint16(attributes))
	be.PutUint32(b[posLastOffsetDelta:], uint32(lastOffsetDelta))
	be.PutUint64(b[posBaseTimestamp:], uint64(baseTimestamp))
	be.PutUint64(b[posMaxTimestamp:], uint64(maxTimestamp))
	be.PutUint64(b[posProducerID:], uint64(producerID))
	be.PutUint16(b[posProducerEpoch:], uint16(producerEpoch))
	be.PutUint32(b[posBaseSequence:], uint32(baseSequence))
	be.PutUint32(b[posCount:], uint32(count))
	b.UpdateCRC()
}

// Recompress appends batch with its records in another codec, as a topic with compression.type
// other than producer asks. The records, their offsets and times are unchanged.
func Recompress(dst []byte, batch Batch, codec Compression, level int, dec *Decompressor) ([]byte, error) {
	payload := batch.Payload()
	if from := batch.Compression(); from != None {
		var err error
		if payload, err = dec.Decompress(nil, payload, from); err != nil {
			return dst, err
		}
	}
	start := len(dst)
	dst = append(dst, batch[:BatchHeaderSize]...)
	dst, err := Compress(dst, payload, codec, level)
	if err != nil {
		return dst[:start], err
	}
	if len(dst)-start > math.MaxInt32 {
		return dst[:start], fmt.Errorf("recompress: %d bytes do not fit into one batch", len(dst)-start)
	}
	out := Batch(dst[start:])
	binary.BigEndian.PutUint32(out[posLength:], uint32(len(out)-LogOverhead))
	binary.BigEndian.PutUint16(out[posAttributes:], uint16(batch.Attributes()&^CompressionMask|int16(codec)))
	out.UpdateCRC()
	return dst, nil
}
