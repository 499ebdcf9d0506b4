package record

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compress appends src, compressed and framed as Kafka's clients do, to dst. With None it appends
// src as it is. The level is one of codec's, or DefaultLevel; an error is a level out of bounds or
// an unknown codec.
func Compress(dst, src []byte, codec Compression, level int) ([]byte, error) {
	if !codec.Valid() {
		return dst, fmt.Errorf("compress: unknown codec %d", int8(codec))
	}
	level, err := codec.level(level)
	if err != nil {
		return dst, err
	}
	switch codec {
	case Gzip:
		return gzipCompress(dst, src, level)
	case Snappy:
		return snappyCompress(dst, src), nil
	case LZ4:
		return lz4Compress(dst, src, level), nil
	case Zstd:
		return zstdCompress(dst, src, level)
	case None:
	}
	return append(dst, src...), nil
}

var (
	lz4Compressors     = sync.Pool{New: func() any { return new(lz4.Compressor) }}
	lz4DeepCompressors = sync.Pool{New: func() any { return new(lz4.CompressorHC) }}
	gzipCompressors    [11]sync.Pool // by level + 1: *gzip.Writer

	zstdEncodersMu sync.Mutex
	zstdEncoders   = map[zstd.EncoderLevel]*zstd.Encoder{}
)

func gzipCompress(dst, src []byte, level int) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	pool := &gzipCompressors[level+1]
	w, _ := pool.Get().(*gzip.Writer)
	if w == nil {
		var err error
		if w, err = gzip.NewWriterLevel(out, level); err != nil {
			return dst, fmt.Errorf("gzip: %w", err)
		}
	} else {
		w.Reset(out)
	}
	defer func() {
		w.Reset(nil)
		pool.Put(w)
	}()
	if _, err := w.Write(src); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	return out.Bytes(), nil
}

// zstdCompress maps libzstd's levels to the nearest of the library's four.
func zstdCompress(dst, src []byte, level int) ([]byte, error) {
	l := zstd.EncoderLevelFromZstd(level)
	zstdEncodersMu.Lock()
	e := zstdEncoders[l]
	if e == nil {
		var err error
		// EncodeAll may be called from many goroutines; each running call costs one encoder's memory.
		e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			zstdEncodersMu.Unlock()
			return dst, fmt.Errorf("zstd: %w", err)
		}
		zstdEncoders[l] = e
	}
	zstdEncodersMu.Unlock()
	return e.EncodeAll(src, dst), nil
}
