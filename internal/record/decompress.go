package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// DefaultDecompressLimit is how many bytes one batch may decompress to unless SetLimit says
	// otherwise. Kafka has no limit; nothing that its clients send comes near this one.
	DefaultDecompressLimit = 1 << 30

	// streamChunk is how many bytes the streaming codecs hand over at a time: small enough to
	// stay in the second-level cache.
	streamChunk = 64 << 10

	// keepBuffer is the largest buffer that a released Decompressor keeps for its next user.
	keepBuffer = 1 << 20
)

// Decompressor reads the compressed records of one batch after the other, chunk by chunk, so that
// a batch that decompresses to a million times its size costs time but no memory. It keeps its
// buffers; take it from the pool with GetDecompressor and give it back with Release. The zero value
// is ready too. For one goroutine, and one open Iter, at a time.
type Decompressor struct {
	limit    int64 // bytes per batch; 0 = DefaultDecompressLimit
	produced int64 // bytes handed out for the open batch
	codec    Compression
	src      []byte // compressed bytes not yet read

	lz4    lz4Frame
	snappy struct{ raw, done bool }
	gzip   struct {
		r      gzip.Reader
		in     bytes.Reader
		opened bool // r has been given its first member
		done   bool
	}
	zstd struct {
		whole  *zstd.Decoder // one frame into memory, never more than the frame can hold
		stream *zstd.Decoder
		in     bytes.Reader
		open   bool  // in the middle of a frame read by stream
		need   int64 // largest window of stream since the last close
	}

	window []byte // what Iter and Validate look at
}

var decompressors = sync.Pool{New: func() any { return new(Decompressor) }}

// GetDecompressor takes one from the pool, with the default limit.
func GetDecompressor() *Decompressor {
	d := decompressors.Get().(*Decompressor)
	d.limit = 0
	return d
}

// Release gives d back to the pool. Whatever an Iter returned from it is no longer valid.
func (d *Decompressor) Release() {
	d.close()
	if cap(d.window) > keepBuffer {
		d.window = nil
	}
	decompressors.Put(d)
}

// SetLimit bounds the bytes that one batch may decompress to; beyond it reading fails with
// UnknownServerError. 0 is DefaultDecompressLimit.
func (d *Decompressor) SetLimit(n int64) { d.limit = n }

// close lets go of the caller's bytes.
func (d *Decompressor) close() {
	d.src = nil
	d.gzip.in.Reset(nil)
	d.zstdClose()
}

// open starts reading src, the payload of a batch. Errors come from fill.
func (d *Decompressor) open(codec Compression, src []byte) {
	d.close()
	d.codec, d.src, d.produced = codec, src, 0
	d.lz4 = lz4Frame{}
	d.snappy.raw, d.snappy.done = false, false
	d.gzip.opened, d.gzip.done = false, false
	if codec == Snappy {
		d.snappyOpen()
	}
}

// fill appends at least one byte to buf, growing it if needed, and returns it; io.EOF at the end.
// Any other error is of kind UnknownServerError.
func (d *Decompressor) fill(buf []byte) ([]byte, error) {
	before := len(buf)
	for len(buf) == before {
		var err error
		switch d.codec {
		case None:
			if len(d.src) == 0 {
				return buf, io.EOF
			}
			n := min(len(d.src), streamChunk)
			buf, d.src = append(buf, d.src[:n]...), d.src[n:]
		case Gzip:
			buf, err = d.gzipFill(buf)
		case Snappy:
			buf, err = d.snappyFill(buf)
		case LZ4:
			buf, err = d.lz4Fill(buf)
		case Zstd:
			buf, err = d.zstdFill(buf)
		default:
			err = fmt.Errorf("unknown codec %d", d.codec)
		}
		if errors.Is(err, io.EOF) {
			return buf, io.EOF
		}
		if err != nil {
			return buf, decompressf("%s: %v", d.codec, err)
		}
	}
	limit := d.limit
	if limit == 0 {
		limit = DefaultDecompressLimit
	}
	if d.produced += int64(len(buf) - before); d.produced > limit {
		return buf, decompressf("%s: more than %d bytes", d.codec, limit)
	}
	return buf, nil
}

// Decompress appends all that src decompresses to to dst. Unlike Iter it holds everything at
// once, up to the limit.
func (d *Decompressor) Decompress(dst, src []byte, codec Compression) ([]byte, error) {
	d.open(codec, src)
	defer d.close()
	for {
		var err error
		if dst, err = d.fill(dst); errors.Is(err, io.EOF) {
			return dst, nil
		} else if err != nil {
			return dst, err
		}
	}
}

// room returns buf with space for n more bytes. Growing doubles, so that reading a batch chunk by
// chunk into one buffer copies each byte a constant number of times.
func room(buf []byte, n int) []byte {
	if cap(buf)-len(buf) >= n {
		return buf
	}
	return slices.Grow(buf, n)
}
