package real

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/ottla-io/ottla/internal/env"
)

// tryWrite writes what the socket takes now and returns how much that was.
func tryWrite(t *net.TCPConn, parts []env.Part) (written int64) {
	raw, err := t.SyscallConn()
	if err != nil {
		return 0
	}
	vectors := make([][]byte, 0, 8)
	for _, p := range parts {
		if len(p.Bytes) > 0 {
			vectors = append(vectors, p.Bytes)
		}
	}
	if len(vectors) > 1024 { // the system's limit for one call
		return 0
	}
	_ = raw.Write(func(fd uintptr) bool { // an error shows again on the waiting path
		n, err := unix.Writev(int(fd), vectors)
		if err == nil {
			written = int64(n)
		}
		return true
	})
	return written
}

func canSendFile(c net.Conn, f env.File) bool {
	_, tcp := c.(*net.TCPConn)
	_, file := f.(*osFile)
	return tcp && file
}

// sendFile moves a region from file to socket inside the kernel. The offset is its own: the file's position is shared
// by all who read the segment and stays where it is.
func sendFile(c net.Conn, p env.Part) error {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	src := int(p.File.(*osFile).Fd())
	offset, left := p.Offset, p.Length
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for left > 0 {
			n, err := unix.Sendfile(int(fd), src, &offset, int(min(left, 1<<30)))
			switch {
			case errors.Is(err, unix.EAGAIN):
				return false
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil:
				failed = err
				return true
			case n == 0:
				failed = io.ErrUnexpectedEOF // the file is shorter than promised
				return true
			}
			left -= int64(n)
		}
		return true
	})
	return errors.Join(err, failed)
}
