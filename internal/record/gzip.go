package record

import (
	"errors"
	"io"
)

// gzipFill reads a gzip stream as Java's GZIPInputStream does: further members follow on, and what
// is behind a member and is not one is ignored.
func (d *Decompressor) gzipFill(buf []byte) ([]byte, error) {
	g := &d.gzip
	if g.done {
		return buf, io.EOF
	}
	if !g.opened {
		g.in.Reset(d.src)
		if err := g.r.Reset(&g.in); err != nil {
			return buf, unexpected(err)
		}
		g.r.Multistream(false)
		g.opened = true
	}
	buf = room(buf, streamChunk)
	n, err := g.r.Read(buf[len(buf) : len(buf)+streamChunk])
	buf = buf[:len(buf)+n]
	if errors.Is(err, io.EOF) {
		const smallestMember = 10 + 8 // header and trailer
		g.done = g.in.Len() <= smallestMember || g.r.Reset(&g.in) != nil
		if !g.done {
			g.r.Multistream(false)
		}
		return buf, nil
	}
	return buf, err
}

// unexpected turns the end of input where more is needed into an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
