package process

import (
	"io"
	"io/fs"

	"github.com/ottla-io/ottla/internal/env"
)

// FS is the operating system's file system, for as long as the node lives.
func (e *Env) FS() env.FS { return &fileSystem{e.Env.FS(), e} }

type fileSystem struct {
	env.FS
	e *Env
}

// keep notes something to be closed when the node is killed; if it was meanwhile, it is closed.
func (e *Env) keep(c io.Closer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		_ = c.Close()
		return ErrKilled
	}
	e.open[c] = struct{}{}
	return nil
}

func (e *Env) forget(c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, c)
}

// access does something to a file, unless the node is dead.
func (e *Env) access(fn func() error) error {
	if !e.gate.pass() {
		return ErrKilled
	}
	return fn()
}

func (f *fileSystem) Open(name string, flag int, perm fs.FileMode) (env.File, error) {
	if !f.e.gate.pass() {
		return nil, ErrKilled
	}
	inner, err := f.FS.Open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if err := f.e.keep(inner); err != nil {
		return nil, err
	}
	return &file{inner, f.e}, nil
}

func (f *fileSystem) Mkdir(name string, perm fs.FileMode) error {
	return f.e.access(func() error { return f.FS.Mkdir(name, perm) })
}

func (f *fileSystem) MkdirAll(name string, perm fs.FileMode) error {
	return f.e.access(func() error { return f.FS.MkdirAll(name, perm) })
}

func (f *fileSystem) Remove(name string) error {
	return f.e.access(func() error { return f.FS.Remove(name) })
}

func (f *fileSystem) RemoveAll(name string) error {
	return f.e.access(func() error { return f.FS.RemoveAll(name) })
}

func (f *fileSystem) Rename(oldName, newName string) error {
	return f.e.access(func() error { return f.FS.Rename(oldName, newName) })
}

func (f *fileSystem) SyncDir(name string) error {
	return f.e.access(func() error { return f.FS.SyncDir(name) })
}

func (f *fileSystem) Lock(name string) (io.Closer, error) {
	if !f.e.gate.pass() {
		return nil, ErrKilled
	}
	inner, err := f.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if err := f.e.keep(inner); err != nil {
		return nil, err
	}
	return &lock{inner, f.e}, nil
}

type lock struct {
	io.Closer
	e *Env
}

func (l *lock) Close() error {
	l.e.forget(l.Closer)
	return l.Closer.Close()
}

// file is an open file of the node.
type file struct {
	env.File
	e *Env
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if !f.e.gate.pass() {
		return 0, ErrKilled
	}
	return f.File.ReadAt(p, off)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if !f.e.gate.pass() {
		return 0, ErrKilled
	}
	return f.File.WriteAt(p, off)
}

func (f *file) Truncate(size int64) error {
	return f.e.access(func() error { return f.File.Truncate(size) })
}

func (f *file) Sync() error { return f.e.access(f.File.Sync) }

func (f *file) Close() error {
	f.e.forget(f.File)
	return f.File.Close()
}
