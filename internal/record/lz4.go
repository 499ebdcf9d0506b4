package record

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// LZ4 frame format. Kafka writes blocks of 64 KiB, each for itself, without checksums.
const (
	lz4Magic          = 0x184d2204
	lz4Uncompressed   = 1 << 31 // bit of the block size: the block is stored as it is
	lz4FlagReserved   = 0x03
	lz4FlagContentSum = 0x04
	lz4FlagSize       = 0x08
	lz4FlagBlockSum   = 0x10
	lz4FlagIndep      = 0x20
	lz4VersionMask    = 0xc0
	lz4Version        = 0x40

	lz4BlockSize = 64 << 10
	// lz4MaxRatio is above what a block can grow by: one byte of a length means 255 bytes.
	lz4MaxRatio = 255
)

var (
	errLZ4Cut        = errors.New("frame is cut")
	errLZ4Magic      = errors.New("not an lz4 frame")
	errLZ4Descriptor = errors.New("unsupported frame descriptor")
	errLZ4HeaderSum  = errors.New("frame descriptor checksum does not match")
	errLZ4BlockSize  = errors.New("block is larger than the frame allows")
	errLZ4BlockSum   = errors.New("block checksum does not match")
)

// lz4Frame is where reading of a frame stands.
type lz4Frame struct {
	opened, done bool
	blockSum     bool
	contentSum   bool
	maxBlock     int
}

// lz4Open reads the frame header. Like Kafka's reader it refuses blocks that depend on each other
// and a preset dictionary, and does not look at the content size.
func (d *Decompressor) lz4Open() error {
	src := d.src
	if len(src) < 7 {
		return errLZ4Cut
	}
	if binary.LittleEndian.Uint32(src) != lz4Magic {
		return errLZ4Magic
	}
	flags, bd := src[4], src[5]
	size := 6
	if flags&lz4FlagSize != 0 {
		if size += 8; len(src) < size+1 {
			return errLZ4Cut
		}
	}
	code := bd >> 4 & 7
	if flags&lz4FlagReserved != 0 || flags&lz4FlagIndep == 0 || flags&lz4VersionMask != lz4Version || bd&0x8f != 0 || code < 4 {
		return errLZ4Descriptor
	}
	if src[size] != byte(xxh32(src[4:size])>>8) {
		return errLZ4HeaderSum
	}
	d.src = src[size+1:]
	d.lz4 = lz4Frame{
		opened:     true,
		blockSum:   flags&lz4FlagBlockSum != 0,
		contentSum: flags&lz4FlagContentSum != 0,
		maxBlock:   1 << (8 + 2*code),
	}
	return nil
}

// lz4Fill decodes one block. What follows the frame is ignored, as Kafka does.
func (d *Decompressor) lz4Fill(buf []byte) ([]byte, error) {
	f := &d.lz4
	if f.done {
		return buf, io.EOF
	}
	if !f.opened {
		if err := d.lz4Open(); err != nil {
			return buf, err
		}
	}
	src := d.src
	if len(src) < 4 {
		return buf, errLZ4Cut
	}
	word := binary.LittleEndian.Uint32(src)
	size := int(word &^ lz4Uncompressed)
	src = src[4:]
	if size == 0 {
		f.done = true
		if f.contentSum && len(src) < 4 {
			return buf, errLZ4Cut
		}
		return buf, io.EOF // the content checksum is not looked at
	}
	if size > f.maxBlock {
		return buf, errLZ4BlockSize
	}
	end := size
	if f.blockSum {
		end += 4
	}
	if len(src) < end {
		return buf, errLZ4Cut
	}
	block := src[:size]
	if f.blockSum && xxh32(block) != binary.LittleEndian.Uint32(src[size:]) {
		return buf, errLZ4BlockSum
	}
	d.src = src[end:]
	if word&lz4Uncompressed != 0 {
		return append(buf, block...), nil
	}
	return lz4Block(buf, block, min(f.maxBlock, lz4MaxRatio*size))
}

// lz4Block decodes a block of at most so many bytes behind buf. It begins with room for what blocks usually hold: frames announce
// blocks of megabytes, whatever is in them.
func lz4Block(buf, block []byte, most int) ([]byte, error) {
	for guess := min(most, max(lz4BlockSize, 4*len(block))); ; guess = min(most, 4*guess) {
		buf = room(buf, guess)
		n, err := lz4.UncompressBlock(block, buf[len(buf):len(buf)+guess])
		if err == nil {
			return buf[:len(buf)+n], nil
		}
		if guess == most {
			return buf, err
		}
	}
}

// lz4Level maps Kafka's levels to the library's: the default is the fast compressor, the others
// search ever deeper.
func lz4Level(level int) lz4.CompressionLevel {
	if level == codecs[LZ4].dflt {
		return lz4.Fast
	}
	return lz4.CompressionLevel(1 << (8 + min(level, 9)))
}

// lz4Compress appends a frame as Kafka's clients write it.
func lz4Compress(dst, src []byte, level int) []byte {
	var compress func(src, dst []byte) (int, error)
	if depth := lz4Level(level); depth == lz4.Fast {
		c := lz4Compressors.Get().(*lz4.Compressor)
		defer lz4Compressors.Put(c)
		compress = c.CompressBlock
	} else {
		c := lz4DeepCompressors.Get().(*lz4.CompressorHC)
		defer lz4DeepCompressors.Put(c)
		c.Level = depth
		compress = c.CompressBlock
	}
	dst = append(dst, 0x04, 0x22, 0x4d, 0x18, lz4Version|lz4FlagIndep, 4<<4, 0x82)
	for len(src) > 0 {
		part := src[:min(len(src), lz4BlockSize)]
		src = src[len(part):]
		dst = room(dst, 4+len(part))
		at := len(dst)
		// A block that does not get smaller is stored; so the space of the part is enough.
		space := dst[at+4 : at+4+len(part)]
		n, err := compress(part, space)
		if err != nil || n == 0 || n >= len(part) {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(len(part))|lz4Uncompressed)
			dst = append(dst, part...)
			continue
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
		dst = dst[:at+4+n]
	}
	return append(dst, 0, 0, 0, 0) // end mark
}

// xxh32 is XXH32 with seed 0, the checksum of LZ4 frames.
func xxh32(b []byte) uint32 {
	const (
		p1 = 2654435761
		p2 = 2246822519
		p3 = 3266489917
		p4 = 668265263
		p5 = 374761393
	)
	n := uint32(len(b))
	var h uint32
	if len(b) >= 16 {
		v1, v2, v3, v4 := uint32(p1), uint32(p2), uint32(0), uint32(0)
		v1 += p2
		v4 -= p1
		for len(b) >= 16 {
			v1 = bits.RotateLeft32(v1+binary.LittleEndian.Uint32(b)*p2, 13) * p1
			v2 = bits.RotateLeft32(v2+binary.LittleEndian.Uint32(b[4:])*p2, 13) * p1
			v3 = bits.RotateLeft32(v3+binary.LittleEndian.Uint32(b[8:])*p2, 13) * p1
			v4 = bits.RotateLeft32(v4+binary.LittleEndian.Uint32(b[12:])*p2, 13) * p1
			b = b[16:]
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	} else {
		h = p5
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h ^= h >> 15
	h *= p2
	h ^= h >> 13
	h *= p3
	return h ^ h>>16
}
