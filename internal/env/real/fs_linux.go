package real

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ottla-io/ottla/internal/env"
)

func syncDir(d *os.File) error { return d.Sync() }

// datasync makes the bytes and the size durable, which is all that a log needs.
func datasync(f *osFile) error {
	for {
		err := unix.Fdatasync(f.fd)
		if !errors.Is(err, unix.EINTR) {
			if err != nil {
				return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
			}
			return nil
		}
	}
}

// lockFile takes the lock of the open file description: it excludes the fcntl locks that Java takes, and unlike those
// it also excludes a second node in this process.
func lockFile(f *os.File) (unlock func(), err error) {
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: 0})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, env.ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return func() {}, nil
}

// FileLimit is what Go's runtime has raised the soft limit to, which is the hard one.
func (osFS) FileLimit() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(r.Cur)
}

func usage(dir string) (total, usable int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize, nil
}
