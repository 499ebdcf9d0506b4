package env

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrLocked says that another process holds the lock on a file.
var ErrLocked = errors.New("locked by another process")

// FS is a file system with the durability rules of POSIX: a file's bytes survive a crash once the file was synced, its
// name once the folder was. Errors are those of package os (*fs.PathError, fs.ErrNotExist and so on).
type FS interface {
	// Open takes the flags of os.OpenFile.
	Open(name string, flag int, perm fs.FileMode) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	// Rename replaces newName atomically.
	Rename(oldName, newName string) error
	// ReadDir lists a folder sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
	// Lock takes the advisory lock that Kafka takes on .lock, creating the file; ErrLocked if somebody has it.
	Lock(name string) (io.Closer, error)
	// Usage tells the size of the volume and what is left of it, in bytes.
	Usage(dir string) (total, usable int64, err error)
	// FileLimit is how many files and sockets the process may have open at once.
	FileLimit() int
}

// File is an open file. Reads and writes at disjoint places may go on at the same time.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	Truncate(size int64) error
	// Sync returns once the bytes are durable. An error is final: what was written may be lost.
	Sync() error
}

// ReadFile reads a whole file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// WriteFileAtomic replaces a file so that after a crash either the old or the new bytes are there: a file with the
// suffix .tmp is written and synced, renamed, and the folder synced.
func WriteFileAtomic(fsys FS, name string, data []byte, perm fs.FileMode) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data, perm); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return fmt.Errorf("rename %s: %w", tmp, err)
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("sync folder of %s: %w", name, err)
	}
	return nil
}

func writeSynced(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.Open(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", name, err), f.Close())
	}
	return f.Close()
}
