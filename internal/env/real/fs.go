package real

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/ottla-io/ottla/internal/env"
)

// osFS is the operating system's file system.
type osFS struct{}

func (osFS) Open(name string, flag int, perm fs.FileMode) (env.File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, fd: int(f.Fd())}, nil
}

func (osFS) Mkdir(name string, perm fs.FileMode) error    { return os.Mkdir(name, perm) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (osFS) Rename(oldName, newName string) error         { return os.Rename(oldName, newName) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	unlock, err := lockFile(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &lock{f, unlock}, nil
}

// lock is held as long as its file is open.
type lock struct {
	*os.File
	unlock func()
}

func (l *lock) Close() error {
	err := l.File.Close()
	if err == nil {
		l.unlock()
	}
	return err
}

func (osFS) Usage(dir string) (total, usable int64, err error) { return usage(dir) }

// osFile is an open file. Its descriptor is used for syncs and for sending regions; whoever does that holds the file
// open meanwhile.
type osFile struct {
	*os.File
	fd int
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) Sync() error { return datasync(f) }
