package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ottla-io/ottla/internal/kerr"
)

// TestHeaderAgainstKmsg lets another implementation read the header of a batch with a different
// value in each field.
func TestHeaderAgainstKmsg(t *testing.T) {
	b := NewBuilder(1<<40, None)
	b.SetLeaderEpoch(7)
	b.SetProducer(1<<33, 12, math.MaxInt32-1)
	b.SetTransactional()
	b.Append(1000, []byte("a"), []byte("b"))
	b.AppendAt(1<<40+5, 3000, []byte("c"), nil)
	b.Append(2000, nil, []byte("d"))
	batch := mustBuild(b)

	var k kmsg.RecordBatch
	if err := k.ReadFrom(batch); err != nil {
		t.Fatal(err)
	}
	got := kmsg.RecordBatch{
		FirstOffset: batch.BaseOffset(), Length: int32(batch.Length() - LogOverhead), PartitionLeaderEpoch: batch.LeaderEpoch(),
		Magic: batch.Magic(), CRC: int32(batch.CRC()), Attributes: batch.Attributes(), LastOffsetDelta: batch.LastOffsetDelta(),
		FirstTimestamp: batch.BaseTimestamp(), MaxTimestamp: batch.MaxTimestamp(), ProducerID: batch.ProducerID(),
		ProducerEpoch: batch.ProducerEpoch(), FirstSequence: batch.BaseSequence(), NumRecords: batch.Count(), Records: batch.Payload(),
	}
	if diff := cmp.Diff(k, got); diff != "" {
		t.Errorf("-kmsg +ours\n%s", diff)
	}
	if !bytes.Equal(k.AppendTo(nil), batch) {
		t.Error("kmsg writes other bytes")
	}
	if batch.LastOffset() != 1<<40+6 || batch.NextOffset() != 1<<40+7 || batch.MaxTimestamp() != 3000 || !batch.IsTransactional() || batch.IsControl() {
		t.Error(batch)
	}
	if got := batch.LastSequence(); got != 4 {
		t.Errorf("last sequence %d, want 4: 2147483646 and 6 more", got)
	}
}

// TestRecordsAgainstKmsg compares records field by field, written by either and read by the other.
func TestRecordsAgainstKmsg(t *testing.T) {
	records := []Record{
		{Offset: 0, Timestamp: 5_000_000_000, Key: []byte("key"), Value: []byte("value")},
		{Offset: 1, Timestamp: 5_000_000_001, Value: []byte{}},
		{Offset: 200, Timestamp: 4_000_000_000, Key: []byte{}, Headers: []Header{{Key: []byte("h"), Value: nil}, {Key: []byte{}, Value: []byte{}}}},
		{Offset: 70_000, Timestamp: -1, Key: bytes.Repeat([]byte("k"), 100), Value: bytes.Repeat([]byte("v"), 300_000)},
	}
	b := NewBuilder(0, None)
	var theirs []byte
	for i := range records {
		r := &records[i]
		b.AppendAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
		k := kmsg.Record{TimestampDelta64: r.Timestamp - 5_000_000_000, OffsetDelta: int32(r.Offset), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
		}
		k.Length = int32(bodySize(k.OffsetDelta, k.TimestampDelta64, r.Key, r.Value, r.Headers))
		theirs = k.AppendTo(theirs)
	}
	if !bytes.Equal(theirs, b.buf[BatchHeaderSize:]) {
		t.Errorf("kmsg writes\n%x, we\n%x", theirs, b.buf[BatchHeaderSize:])
	}
	if size := len(theirs) + BatchHeaderSize; b.Size() != size {
		t.Errorf("size %d, want %d", b.Size(), size)
	}
	var got []Record
	readRecords(t, mustBuild(b), func(r *Record) {
		c := *r
		c.Headers = append([]Header(nil), r.Headers...)
		got = append(got, c)
	})
	if diff := cmp.Diff(records, got); diff != "" {
		t.Errorf("-written +read\n%s", diff)
	}
}

