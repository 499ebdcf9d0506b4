package real

import (
	"encoding/binary"
	"net"

	"github.com/ottla-io/ottla/internal/env"
)

const (
	// headSize is how much is read at once when no large frame is under way.
	headSize = 64 << 10
	// firstRoom is what a frame gets before its bytes have come. Later room doubles with what has come.
	firstRoom = headSize
	// maxTrust bounds the room that a frame gets at once because larger ones have come whole on this connection.
	maxTrust = 16 << 20
)

// reader cuts the stream into frames. Small frames are copied out of head, which is filled with one call for many of
// them and held only while it holds something. The rest of a large frame is read straight to its place. A frame never
// holds more than firstRoom, or twice what has come of it, or twice the largest frame that came whole.
type reader struct {
	source source
	head   *env.Buffer // nil when empty
	lo, hi int         // of the bytes in head
	stub   [4]byte     // the first bytes of a length when head is not held
	stubs  int

	frame   *env.Buffer // under way
	size    int         // of the whole frame
	filled  int
	largest int
}

func (r *reader) attach(c net.Conn) { r.source = newSource(c) }

// next returns a frame that is here whole, or nil if more has to be read. The error is a *env.FrameError.
func (r *reader) next(limit int) (*env.Buffer, error) {
	if r.frame != nil {
		if r.filled < r.size {
			return nil, nil
		}
		frame := r.frame
		r.frame = nil
		r.largest = max(r.largest, r.size)
		return frame, nil
	}
	if r.hi-r.lo < 4 {
		return nil, nil
	}
	size := int32(binary.BigEndian.Uint32(r.head.B[r.lo:]))
	if size < 0 || int(size) > limit {
		return nil, &env.FrameError{Size: size, Limit: limit}
	}
	r.lo += 4
	have := r.hi - r.lo
	if have >= int(size) {
		frame := env.NewBuffer(int(size))
		copy(frame.B, r.head.B[r.lo:])
		r.lo += int(size)
		return frame, nil
	}
	room := max(firstRoom, min(2*r.largest, maxTrust))
	r.frame, r.size = env.NewBuffer(min(int(size), room)), int(size)
	r.filled = copy(r.frame.B, r.head.B[r.lo:r.hi])
	r.lo = r.hi
	return nil, nil
}

// more says whether another whole frame is in head.
func (r *reader) more() bool {
	if r.hi-r.lo < 4 {
		return false
	}
	return uint64(r.hi-r.lo-4) >= uint64(binary.BigEndian.Uint32(r.head.B[r.lo:]))
}

// partial says whether the stream stands in the middle of a frame.
func (r *reader) partial() bool { return r.frame != nil || r.hi > r.lo || r.stubs > 0 }

// fill waits for bytes. No whole frame is here, so head holds a part of a length at most.
func (r *reader) fill() error {
	if r.head != nil {
		r.stubs = copy(r.stub[:], r.head.B[r.lo:r.hi])
		r.lo, r.hi = 0, 0
		r.head.Release()
		r.head = nil
	}
	var room []byte
	if r.frame != nil {
		if r.filled == len(r.frame.B) {
			r.grow()
		}
		room = r.frame.B[r.filled:]
	}
	// What comes behind the frame goes to head, but only once the frame has all the room it needs.
	n, head, err := r.source.read(room, r.frame == nil || len(r.frame.B) == r.size, r.stubs)
	if err != nil {
		return err
	}
	into := min(n, len(room))
	r.filled += into
	if n -= into; n == 0 {
		if head != nil {
			head.Release()
		}
		return nil
	}
	copy(head.B, r.stub[:r.stubs])
	r.head, r.hi = head, r.stubs+n
	r.stubs = 0
	return nil
}

func (r *reader) grow() {
	bigger := env.NewBuffer(min(r.size, 2*len(r.frame.B)))
	copy(bigger.B, r.frame.B)
	r.frame.Release()
	r.frame = bigger
}

// release gives up what the connection held when it ended.
func (r *reader) release() {
	for _, b := range []*env.Buffer{r.head, r.frame} {
		if b != nil {
			b.Release()
		}
	}
	r.head, r.frame = nil, nil
	r.lo, r.hi = 0, 0
}

// source reads from a connection.
type source interface {
	// read waits for bytes and puts them into room and, if more is set or room is empty, what follows into head, a
	// buffer that it makes, behind its first skip bytes. n counts both. An end is io.EOF.
	read(room []byte, more bool, skip int) (n int, head *env.Buffer, err error)
}

// stream is the source of connections that are more than a socket, or of systems without special care.
type stream struct{ c net.Conn }

func (s stream) read(room []byte, _ bool, skip int) (int, *env.Buffer, error) {
	if len(room) > 0 {
		n, err := s.c.Read(room)
		if n > 0 {
			err = nil // it will come again
		}
		return n, nil, err
	}
	head := env.NewBuffer(streamHead)
	n, err := s.c.Read(head.B[skip:])
	if n > 0 {
		return n, head, nil
	}
	head.Release()
	return 0, nil, err
}

// streamHead is held while such a connection waits.
const streamHead = 4 << 10
