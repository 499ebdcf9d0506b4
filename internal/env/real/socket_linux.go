package real

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ottla-io/ottla/internal/env"
)

func newSource(c net.Conn) source {
	if raw := rawConn(c); raw != nil {
		s := &socketSource{raw: raw}
		s.step = s.try
		return s
	}
	return stream{c}
}

func newSink(c net.Conn) sink {
	if raw := rawConn(c); raw != nil {
		s := &socketSink{raw: raw}
		s.step = s.try
		return s
	}
	return streamSink{c}
}

func rawConn(c net.Conn) syscall.RawConn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// socketSource reads a socket. It holds no buffer while it waits.
type socketSource struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // try, made once

	room []byte
	more bool
	skip int
	head *env.Buffer
	n    int
	err  error
	iov  [2][]byte
}

func (s *socketSource) read(room []byte, more bool, skip int) (int, *env.Buffer, error) {
	s.room, s.more, s.skip = room, more, skip
	s.n, s.err = 0, nil
	if err := s.raw.Read(s.step); err != nil {
		return 0, nil, err
	}
	head := s.head
	s.room, s.head, s.iov = nil, nil, [2][]byte{}
	switch {
	case s.err != nil:
		return 0, nil, os.NewSyscallError("read", s.err)
	case s.n == 0:
		return 0, nil, io.EOF
	}
	return s.n, head, nil
}

// try reads once; false = nothing is there yet.
func (s *socketSource) try(fd uintptr) bool {
	list := s.iov[:0]
	if len(s.room) > 0 {
		list = append(list, s.room)
	}
	if s.more || len(s.room) == 0 {
		s.head = env.NewBuffer(headSize)
		list = append(list, s.head.B[s.skip:])
	}
	for {
		var n int
		var err error
		if len(list) == 1 {
			n, err = unix.Read(int(fd), list[0])
		} else {
			n, err = unix.Readv(int(fd), list)
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil {
			s.n = n
		}
		if (err != nil || n == 0) && s.head != nil {
			s.head.Release()
			s.head = nil
		}
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		s.err = err
		return true
	}
}

// socketSink writes a socket with as few calls as possible: memory with sendmsg, large regions of files with sendfile.
type socketSink struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // try, made once

	w       *writer
	wait    bool
	written int64
	full    bool
	err     error
	list    [][]byte
}

func (s *socketSink) sendsFiles(f env.File) bool {
	_, ok := f.(*osFile)
	return ok
}

func (s *socketSink) write(w *writer, wait bool) (int64, bool, error) {
	s.w, s.wait = w, wait
	s.written, s.full, s.err = 0, false, nil
	if err := s.raw.Write(s.step); err != nil && s.err == nil {
		s.err = err
	}
	s.w = nil
	clear(s.list[:cap(s.list)])
	return s.written, s.full, s.err
}

// try writes until everything is written, or the socket takes no more. It returns after each frame that is done, so
// that what the frame holds is given back while a slow peer reads the next.
func (s *socketSink) try(fd uintptr) bool {
	for s.w.at < len(s.w.pieces) {
		list, behind, err := s.w.gather(s.list[:0])
		s.list = list[:0]
		var n int
		switch {
		case err != nil:
		case len(list) > 0:
			flags := unix.MSG_NOSIGNAL
			if behind {
				flags |= unix.MSG_MORE // leave together with what follows
			}
			n, err = unix.SendmsgBuffers(int(fd), list, nil, nil, flags)
		default:
			n, err = sendFile(int(fd), &s.w.pieces[s.w.at])
		}
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if !s.wait {
				s.full = true
				return true
			}
			if s.written > 0 { // tell about it first
				return true
			}
			return false
		case err != nil:
			s.err = err
			return true
		default:
			s.written += int64(n)
			s.w.advance(int64(n))
		}
	}
	return true
}

// sendFile moves a part of a region from file to socket inside the kernel. The offset is the region's own: the file's
// position is shared by all who read the segment and stays where it is.
func sendFile(fd int, p *piece) (int, error) {
	offset := p.offset
	n, err := unix.Sendfile(fd, p.file.(*osFile).fd, &offset, int(min(p.length, 1<<30)))
	if err != nil {
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return 0, err
		}
		return 0, fmt.Errorf("send %d bytes at %d of %s: %w", p.length, p.offset, p.file.Name(), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("send %d bytes at %d of %s: %w", p.length, p.offset, p.file.Name(), io.ErrUnexpectedEOF)
	}
	return n, nil
}