func TestNext(t *testing.T) {
	one, two := three(0, None), three(5, LZ4)
	both := append(append([]byte(nil), one...), two...)
	batch, rest, err := Next(both)
	if err != nil || !bytes.Equal(batch, one) {
		t.Fatal(batch, err)
	}
	if cap(batch) != len(batch) {
		t.Error("appending to a batch would overwrite the next one")
	}
	batch, rest, err = Next(rest)
	if err != nil || !bytes.Equal(batch, two) || len(rest) != 0 {
		t.Fatal(batch, rest, err)
	}
	for n := range one {
		if _, rest, err := Next(one[:n]); !errors.Is(err, ErrShort) || len(rest) != n {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	for _, c := range []struct {
		name   string
		length uint32
		magic  byte
		want   error
	}{
		{"negative length", math.MaxUint32, 2, kerr.CorruptMessage},
		{"length 13", 13, 2, kerr.CorruptMessage},
		{"length below header", 48, 2, kerr.CorruptMessage},
		{"length past int32", math.MaxInt32, 2, kerr.CorruptMessage},
		{"length past the bytes", 1 << 20, 2, ErrShort},
		{"magic 0", 100, 0, ErrOldMagic},
		{"magic 1", 100, 1, ErrOldMagic},
		{"magic 3", 100, 3, kerr.CorruptMessage},
		{"magic -1", 100, 255, kerr.CorruptMessage},
	} {
		b := append([]byte(nil), one...)
		binary.BigEndian.PutUint32(b[posLength:], c.length)
		b[posMagic] = c.magic
		if _, _, err := Next(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestSetters(t *testing.T) {
	b := three(1000, None)
	crc := b.CRC()
	b.SetBaseOffset(1 << 50)
	b.SetLeaderEpoch(99)
	b.SetMaxTimestamp(1002)
	if b.BaseOffset() != 1<<50 || b.LeaderEpoch() != 99 || b.LastOffset() != 1<<50+2 || b.CRC() != crc || b.CheckCRC() != nil {
		t.Errorf("offset and epoch are outside the crc, an equal max timestamp changes nothing: %s", b)
	}
	b.SetLogAppendTime(5000)
	if b.TimestampType() != LogAppendTime || b.MaxTimestamp() != 5000 || b.BaseTimestamp() != 1000 || b.CRC() == crc || b.CheckCRC() != nil {
		t.Errorf("append time: %s", b)
	}
	readRecords(t, b, func(r *Record) {
		if r.Timestamp != 5000 {
			t.Errorf("record %d has time %d", r.Offset, r.Timestamp)
		}
	})
	b.SetMaxTimestamp(1002)
	if b.TimestampType() != CreateTime || b.CRC() != crc {
		t.Errorf("back to create time: %s", b)
	}
	b[len(b)-1]++
	if err := b.CheckCRC(); !errors.Is(err, kerr.CorruptMessage) {
		t.Errorf("changed byte: %v", err)
	}
}

func TestSequenceWraps(t *testing.T) {
	for _, c := range []struct{ sequence, n, want int32 }{
		{0, 0, 0}, {0, 5, 5}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 2, 5, 2}, {5, math.MaxInt32, 4},
	} {
		if got := IncrementSequence(c.sequence, c.n); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.sequence, c.n, got, c.want)
		}
		if got := DecrementSequence(c.want, c.n); got != c.sequence {
			t.Errorf("%d - %d = %d, want %d", c.want, c.n, got, c.sequence)
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	for name, build := range map[string]func(b *Builder){
		"offset twice":       func(b *Builder) { b.AppendAt(100, 0, nil, nil); b.AppendAt(100, 0, nil, nil) },
		"offset before base": func(b *Builder) { b.AppendAt(99, 0, nil, nil) },
		"offset too far":     func(b *Builder) { b.AppendAt(100+1<<31, 0, nil, nil) },
	} {
		b := NewBuilder(100, None)
		build(b)
		if batch, err := b.Build(); err == nil {
			t.Errorf("%s: built %s", name, batch)
		}
		b.Reset(100, None)
		b.Append(0, nil, nil)
		if _, err := b.Build(); err != nil {
			t.Errorf("%s: reset does not forget it: %v", name, err)
		}
	}
	if _, err := NewBuilder(0, 5).Build(); err == nil {
		t.Error("codec 5 was built")
	}
	b := NewBuilder(0, Gzip)
	b.Append(0, nil, nil)
	b.SetLevel(10)
	if _, err := b.Build(); err == nil {
		t.Error("gzip level 10 was built")
	}
}

// TestEmptyBatch is what compaction leaves while a producer's last sequence is needed.
func TestEmptyBatch(t *testing.T) {
	b := NewBuilder(10, LZ4)
	b.SetProducer(5, 1, 20)
	b.SetLastOffset(14)
	b.SetMaxTimestamp(777)
	batch := mustBuild(b)
	if len(batch) != BatchHeaderSize || batch.Count() != 0 || batch.LastOffset() != 14 || batch.LastSequence() != 24 ||
		batch.BaseTimestamp() != NoTimestamp || batch.MaxTimestamp() != 777 || batch.Compression() != None || batch.CheckCRC() != nil {
		t.Error(batch)
	}
	readRecords(t, batch, func(r *Record) { t.Errorf("record %v", r) })
}
