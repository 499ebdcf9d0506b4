package record

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/ottla-io/ottla/internal/kerr"
)

// samples are inputs around the block sizes of the codecs, both compressible and not.
func samples() map[string][]byte {
	rng := rand.New(rand.NewPCG(3, 4))
	out := map[string][]byte{"nothing": {}, "one byte": {7}}
	for _, n := range []int{100, snappyBlockSize - 1, snappyBlockSize, lz4BlockSize, lz4BlockSize + 1, 300_000, 3 << 20} {
		noise := make([]byte, n)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		words := make([]byte, n)
		for i := range words {
			words[i] = "abcdefgh"[rng.IntN(8)&rng.IntN(8)]
		}
		out[fmt.Sprintf("noise %d", n)] = noise
		out[fmt.Sprintf("words %d", n)] = words
		out[fmt.Sprintf("zeros %d", n)] = make([]byte, n)
	}
	return out
}

// TestCodecs writes with every codec, reads it back ourselves and with a second reader.
func TestCodecs(t *testing.T) {
	second := map[Compression]func([]byte) ([]byte, error){
		None: func(b []byte) ([]byte, error) { return b, nil },
		Gzip: func(b []byte) ([]byte, error) {
			r, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, err
			}
			return io.ReadAll(r)
		},
		Snappy: xerial.Decode,
		LZ4:    func(b []byte) ([]byte, error) { return io.ReadAll(lz4.NewReader(bytes.NewReader(b))) },
		Zstd: func(b []byte) ([]byte, error) {
			r, err := zstd.NewReader(nil)
			if err != nil {
				return nil, err
			}
			defer r.Close()
			return r.DecodeAll(b, nil)
		},
	}
	dec := GetDecompressor()
	defer dec.Release()
	for name, src := range samples() {
		for codec := None; codec <= Zstd; codec++ {
			lowest, highest, dflt := codec.Levels()
			for _, level := range []int{DefaultLevel, dflt, lowest, highest, (lowest + highest) / 2} {
				packed, err := Compress([]byte("before"), src, codec, level)
				if err != nil || !bytes.HasPrefix(packed, []byte("before")) {
					t.Fatalf("%s %s level %d: %v", name, codec, level, err)
				}
				packed = packed[len("before"):]
				if got, err := dec.Decompress(nil, packed, codec); err != nil || !bytes.Equal(got, src) {
					t.Errorf("%s %s level %d: %d bytes of %d, %v", name, codec, level, len(got), len(src), err)
				}
				if len(src) > 0 {
					if got, err := second[codec](packed); err != nil || !bytes.Equal(got, src) {
						t.Errorf("%s %s level %d, second reader: %d bytes of %d, %v", name, codec, level, len(got), len(src), err)
					}
				}
				if len(src) > 100_000 {
					break // the default is enough, the deep levels are slow
				}
			}
		}
	}
}

func TestLevelBounds(t *testing.T) {
	for codec, bad := range map[Compression][]int{Gzip: {0, 10, -2}, LZ4: {0, 18, -1}, Zstd: {23, -131073}} {
		for _, level := range bad {
			if _, err := Compress(nil, []byte("x"), codec, level); err == nil {
				t.Errorf("%s level %d was taken", codec, level)
			}
		}
	}
}

func TestCompressionNames(t *testing.T) {
	for i, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		c, err := ParseCompression(name)
		if err != nil || c != Compression(i) || c.String() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	if _, err := ParseCompression("producer"); err == nil {
		t.Error("producer is not a codec")
	}
}

// TestFraming pins the bytes that Kafka's Java clients begin with.
func TestFraming(t *testing.T) {
	for codec, want := range map[Compression]string{
		Snappy: "82534e41505059000000000100000001",
		LZ4:    "04224d18604082",
		Zstd:   "28b52ffd",
		Gzip:   "1f8b08",
	} {
		b, err := Compress(nil, bytes.Repeat([]byte("ab"), 100), codec, DefaultLevel)
		if err != nil || !bytes.HasPrefix(b, unhex(want)) {
			t.Errorf("%s: %x, %v", codec, b, err)
		}
	}
}

func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("%q: %#08x, want %#08x", in, got, want)
		}
	}
}

// zstdRLE is a frame without content size: blocks times 128 KiB of zeros in four bytes each.
func zstdRLE(windowDescriptor byte, blocks int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, windowDescriptor}
	for i := range blocks {
		head := uint32(128<<10)<<3 | 1<<1
		if i == blocks-1 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 0)
	}
	return b
}

