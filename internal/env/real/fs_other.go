//go:build !linux

package real

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/ottla-io/ottla/internal/env"
)

// syncDir: where folders cannot be synced the system keeps names by itself.
func syncDir(d *os.File) error {
	_ = d.Sync()
	return nil
}

func datasync(f *os.File) error { return f.Sync() }

var (
	lockedMu sync.Mutex
	locked   = map[string]bool{}
)

// lockFile excludes other nodes of this process only.
func lockFile(f *os.File) error {
	lockedMu.Lock()
	defer lockedMu.Unlock()
	if locked[f.Name()] {
		return env.ErrLocked
	}
	locked[f.Name()] = true
	return nil
}

func usage(dir string) (total, usable int64, err error) {
	return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: fmt.Errorf("free space is unknown on this system")}
}
