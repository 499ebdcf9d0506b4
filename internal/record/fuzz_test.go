package record

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"testing"
)

// fuzzLimit keeps one input from running for long.
const fuzzLimit = 8 << 20

func addBatches(f *testing.F) {
	for _, name := range []string{"none.log", "gzip.log", "snappy.log", "lz4.log", "zstd.log", "lat.log", "txn.log", "compacted.log", "bootstrap.checkpoint"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, c := range judgedCases(1_796_000_000_000) {
		f.Add(c.set)
	}
}

func FuzzNext(f *testing.F) {
	addBatches(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for total := len(b); ; {
			batch, rest, err := Next(b)
			if err != nil {
				if len(rest) != len(b) {
					t.Fatal("an error consumed bytes")
				}
				return
			}
			if total -= len(batch); len(batch) < BatchHeaderSize || batch.Length() != len(batch) || total != len(rest) {
				t.Fatalf("batch of %d, length %d, %d left of %d", len(batch), batch.Length(), len(rest), total)
			}
			_ = batch.String()
			b = rest
		}
	})
}

// FuzzRecords gives the inside of a batch to both readers. They must agree: what Validate passes,
// Iter reads, and the records built anew give the same bytes before compression, if their varints
// are the shortest.
func FuzzRecords(f *testing.F) {
	addBatches(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, _, err := Next(b)
		if err != nil {
			return
		}
		dec := GetDecompressor()
		defer dec.Release()
		dec.SetLimit(fuzzLimit)
		info, verr := Validate(batch, ValidateOptions{Before: math.MaxInt64, After: math.MaxInt64, TimestampType: batch.TimestampType()}, dec)
		it := batch.Iter(dec)
		var r Record
		n := int32(0)
		maxTimestamp := NoTimestamp
		gaps := false
		for it.Next(&r) {
			gaps = gaps || r.Offset != batch.BaseOffset()+int64(n)
			maxTimestamp = max(maxTimestamp, r.Timestamp)
			n++
		}
		if verr == nil {
			if it.Err() != nil || n != batch.Count() || gaps {
				t.Fatalf("valid, but %d of %d records, gaps %v: %v", n, batch.Count(), gaps, it.Err())
			}
			if batch.TimestampType() == CreateTime && info.MaxTimestamp != maxTimestamp {
				t.Fatalf("max timestamp %d, want %d", info.MaxTimestamp, maxTimestamp)
			}
		} else if it.Err() == nil && !gaps && batch.TimestampType() == CreateTime && batch.Count() > 0 {
			t.Fatalf("not valid, but all %d records can be read: %v", n, verr)
		}
	})
}

func fuzzCodec(f *testing.F, codec Compression) {
	for _, c := range judgedCases(1_796_000_000_000) {
		if b, _, err := Next(c.set); err == nil && b.Compression() == codec {
			f.Add([]byte(b.Payload()))
		}
	}
	for _, s := range [][]byte{bytes.Repeat([]byte("words "), 20_000), make([]byte, 100)} {
		b, err := Compress(nil, s, codec, DefaultLevel)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		dec := GetDecompressor()
		defer dec.Release()
		dec.SetLimit(fuzzLimit)
		dec.open(codec, src)
		var out []byte
		var err error
		for err == nil {
			before := len(out)
			out, err = dec.fill(out)
			if err == nil && len(out) == before {
				t.Fatal("no progress")
			}
		}
		if !errors.Is(err, io.EOF) {
			return
		}
		packed, err := Compress(nil, out, codec, DefaultLevel)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) == 0 && codec == Snappy {
			return
		}
		if again, err := dec.Decompress(nil, packed, codec); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%d bytes come back as %d, %v", len(out), len(again), err)
		}
	})
}

func FuzzGzip(f *testing.F)   { fuzzCodec(f, Gzip) }
func FuzzSnappy(f *testing.F) { fuzzCodec(f, Snappy) }
func FuzzLZ4(f *testing.F)    { fuzzCodec(f, LZ4) }
func FuzzZstd(f *testing.F)   { fuzzCodec(f, Zstd) }
