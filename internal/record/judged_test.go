package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ottla-io/ottla/internal/kerr"
)

// judged is the record set of one partition in a Produce request. What Apache Kafka 4.4.0 answered
// stands in testdata/judged.txt under its name.
type judged struct {
	name    string
	topic   string // plain, compacted, lat
	version int16
	set     []byte
}

// edit changes a batch after it was built, and gives it a right CRC again.
func edit(b Batch, change func(b Batch)) Batch {
	b = append(Batch(nil), b...)
	change(b)
	b.UpdateCRC()
	return b
}

// withPayload replaces what is behind the header.
func withPayload(b Batch, payload []byte) Batch {
	out := append(append(Batch(nil), b[:BatchHeaderSize]...), payload...)
	binary.BigEndian.PutUint32(out[posLength:], uint32(len(out)-LogOverhead))
	out.UpdateCRC()
	return out
}

func three(now int64, codec Compression) Batch {
	b := NewBuilder(0, codec)
	for i := range 3 {
		b.Append(now+int64(i), []byte{'k'}, bytes.Repeat([]byte("value"), 20), Header{Key: []byte("h"), Value: []byte("v")})
	}
	return mustBuild(b)
}

func mustBuild(b *Builder) Batch {
	batch, err := b.Build()
	if err != nil {
		panic(err)
	}
	return append(Batch(nil), batch...)
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// compressed returns batch b with its records replaced by raw, in b's codec.
func compressed(b Batch, raw []byte) Batch {
	payload, err := Compress(nil, raw, b.Compression(), DefaultLevel)
	if err != nil {
		panic(err)
	}
	return withPayload(b, payload)
}

// plainRecords are the records of three without compression.
func plainRecords(now int64) []byte { return append([]byte(nil), three(now, None).Payload()...) }

// lz4Parts is an lz4 frame of src made by hand, so that each of its parts can be odd.
type lz4Parts struct {
	flags, bd  byte
	size       []byte // content size field
	badHeader  bool
	blocks     [][]byte
	stored     bool
	blockSums  bool
	badSum     bool
	noEnd      bool
	contentSum []byte
	tail       []byte
}

func (p lz4Parts) bytes() []byte {
	out := []byte{0x04, 0x22, 0x4d, 0x18, p.flags, p.bd}
	out = append(out, p.size...)
	sum := byte(xxh32(out[4:]) >> 8)
	if p.badHeader {
		sum++
	}
	out = append(out, sum)
	for _, b := range p.blocks {
		word := uint32(len(b))
		if p.stored {
			word |= lz4Uncompressed
		}
		out = append(binary.LittleEndian.AppendUint32(out, word), b...)
		if p.blockSums {
			sum := xxh32(b)
			if p.badSum {
				sum++
			}
			out = binary.LittleEndian.AppendUint32(out, sum)
		}
	}
	if !p.noEnd {
		out = append(out, 0, 0, 0, 0)
	}
	return append(append(out, p.contentSum...), p.tail...)
}

func judgedCases(now int64) []judged {
	plain := plainRecords(now)
	ok := three(now, None)
	stored := func(p lz4Parts) Batch {
		p.stored = true
		if p.blocks == nil {
			p.blocks = [][]byte{plain}
		}
		return withPayload(three(now, LZ4), p.bytes())
	}
	one := func(ts int64, key []byte, codec Compression) Batch {
		b := NewBuilder(0, codec)
		b.Append(ts, key, []byte("v"))
		return mustBuild(b)
	}
	times := func(codec Compression, ts ...int64) Batch {
		b := NewBuilder(0, codec)
		for _, t := range ts {
			b.Append(t, []byte("k"), []byte("v"))
		}
		return mustBuild(b)
	}
	keys := func(codec Compression, null ...bool) Batch {
		b := NewBuilder(0, codec)
		for _, n := range null {
			key := []byte("k")
			if n {
				key = nil
			}
			b.Append(now, key, []byte("v"))
		}
		return mustBuild(b)
	}
	raw := func(codec Compression, records ...string) Batch {
		b := NewBuilder(0, codec)
		var payload []byte
		for _, r := range records {
			b.Append(now, nil, nil)
			payload = append(payload, unhex(r)...)
		}
		return compressed(mustBuild(b), payload)
	}
	concat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	gz := three(now, Gzip).Payload()
	zs := three(now, Zstd).Payload()
	sn := three(now, Snappy).Payload()
	l4 := three(now, LZ4).Payload()
	gzEmpty, _ := Compress(nil, nil, Gzip, DefaultLevel)

	cases := []judged{
		{name: "plain", set: ok},
		{name: "gzip", set: three(now, Gzip)},
		{name: "snappy", set: three(now, Snappy)},
		{name: "lz4", set: three(now, LZ4)},
		{name: "zstd", set: three(now, Zstd)},
		{name: "empty set", set: nil},
		{name: "cut at 50", set: ok[:50]},
		{name: "cut at 16", set: ok[:16]},
		{name: "cut at 100", set: ok[:100]},
		{name: "two batches", set: concat(ok, ok)},
		{name: "batch and 11 bytes", set: concat(ok, make([]byte, 11))},
		{name: "batch and 12 zero bytes", set: concat(ok, make([]byte, 12))},
		{name: "batch and 20 zero bytes", set: concat(ok, make([]byte, 20))},
		{name: "batch and half a batch", set: concat(ok, ok[:70])},
		{name: "magic 0", set: edit(ok, func(b Batch) { b[posMagic] = 0 })},
		{name: "magic 1", set: edit(ok, func(b Batch) { b[posMagic] = 1 })},
		{name: "magic 3", set: edit(ok, func(b Batch) { b[posMagic] = 3 })},
		{name: "magic -1", set: edit(ok, func(b Batch) { b[posMagic] = 255 })},
		{name: "length 13", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint32(b[posLength:], 13) })},
		{name: "length 14", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint32(b[posLength:], 14) })},
		{name: "length -1", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint32(b[posLength:], math.MaxUint32) })},
		{name: "length 48", set: edit(ok[:60], func(b Batch) { binary.BigEndian.PutUint32(b[posLength:], 48) })},
		{name: "wrong crc", set: func() Batch { b := append(Batch(nil), ok...); b[posCRC]++; return b }()},
		{name: "base offset 42", set: edit(ok, func(b Batch) { b.SetBaseOffset(42) })},
		{name: "base offset -1", set: edit(ok, func(b Batch) { b.SetBaseOffset(-1) })},
		{name: "leader epoch 77", set: edit(ok, func(b Batch) { b.SetLeaderEpoch(77) })},
		{name: "last delta 3", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint32(b[posLastOffsetDelta:], 3) })},
		{name: "last delta -1", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint32(b[posLastOffsetDelta:], math.MaxUint32) })},
		{name: "count 2", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint32(b[posCount:], 2) })},
		{name: "count and delta one less", set: edit(ok, func(b Batch) {
			binary.BigEndian.PutUint32(b[posCount:], 2)
			binary.BigEndian.PutUint32(b[posLastOffsetDelta:], 1)
		})},
		{name: "count and delta one more", set: edit(ok, func(b Batch) {
			binary.BigEndian.PutUint32(b[posCount:], 4)
			binary.BigEndian.PutUint32(b[posLastOffsetDelta:], 3)
		})},
		{name: "lz4 count one less", set: edit(three(now, LZ4), func(b Batch) {
			binary.BigEndian.PutUint32(b[posCount:], 2)
			binary.BigEndian.PutUint32(b[posLastOffsetDelta:], 1)
		})},
		{name: "lz4 count one more", set: edit(three(now, LZ4), func(b Batch) {
			binary.BigEndian.PutUint32(b[posCount:], 4)
			binary.BigEndian.PutUint32(b[posLastOffsetDelta:], 3)
		})},
		{name: "count 0", set: edit(withPayload(ok, nil), func(b Batch) { binary.BigEndian.PutUint32(b[posCount:], 0) })},
		{name: "count -1", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint32(b[posCount:], math.MaxUint32) })},
		{name: "control batch", set: func() Batch {
			b := NewBuilder(0, None)
			b.AppendControl(now, LeaderChange, []byte{0, 0})
			return mustBuild(b)
		}()},
		{name: "producer without sequence", set: edit(ok, func(b Batch) {
			binary.BigEndian.PutUint64(b[posProducerID:], 5)
			binary.BigEndian.PutUint16(b[posProducerEpoch:], 0)
		})},
		{name: "unused attribute bit 7", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 0x80 })},
		{name: "unused attribute bit 8", set: edit(ok, func(b Batch) { b[posAttributes] |= 1 })},
		{name: "delete horizon", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 0x40 })},
		{name: "codec 5", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 5 })},
		{name: "codec 7", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 7 })},
		{name: "gzip bits over plain", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 1 })},
		{name: "snappy bits over plain", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 2 })},
		{name: "lz4 bits over plain", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 3 })},
		{name: "zstd bits over plain", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 4 })},
		{name: "zstd in version 6", set: three(now, Zstd), version: 6},
		{name: "plain in version 3", set: ok, version: 3},

		{name: "+2h", set: times(None, now, now+7_200_000, now+1)},
		{name: "+2h lz4", set: times(LZ4, now+7_200_000, now, now+7_200_000)},
		{name: "nanoseconds", set: one(now*1_000_000, nil, None)},
		{name: "-1", set: one(-1, nil, None)},
		{name: "-5", set: edit(one(now, nil, None), func(b Batch) { binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(math.MaxUint64-4)) })},
		{name: "most negative", set: edit(one(now, nil, None), func(b Batch) { binary.BigEndian.PutUint64(b[posBaseTimestamp:], 1<<63) })},
		{name: "0", set: one(0, nil, None)},
		{name: "max timestamp lies", set: edit(ok, func(b Batch) { binary.BigEndian.PutUint64(b[posMaxTimestamp:], 1<<60) })},
		{name: "+2h on lat", topic: "lat", set: one(now+7_200_000, nil, None)},
		{name: "batch says log append time", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 8 })},
		{name: "batch says log append time, lz4", set: edit(three(now, LZ4), func(b Batch) { b[posAttributes+1] |= 8 })},
		{name: "batch says log append time of -1", set: edit(ok, func(b Batch) {
			b[posAttributes+1] |= 8
			binary.BigEndian.PutUint64(b[posMaxTimestamp:], math.MaxUint64)
		})},
		{name: "batch says log append time, on lat", topic: "lat", set: edit(ok, func(b Batch) { b[posAttributes+1] |= 8 })},

		{name: "keys", topic: "compacted", set: keys(None, false, false)},
		{name: "null key", topic: "compacted", set: keys(None, false, true, false, true)},
		{name: "null key snappy", topic: "compacted", set: keys(Snappy, true, false)},
		{name: "null key, plain topic", set: keys(None, true)},
		{name: "empty key", topic: "compacted", set: one(now, []byte{}, None)},
		{name: "null key and +2h", topic: "compacted", set: func() Batch {
			b := NewBuilder(0, None)
			b.Append(now, nil, nil)
			b.Append(now+7_200_000, []byte("k"), nil)
			return mustBuild(b)
		}()},

		// size attributes timestamp offset key value headers
		{name: "record by hand", set: raw(None, "0c"+"00"+"00"+"00"+"01"+"01"+"00")},
		{name: "offset delta 1 in first", set: raw(None, "0c"+"00"+"00"+"02"+"01"+"01"+"00")},
		{name: "offset delta 1 in first, lz4", set: raw(LZ4, "0c"+"00"+"00"+"02"+"01"+"01"+"00")},
		{name: "offset deltas 1 0", set: raw(None, "0c000002010100", "0c000000010100")},
		{name: "offset deltas 0 0", set: raw(None, "0c000000010100", "0c000000010100")},
		{name: "offset deltas 0 0 gzip", set: raw(Gzip, "0c000000010100", "0c000000010100")},
		{name: "record attributes 1", set: raw(None, "0c"+"01"+"00"+"00"+"01"+"01"+"00")},
		{name: "record attributes 255 lz4", set: raw(LZ4, "0c"+"ff"+"00"+"00"+"01"+"01"+"00")},
		{name: "record too long", set: raw(None, "0e"+"00"+"00"+"00"+"01"+"01"+"00"+"00")},
		{name: "record too long, lz4", set: raw(LZ4, "0e"+"00"+"00"+"00"+"01"+"01"+"00"+"00")},
		{name: "record size too small, lz4", set: raw(LZ4, "0a"+"00"+"00"+"00"+"01"+"01"+"00")},
		{name: "record size too large, lz4", set: raw(LZ4, "0e"+"00"+"00"+"00"+"01"+"01"+"00")},
		{name: "record size 0", set: raw(None, "00"+"00"+"00"+"00"+"01"+"01"+"00")},
		{name: "record size -1", set: raw(None, "01"+"00"+"00"+"00"+"01"+"01"+"00")},
		{name: "record size -1 lz4", set: raw(LZ4, "01"+"00"+"00"+"00"+"01"+"01"+"00")},
		{name: "key size -2", set: raw(None, "0c"+"00"+"00"+"00"+"03"+"01"+"00")},
		{name: "value size -2 lz4", set: raw(LZ4, "0c"+"00"+"00"+"00"+"01"+"03"+"00")},
		{name: "key beyond record", set: raw(None, "0c"+"00"+"00"+"00"+"08"+"01"+"00")},
		{name: "key beyond record, lz4", set: raw(LZ4, "0c"+"00"+"00"+"00"+"08"+"01"+"00")},
		{name: "headers -1", set: raw(None, "0c"+"00"+"00"+"00"+"01"+"01"+"01")},
		{name: "headers -1 lz4", set: raw(LZ4, "0c"+"00"+"00"+"00"+"01"+"01"+"01")},
		{name: "headers 1 of none", set: raw(None, "0c"+"00"+"00"+"00"+"01"+"01"+"02")},
		{name: "header null key", set: raw(None, "10"+"00"+"00"+"00"+"01"+"01"+"02"+"01"+"01")},
		{name: "header null key lz4", set: raw(LZ4, "10"+"00"+"00"+"00"+"01"+"01"+"02"+"01"+"01")},
		{name: "header null value", set: raw(None, "10"+"00"+"00"+"00"+"01"+"01"+"02"+"00"+"01")},
		{name: "long varints", set: raw(None, "98808000"+"00"+"8000"+"8000"+"818000"+"8100"+"8000")},
		{name: "six byte varint", set: raw(None, "0c00"+"00"+"808080808000"+"01"+"01"+"00")},
		{name: "six byte varint, lz4", set: raw(LZ4, "0c00"+"00"+"808080808000"+"01"+"01"+"00")},
		{name: "size of six bytes", set: raw(None, "8c8080808000")},

		{name: "gzip cut", set: withPayload(three(now, Gzip), gz[:len(gz)-9])},
		{name: "gzip without trailer", set: withPayload(three(now, Gzip), gz[:len(gz)-8])},
		{name: "gzip wrong sum", set: withPayload(three(now, Gzip), concat(gz[:len(gz)-8], make([]byte, 8)))},
		{name: "gzip of two members", set: func() Batch {
			a, _ := Compress(nil, plain[:40], Gzip, DefaultLevel)
			a, _ = Compress(a, plain[40:], Gzip, DefaultLevel)
			return withPayload(three(now, Gzip), a)
		}()},
		{name: "gzip and an empty member", set: withPayload(three(now, Gzip), concat(gz, gzEmpty))},
		{name: "gzip and garbage", set: withPayload(three(now, Gzip), concat(gz, bytes.Repeat([]byte{7}, 40)))},
		{name: "gzip and more records", set: withPayload(three(now, Gzip), concat(gz, gz))},
		{name: "snappy raw", set: withPayload(three(now, Snappy), snappyRaw(plain))},
		{name: "snappy cut", set: withPayload(three(now, Snappy), sn[:len(sn)-1])},
		{name: "snappy and 3 bytes", set: withPayload(three(now, Snappy), concat(sn, []byte{1, 2, 3}))},
		{name: "snappy and zero block length", set: withPayload(three(now, Snappy), concat(sn, []byte{0, 0, 0, 0}))},
		{name: "snappy two streams", set: func() Batch {
			return withPayload(three(now, Snappy), snappyCompress(snappyCompress(nil, plain[:40]), plain[40:]))
		}()},
		{name: "snappy version 0", set: withPayload(three(now, Snappy), func() []byte { b := bytes.Clone(sn); b[11] = 0; return b }())},
		{name: "snappy version 9", set: withPayload(three(now, Snappy), func() []byte { b := bytes.Clone(sn); b[11] = 9; b[15] = 9; return b }())},
		{name: "lz4 stored block", set: stored(lz4Parts{flags: 0x60, bd: 0x40})},
		{name: "lz4 4 MiB blocks", set: stored(lz4Parts{flags: 0x60, bd: 0x70})},
		{name: "lz4 linked blocks", set: stored(lz4Parts{flags: 0x40, bd: 0x40})},
		{name: "lz4 content size", set: stored(lz4Parts{flags: 0x68, bd: 0x40, size: []byte{1, 2, 3, 4, 5, 6, 7, 8}})},
		{name: "lz4 wrong content checksum", set: stored(lz4Parts{flags: 0x64, bd: 0x40, contentSum: []byte{1, 2, 3, 4}})},
		{name: "lz4 no content checksum", set: stored(lz4Parts{flags: 0x64, bd: 0x40})},
		{name: "lz4 block checksums", set: stored(lz4Parts{flags: 0x70, bd: 0x40, blockSums: true})},
		{name: "lz4 wrong block checksum", set: stored(lz4Parts{flags: 0x70, bd: 0x40, blockSums: true, badSum: true})},
		{name: "lz4 wrong header checksum", set: stored(lz4Parts{flags: 0x60, bd: 0x40, badHeader: true})},
		{name: "lz4 dictionary bit", set: stored(lz4Parts{flags: 0x61, bd: 0x40})},
		{name: "lz4 reserved bit", set: stored(lz4Parts{flags: 0x62, bd: 0x40})},
		{name: "lz4 version 2", set: stored(lz4Parts{flags: 0xa0, bd: 0x40})},
		{name: "lz4 block size code 3", set: stored(lz4Parts{flags: 0x60, bd: 0x30})},
		{name: "lz4 reserved bit of bd", set: stored(lz4Parts{flags: 0x60, bd: 0x41})},
		{name: "lz4 no end mark", set: stored(lz4Parts{flags: 0x60, bd: 0x40, noEnd: true})},
		{name: "lz4 tail", set: stored(lz4Parts{flags: 0x60, bd: 0x40, tail: []byte("tail")})},
		{name: "lz4 two frames", set: withPayload(three(now, LZ4), concat(l4, l4))},
		{name: "lz4 records over two frames", set: func() Batch {
			a, _ := Compress(nil, plain[:40], LZ4, DefaultLevel)
			a, _ = Compress(a, plain[40:], LZ4, DefaultLevel)
			return withPayload(three(now, LZ4), a)
		}()},
		{name: "lz4 two blocks", set: stored(lz4Parts{flags: 0x60, bd: 0x40, blocks: [][]byte{plain[:40], plain[40:]}})},
		{name: "zstd cut", set: withPayload(three(now, Zstd), zs[:len(zs)-1])},
		{name: "zstd two frames", set: func() Batch {
			a, _ := Compress(nil, plain[:40], Zstd, DefaultLevel)
			a, _ = Compress(a, plain[40:], Zstd, DefaultLevel)
			return withPayload(three(now, Zstd), a)
		}()},
		{name: "zstd skippable frame first", set: withPayload(three(now, Zstd), concat([]byte{0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}, zs))},
		{name: "zstd skippable frame last", set: withPayload(three(now, Zstd), concat(zs, []byte{0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}))},
		{name: "zstd and garbage", set: withPayload(three(now, Zstd), concat(zs, []byte("garbage")))},
		{name: "zstd window 256 MiB", set: withPayload(three(now, Zstd), unhex("28b52ffd"+"00"+"90"+"010000"))},
		{name: "gzip empty", set: withPayload(three(now, Gzip), nil)},
		{name: "snappy empty", set: withPayload(three(now, Snappy), nil)},
		{name: "lz4 empty", set: withPayload(three(now, LZ4), nil)},
		{name: "zstd empty", set: withPayload(three(now, Zstd), nil)},
	}
	for i := range cases {
		c := &cases[i]
		if c.topic == "" {
			c.topic = "plain"
		}
		if c.version == 0 {
			c.version = 9
		}
	}
	return cases
}

