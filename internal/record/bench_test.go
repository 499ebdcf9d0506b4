package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchBatch is about size bytes of records with values of valueBytes, half of each value random
// letters and half a repeated word, which compresses about as log lines do.
func benchBatch(tb testing.TB, codec Compression, size, valueBytes int) Batch {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	b := NewBuilder(0, codec)
	for i := 0; b.Size() < size; i++ {
		value := make([]byte, valueBytes)
		for j := range value {
			if j%32 < 16 {
				value[j] = 'a' + byte(rng.IntN(26))
			} else {
				value[j] = "orders-completed"[j%16]
			}
		}
		b.Append(1_700_000_000_000+int64(i), fmt.Appendf(nil, "key-%06d", i), value)
	}
	batch, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return append(Batch(nil), batch...)
}

var benchOptions = ValidateOptions{FromClient: true, Now: 1_700_000_000_000, Before: 1 << 40, After: 1 << 40, Compacted: true}

func BenchmarkCRC(b *testing.B) {
	batch := benchBatch(b, None, 1<<20, 1024)
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if err := batch.CheckCRC(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidate counts uncompressed bytes.
func BenchmarkValidate(b *testing.B) {
	for codec := None; codec <= Zstd; codec++ {
		for _, valueBytes := range []int{100, 200, 1024} {
			b.Run(fmt.Sprintf("%s/%d", codec, valueBytes), func(b *testing.B) {
				batch := benchBatch(b, codec, 1<<20, valueBytes)
				dec := GetDecompressor()
				defer dec.Release()
				info, err := Validate(batch, benchOptions, dec)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(info.UncompressedBytes)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Validate(batch, benchOptions, dec); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFill is decompression alone, chunk by chunk: what Validate cannot beat.
func BenchmarkFill(b *testing.B) {
	for codec := Gzip; codec <= Zstd; codec++ {
		b.Run(fmt.Sprintf("%s/200", codec), func(b *testing.B) {
			batch := benchBatch(b, codec, 1<<20, 200)
			dec := GetDecompressor()
			defer dec.Release()
			b.SetBytes(int64(len(benchBatch(b, None, 1<<20, 200))))
			b.ReportAllocs()
			for b.Loop() {
				dec.open(codec, batch.Payload())
				for {
					win, err := dec.fill(dec.window[:0])
					if err != nil {
						break
					}
					dec.window = win[:0]
				}
			}
		})
	}
}

func BenchmarkIter(b *testing.B) {
	for codec := None; codec <= Zstd; codec++ {
		b.Run(fmt.Sprintf("%s/200", codec), func(b *testing.B) {
			batch := benchBatch(b, codec, 1<<20, 200)
			dec := GetDecompressor()
			defer dec.Release()
			b.SetBytes(int64(len(benchBatch(b, None, 1<<20, 200))))
			b.ReportAllocs()
			var r Record
			for b.Loop() {
				it := batch.Iter(dec)
				for it.Next(&r) {
				}
				if it.Err() != nil {
					b.Fatal(it.Err())
				}
			}
		})
	}
}

func BenchmarkCompress(b *testing.B) {
	src := benchBatch(b, None, 1<<20, 200).Payload()
	for codec := Gzip; codec <= Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				var err error
				if dst, err = Compress(dst[:0], src, codec, DefaultLevel); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(src))/float64(len(dst)), "ratio")
		})
	}
}

func BenchmarkBuilder(b *testing.B) {
	bld := NewBuilder(0, None)
	key, value := make([]byte, 10), make([]byte, 200)
	b.ReportAllocs()
	b.SetBytes(1000 * 218)
	for b.Loop() {
		bld.Reset(0, None)
		for i := range 1000 {
			bld.Append(int64(i), key, value)
		}
		if _, err := bld.Build(); err != nil {
			b.Fatal(err)
		}
	}
}
