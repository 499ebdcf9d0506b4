package real

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/windows"

	"github.com/ottla-io/ottla/internal/env"
)

// syncDir: NTFS keeps names in its journal, and folders cannot be synced.
func syncDir(*os.File) error { return nil }

func datasync(f *osFile) error { return f.File.Sync() }

func lockFile(f *os.File) (unlock func(), err error) {
	flags := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY)
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return nil, env.ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return func() {}, nil
}

// FileLimit: handles of Windows are as many as memory takes.
func (osFS) FileLimit() int { return math.MaxInt32 }

func usage(dir string) (total, usable int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var free, size, all uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, &size, &all); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(size), int64(free), nil
}