// bombs are payloads of a record of 1 GiB and more in less than 5 MiB, each in the worst framing that
// its codec has.
func bombs(t *testing.T) map[string]Batch {
	// One record: size 1 GiB, of which the value is nearly all.
	const value = 1<<30 - 100
	head := appendVarint(nil, value+1+1+1+1+5+1)
	head = append(head, 0, 0, 0, 1)
	head = appendVarint(head, value)
	payload := func(codec Compression, zeros func() []byte) Batch {
		b := NewBuilder(0, codec)
		b.Append(0, nil, nil)
		packed, err := Compress(nil, head, codec, DefaultLevel)
		if err != nil {
			t.Fatal(err)
		}
		if codec == LZ4 {
			packed = packed[:len(packed)-4]
		}
		return withPayload(mustBuild(b), append(packed, zeros()...))
	}
	mega := make([]byte, 4<<20)
	return map[string]Batch{
		"gzip": payload(Gzip, func() []byte {
			b, _ := Compress(nil, make([]byte, 64<<20), Gzip, 9)
			return bytes.Repeat(b, 16)
		}),
		"snappy 4 MiB blocks": payload(Snappy, func() []byte {
			block := xerial.Encode(nil, make([]byte, 32<<10))[16:]
			return bytes.Repeat(block, 1<<10)
		}),
		"lz4 4 MiB blocks": func() Batch {
			b := NewBuilder(0, LZ4)
			b.Append(0, nil, nil)
			block := make([]byte, 1<<20)
			n, err := lz4.CompressBlock(mega, block, nil)
			if err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 1<<10)
			first = append(first[:0], byte(len(head)<<4))
			first = append(first, head...)
			blocks := [][]byte{first}
			for range 255 {
				blocks = append(blocks, block[:n])
			}
			return withPayload(mustBuild(b), lz4Parts{flags: 0x60, bd: 0x70, blocks: blocks}.bytes())
		}(),
		"zstd default window":      payload(Zstd, func() []byte { return zstdRLE(0x58, 1<<13) }),
		"zstd 8 MiB window":        payload(Zstd, func() []byte { return zstdRLE(0x68, 1<<13) }),
		"zstd 128 MiB window":      payload(Zstd, func() []byte { return zstdRLE(0x88, 1<<13) }),
		"zstd 1 GiB window":        payload(Zstd, func() []byte { return zstdRLE(0xa0, 1<<13) }),
		"zstd says 4 GiB":          payload(Zstd, func() []byte { return append(unhex("28b52ffd"+"a0"+"ffffffff"), zstdRLE(0, 1<<13)[6:]...) }),
		"zstd many frames of 1MiB": payload(Zstd, func() []byte { return bytes.Repeat(zstdRLE(0x58, 8), 1<<10) }),
	}
}

// TestBombs validates batches that decompress to 1 GiB: whatever the answer, memory stays small.
func TestBombs(t *testing.T) {
	for name, b := range bombs(t) {
		var before, after runtime.MemStats
		dec := new(Decompressor)
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := Validate(b, ValidateOptions{Before: math.MaxInt64, After: math.MaxInt64}, dec)
		runtime.ReadMemStats(&after)
		// All that was allocated in the meantime, freed or not.
		if grew := after.TotalAlloc - before.TotalAlloc; grew > 48<<20 {
			t.Errorf("%s: %d bytes allocated for a batch of %d: %v", name, grew, len(b), err)
		}
		if err == nil {
			t.Errorf("%s: is valid", name)
		}
	}
}

func TestDecompressLimit(t *testing.T) {
	for codec := Gzip; codec <= Zstd; codec++ {
		packed, err := Compress(nil, make([]byte, 10<<20), codec, DefaultLevel)
		if err != nil {
			t.Fatal(err)
		}
		dec := new(Decompressor)
		dec.SetLimit(1 << 20)
		got, err := dec.Decompress(nil, packed, codec)
		if !errors.Is(err, kerr.UnknownServerError) || len(got) > 9<<20 {
			t.Errorf("%s: %d bytes, %v", codec, len(got), err)
		}
		dec.SetLimit(10 << 20)
		if got, err := dec.Decompress(nil, packed, codec); err != nil || len(got) != 10<<20 {
			t.Errorf("%s: %d bytes, %v", codec, len(got), err)
		}
	}
}