func snappyRaw(src []byte) []byte {
	framed := snappyCompress(nil, src)
	return framed[xerialHeaderSize+4:]
}

// judge is what we answer.
func judge(c judged, now int64) error {
	b, err := FromProduce(c.set, c.version)
	if err != nil {
		return err
	}
	if err := b.CheckCRC(); err != nil {
		return err
	}
	o := ValidateOptions{Now: now, Before: math.MaxInt64, After: 3_600_000, FromClient: true, Compacted: c.topic == "compacted"}
	if c.topic == "lat" {
		o.TimestampType = LogAppendTime
	}
	_, err = Validate(b, o, nil)
	return err
}

// stricter names the cases in which we refuse, with INVALID_RECORD, what the real one answers
// otherwise. It accepts them (readers then fail or see wrong offsets) or trips over itself.
var stricter = map[string]string{
	"offset delta 1 in first":      "the record would lie outside the batch",
	"offset deltas 1 0":            "offsets must rise",
	"offset deltas 0 0":            "offsets must rise",
	"offset delta 1 in first, lz4": "it tries to rewrite the batch and has no keys and values to do so",
	"offset deltas 0 0 gzip":       "the same",
	"record size too small, lz4":   "it does not compare size and fields of compressed records, its consumers do",
	"record size too large, lz4":   "the same",
	"size of six bytes":            "an exception that nobody catches",
}

// TestJudged compares our answer to odd and to good record sets with that of Apache Kafka 4.4.0.
func TestJudged(t *testing.T) {
	const now = 1_796_000_000_000
	text, err := os.ReadFile("testdata/judged.txt")
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, answer, _ := strings.Cut(strings.TrimSpace(line), ": ")
		answers[name] = answer
	}
	for _, c := range judgedCases(now) {
		t.Run(c.name, func(t *testing.T) {
			want, ok := answers[c.name]
			if !ok {
				t.Fatal("no answer in testdata/judged.txt")
			}
			if stricter[c.name] != "" {
				if want == "87" {
					t.Fatal("listed as stricter, and is not")
				}
				want = "87"
			}
			err := judge(c, now)
			got := fmt.Sprint(kerr.Code(err))
			var e *Error
			if errors.As(err, &e) {
				for _, r := range e.Records {
					got += fmt.Sprint(" ", r.Index)
				}
			}
			if got != want {
				t.Errorf("answer %q, want %q (%v)", got, want, err)
			}
		})
	}
}
