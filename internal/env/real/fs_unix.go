//go:build darwin || freebsd

package real

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ottla-io/ottla/internal/env"
)

// syncDir: some file systems keep names by themselves and refuse this.
func syncDir(d *os.File) error {
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

func datasync(f *osFile) error { return f.File.Sync() }

// Locks of fcntl belong to the process: a second node in it would get the lock too, and closing any descriptor of the
// file would lose it. So the files that this process has locked are kept here.
var (
	lockedMu sync.Mutex
	locked   = map[string]bool{}
)

func lockFile(f *os.File) (unlock func(), err error) {
	name, err := filepath.Abs(f.Name())
	if err != nil {
		return nil, err
	}
	lockedMu.Lock()
	defer lockedMu.Unlock()
	if locked[name] {
		return nil, env.ErrLocked
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: 0})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, env.ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	locked[name] = true
	return func() {
		lockedMu.Lock()
		defer lockedMu.Unlock()
		delete(locked, name)
	}, nil
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
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), nil
}
