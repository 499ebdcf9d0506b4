package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/snappy"
)

// Java clients write snappy in the frame of the xerial library: magic, version, lowest compatible
// version, then blocks with a length each. Others (librdkafka, Go) send one raw block.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderSize = 16
	xerialVersion    = 1

	// snappyMaxRatio is above what a snappy block can grow by: 3 bytes make at most 64.
	snappyMaxRatio = 22
)

var (
	errSnappyCut    = errors.New("block is cut")
	errSnappyLength = errors.New("declared length is more than the block can hold")
)

func (d *Decompressor) snappyOpen() {
	d.snappy.raw = len(d.src) < xerialHeaderSize || !bytes.HasPrefix(d.src, xerialMagic)
}

func (d *Decompressor) snappyFill(buf []byte) ([]byte, error) {
	if d.snappy.done {
		return buf, io.EOF
	}
	if d.snappy.raw {
		d.snappy.done = true
		return snappyBlock(buf, d.src)
	}
	// A stream may be followed by another one, so headers stand where blocks do. Kafka's reader does
	// not look at the versions.
	for bytes.HasPrefix(d.src, xerialMagic[:4]) {
		if len(d.src) < xerialHeaderSize || !bytes.HasPrefix(d.src, xerialMagic) {
			return buf, errSnappyCut
		}
		d.src = d.src[xerialHeaderSize:]
	}
	if len(d.src) < 4 {
		d.snappy.done = true
		return buf, io.EOF
	}
	n := binary.BigEndian.Uint32(d.src)
	if uint64(n) > uint64(len(d.src)-4) {
		return buf, errSnappyCut
	}
	block := d.src[4 : 4+n]
	d.src = d.src[4+n:]
	return snappyBlock(buf, block)
}

func snappyBlock(buf, block []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return buf, err
	}
	if n > snappyMaxRatio*len(block) {
		return buf, errSnappyLength
	}
	buf = room(buf, n)
	if _, err := snappy.Decode(buf[len(buf):len(buf)+n:len(buf)+n], block); err != nil {
		return buf, err
	}
	return buf[:len(buf)+n], nil
}

// snappyBlockSize is what xerial's writer puts into one block.
const snappyBlockSize = 32 << 10

func snappyCompress(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	for len(src) > 0 {
		part := src[:min(len(src), snappyBlockSize)]
		src = src[len(part):]
		most := snappy.MaxEncodedLen(len(part))
		dst = room(dst, 4+most)
		at := len(dst)
		block := snappy.Encode(dst[at+4:at+4+most], part)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
		dst = dst[:at+4+len(block)]
	}
	return dst
}