// TestZstdWindows reads frames with every window and size that the rule in zstd.go tells apart.
func TestZstdWindows(t *testing.T) {
	for _, c := range []struct {
		window byte
		blocks int
		ok     bool
	}{
		{0x58, 8, true},     // 2 MiB window, 1 MiB: at once
		{0x58, 9, true},     // 1.1 MiB: at once
		{0x58, 100, true},   // 12.5 MiB: streamed
		{0x68, 64, true},    // 8 MiB window and content: at once
		{0x78, 400, true},   // 32 MiB window, 50 MiB
		{0x80, 100, true},   // 64 MiB window, 12.5 MiB
		{0x80, 1000, false}, // 64 MiB window, 125 MiB in 4 kB
		{0x90, 8, false},    // 256 MiB window: libzstd refuses as well
	} {
		got, err := new(Decompressor).Decompress(nil, zstdRLE(c.window, c.blocks), Zstd)
		if c.ok && (err != nil || len(got) != c.blocks*128<<10) {
			t.Errorf("window %#x, %d blocks: %d bytes, %v", c.window, c.blocks, len(got), err)
		}
		if !c.ok && err == nil {
			t.Errorf("window %#x, %d blocks: was read", c.window, c.blocks)
		}
	}
}

// TestChunksDoNotShow reads batches of records that cross the codecs' chunks, by both readers.
func TestChunksDoNotShow(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	dec := GetDecompressor()
	defer dec.Release()
	for _, size := range []int{0, 1, 100, 5_000, 70_000, 400_000} {
		plain := NewBuilder(0, None)
		for plain.Size() < 1<<20 && plain.Count() < 40_000 {
			n := size
			if n > 1 {
				n = 1 + rng.IntN(2*size)
			}
			value := make([]byte, n)
			for i := range value {
				value[i] = byte(rng.IntN(4))
			}
			plain.Append(int64(rng.IntN(1000)), []byte("key"), value, Header{Key: []byte("h"), Value: value[:n/2]})
		}
		want := mustBuild(plain)
		var records []string
		readRecords(t, want, func(r *Record) { records = append(records, describe(r)) })
		o := ValidateOptions{FromClient: true, Before: math.MaxInt64, After: math.MaxInt64, Compacted: true}
		info, err := Validate(want, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if info.MaxTimestamp != want.MaxTimestamp() || info.OffsetOfMaxTimestamp != want.LastOffset() || info.UncompressedBytes != int64(len(want)) {
			t.Errorf("info %+v of %s", info, want)
		}
		for codec := Gzip; codec <= Zstd; codec++ {
			packed, err := Recompress(nil, want, codec, DefaultLevel, dec)
			if err != nil {
				t.Fatal(err)
			}
			b, rest, err := Next(packed)
			if err != nil || len(rest) > 0 || b.CheckCRC() != nil || b.Compression() != codec {
				t.Fatal(codec, b, err)
			}
			if got, err := Validate(b, o, dec); err != nil || got != info {
				t.Errorf("%s, records of %d: %+v, want %+v, %v", codec, size, got, info, err)
			}
			i := 0
			var r Record
			it := b.Iter(dec)
			for ; it.Next(&r); i++ {
				if got := describe(&r); got != records[i] {
					t.Fatalf("%s, records of %d: record %d is %.100q, want %.100q", codec, size, i, got, records[i])
				}
			}
			if i != len(records) || it.Err() != nil {
				t.Errorf("%s, records of %d: %d of %d, %v", codec, size, i, len(records), it.Err())
			}
			back, err := Recompress(nil, b, None, DefaultLevel, dec)
			if err != nil || !bytes.Equal(back, want) {
				t.Errorf("%s: not the same when plain again, %v", codec, err)
			}
		}
	}
}

// TestNoAllocationPerRecord holds the hot paths to what they promise.
func TestNoAllocationPerRecord(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := benchBatch(t, codec, 1<<20, 100)
		dec := new(Decompressor)
		var r Record
		for name, f := range map[string]func(){
			"validate": func() {
				if _, err := Validate(b, benchOptions, dec); err != nil {
					t.Fatal(err)
				}
			},
			"iter": func() {
				it := b.Iter(dec)
				for it.Next(&r) {
				}
				if it.Err() != nil {
					t.Fatal(it.Err())
				}
			},
		} {
			// 8,000 records; the codecs themselves may take a buffer now and then.
			if n := testing.AllocsPerRun(5, f); n > 8 {
				t.Errorf("%s %s: %v allocations", name, codec, n)
			}
		}
	}
}

// TestRecordErrorsAreBounded sends a million records without a key.
func TestRecordErrorsAreBounded(t *testing.T) {
	const n = 1_000_000
	b := NewBuilder(0, Zstd)
	for range n {
		b.Append(0, nil, nil)
	}
	_, err := Validate(mustBuild(b), ValidateOptions{FromClient: true, Before: math.MaxInt64, After: math.MaxInt64, Compacted: true}, nil)
	var e *Error
	if !errors.As(err, &e) || len(e.Records) != maxRecordErrors || e.More != n-maxRecordErrors {
		t.Errorf("%d record errors and %d more, %v", len(e.Records), e.More, err)
	}
}
