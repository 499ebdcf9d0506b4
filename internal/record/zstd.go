package record

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Zstandard's memory is announced, not needed: a frame of nine bytes may ask for 512 MiB. So the
// block headers are walked first, which bounds what the frame can hold, and memory is the smaller
// of window and that bound. The rule, with need = min(window, bound):
//
//	bound <= zstdWhole, or bound <= window <= zstdWindow: decoded at once into bound bytes
//	need <= zstdNeed, or need <= zstdRatio x frame size:  streamed with its window
//	otherwise:                                            refused
//
// What is refused is a window of more than 32 MiB (levels 20 and up) in a frame that promises more
// than 64 times its size.
const (
	zstdBlockMax = 128 << 10
	zstdWhole    = 1 << 20
	zstdWindow   = 8 << 20
	zstdNeed     = 32 << 20
	zstdRatio    = 64
	// zstdMaxWindow is libzstd's own limit for a decoder that is not told otherwise.
	zstdMaxWindow = 128 << 20
	// zstdKeepWindow is what libzstd announces at Kafka's default level.
	zstdKeepWindow = 2 << 20
	// zstdSlack lets the decoder use its fast copies up to the last byte.
	zstdSlack = 64
)

var (
	errZstdCut    = errors.New("frame is cut")
	errZstdBlock  = errors.New("block cannot be")
	errZstdWindow = errors.New("window is too large")
	errZstdSize   = errors.New("content size is more than the blocks can hold")
)

// zstdFrame is what is known of a frame without decoding it.
type zstdFrame struct {
	size      int   // bytes of the frame
	skip      bool  // a skippable frame
	bound     int64 // most bytes that its blocks can hold
	content   int64 // bytes announced, or -1
	window    int64
	wholeSize int64 // bytes to reserve for decoding it at once
}

func walkZstdFrame(src []byte) (zstdFrame, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return zstdFrame{}, unexpected(err)
	}
	if h.Skippable {
		end := int64(h.HeaderSize) + int64(h.SkippableSize)
		if end > int64(len(src)) {
			return zstdFrame{}, errZstdCut
		}
		return zstdFrame{skip: true, size: int(end)}, nil
	}
	f := zstdFrame{content: -1, window: int64(min(h.WindowSize, 1<<62))}
	if h.HasFCS {
		f.content = int64(min(h.FrameContentSize, 1<<62))
	}
	if h.SingleSegment {
		f.window = f.content
	}
	blockMax := min(zstdBlockMax, max(f.window, 1<<10))
	at := h.HeaderSize
	for last := false; !last; {
		if len(src)-at < 3 {
			return f, errZstdCut
		}
		head := uint32(src[at]) | uint32(src[at+1])<<8 | uint32(src[at+2])<<16
		at += 3
		last = head&1 != 0
		size := int(head >> 3)
		if size > zstdBlockMax {
			return f, errZstdBlock
		}
		switch head >> 1 & 3 {
		case 0: // raw
			f.bound += int64(size)
		case 1: // one byte, size times
			f.bound += int64(size)
			size = 1
		case 2: // compressed
			f.bound += blockMax
		default:
			return f, errZstdBlock
		}
		if at += size; at > len(src) {
			return f, errZstdCut
		}
	}
	if h.HasCheckSum {
		at += 4
	}
	if at > len(src) {
		return f, errZstdCut
	}
	f.size = at
	f.wholeSize = f.bound
	if f.content >= 0 {
		if f.content > f.bound {
			return f, errZstdSize
		}
		f.wholeSize = f.content
	}
	return f, nil
}

func (d *Decompressor) zstdFill(buf []byte) ([]byte, error) {
	z := &d.zstd
	if z.open {
		return d.zstdRead(buf)
	}
	if len(d.src) == 0 {
		return buf, io.EOF
	}
	f, err := walkZstdFrame(d.src)
	if err != nil {
		return buf, err
	}
	frame := d.src[:f.size]
	d.src = d.src[f.size:]
	if f.skip {
		return buf, nil
	}
	if f.bound <= zstdWhole || (f.bound <= f.window && f.window <= zstdWindow) {
		if z.whole == nil {
			z.whole, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecodeAllCapLimit(true))
			if err != nil {
				return buf, err
			}
		}
		buf = room(buf, int(f.wholeSize)+zstdSlack)
		return z.whole.DecodeAll(frame, buf)
	}
	need := min(f.window, f.bound)
	if f.window > zstdMaxWindow || (need > zstdNeed && need > zstdRatio*int64(len(frame))) {
		return buf, errZstdWindow
	}
	if z.stream == nil {
		z.stream, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdMaxWindow))
		if err != nil {
			return buf, err
		}
	}
	z.need = max(z.need, need)
	z.in.Reset(frame)
	if err := z.stream.Reset(&z.in); err != nil {
		return buf, err
	}
	z.open = true
	return d.zstdRead(buf)
}

func (d *Decompressor) zstdRead(buf []byte) ([]byte, error) {
	buf = room(buf, streamChunk)
	n, err := d.zstd.stream.Read(buf[len(buf) : len(buf)+streamChunk])
	buf = buf[:len(buf)+n]
	if errors.Is(err, io.EOF) {
		d.zstd.open = false // the next fill looks for a further frame
		return buf, nil
	}
	return buf, err
}

// zstdClose lets go of the caller's bytes, and of a streaming decoder that has grown a large window.
func (d *Decompressor) zstdClose() {
	z := &d.zstd
	z.open = false
	z.in.Reset(nil)
	if z.stream == nil || z.need == 0 {
		return
	}
	if z.need > zstdKeepWindow || z.stream.Reset(nil) != nil {
		z.stream.Close()
		z.stream = nil
	}
	z.need = 0
}
