package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/ottla-io/ottla/internal/env"
)

// defaultOpenFiles is how many files logs keep open if nothing is said about it, and the process may have twice as many.
const defaultOpenFiles = 4096

// OpenFiles are the files that logs have open: opened when they are needed, and closed again, those first that were not used for long,
// when there are more than a limit. Files that somebody uses at the moment stay open, even above it.
type OpenFiles struct {
	fsys  env.FS
	limit int

	mu   sync.Mutex
	ring []*openFile
	hand int
}

// NewOpenFiles bounds the open files of some logs. A limit below 1 leaves as many to others, sockets above all.
func NewOpenFiles(fsys env.FS, limit int) *OpenFiles {
	if limit < 1 {
		limit = max(1, min(defaultOpenFiles, fsys.FileLimit()/2))
	}
	return &OpenFiles{fsys: fsys, limit: limit}
}

// Count is how many are open now.
func (c *OpenFiles) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ring)
}

// openFile is an open file that is closed when neither its lazyFile nor anybody else needs it any more.
type openFile struct {
	env.File
	owner *lazyFile
	refs  atomic.Int32 // the owner's, and those of who uses it
	used  atomic.Bool  // since the hand was here last
	// unsynced: closed files are synced all the same, but an error of the disk that comes meanwhile might be lost with the
	// file's place in the system's memory. So files with nothing to sync are closed first.
	unsynced atomic.Bool

	at int // in the ring; guarded by OpenFiles.mu
}

// WriteAt notes that there is something to sync.
func (o *openFile) WriteAt(b []byte, at int64) (int, error) {
	o.noteChange()
	return o.File.WriteAt(b, at)
}

// Truncate notes that there is something to sync.
func (o *openFile) Truncate(size int64) error {
	o.noteChange()
	return o.File.Truncate(size)
}

func (o *openFile) noteChange() {
	if !o.unsynced.Load() {
		o.unsynced.Store(true)
	}
}

// Sync makes the file durable.
func (o *openFile) Sync() error {
	o.unsynced.Store(false) // before: what is written meanwhile may not be covered
	return o.File.Sync()
}

// Unpin is how a reader gives it up.
func (o *openFile) Unpin() { _ = o.release() }

func (o *openFile) release() error {
	if o.refs.Add(-1) == 0 {
		return o.Close()
	}
	return nil
}

// add takes a file that was just opened, and closes another if there are too many.
func (c *OpenFiles) add(o *openFile) {
	c.mu.Lock()
	o.at = len(c.ring)
	c.ring = append(c.ring, o)
	var victims []*openFile
	for len(c.ring) > c.limit {
		v := c.takeVictim()
		if v == nil {
			break
		}
		victims = append(victims, v)
	}
	c.mu.Unlock()
	for _, v := range victims {
		v.owner.noteClosed(v.release())
	}
}

// looks is how many files that could be closed are looked at to find one with nothing to sync.
const looks = 64

// takeVictim finds a file to be closed and takes it from its owner; nil if all are in use. mu is held.
func (c *OpenFiles) takeVictim() *openFile {
	var second *openFile
	seen := 0
	for range 2 * len(c.ring) {
		c.hand++
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		o := c.ring[c.hand]
		if o.used.Swap(false) || o.refs.Load() > 1 {
			continue
		}
		if o.unsynced.Load() && seen < looks {
			seen++
			if second == nil {
				second = o
			}
			continue
		}
		if c.take(o) {
			return o
		}
	}
	if second != nil && c.take(second) {
		return second
	}
	return nil
}

// take closes o for its owner if nobody uses it. mu is held; the owner, who locks first itself and mu then, is not waited for.
func (c *OpenFiles) take(o *openFile) bool {
	f := o.owner
	if !f.mu.TryLock() {
		return false
	}
	defer f.mu.Unlock()
	if f.file != o || o.refs.Load() > 1 {
		return false
	}
	f.file = nil
	c.removeLocked(o)
	return true
}

func (c *OpenFiles) remove(o *openFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(o)
}

func (c *OpenFiles) removeLocked(o *openFile) {
	last := c.ring[len(c.ring)-1]
	c.ring[o.at], last.at = last, o.at
	c.ring[len(c.ring)-1] = nil
	c.ring = c.ring[:len(c.ring)-1]
}

// segmentName says where the files of a segment are.
type segmentName struct {
	files *OpenFiles
	dir   string
	base  int64
}

func (n *segmentName) path(suffix string) string {
	return filepath.Join(n.dir, offsetName(n.base, suffix))
}

// lazyFile is one of the files of a segment, open or not.
type lazyFile struct {
	name   *segmentName
	suffix string
	mark   atomic.Pointer[string] // behind the name: of a file that does not belong to the log yet

	mu    sync.Mutex
	file  *openFile
	ended bool
	err   atomic.Pointer[error] // of closing the file when others were needed
}

func (f *lazyFile) path() string {
	if mark := f.mark.Load(); mark != nil {
		return f.name.path(f.suffix) + *mark
	}
	return f.name.path(f.suffix)
}

// rename gives the file another mark. It need not be there.
func (f *lazyFile) rename(mark string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := f.path()
	f.mark.Store(&mark)
	if err := f.name.files.fsys.Rename(from, f.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rename %s: %w", from, err)
	}
	return nil
}

// acquire opens the file if it is not open, and keeps it open until release.
func (f *lazyFile) acquire() (*openFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acquireLocked()
}

func (f *lazyFile) acquireLocked() (*openFile, error) {
	if o := f.file; o != nil {
		o.refs.Add(1)
		if !o.used.Load() {
			o.used.Store(true)
		}
		return o, nil
	}
	if f.ended {
		return nil, fmt.Errorf("%s: %w", f.path(), fs.ErrClosed)
	}
	if err := f.err.Load(); err != nil {
		return nil, *err
	}
	flags := os.O_RDWR
	if f.suffix != logSuffix { // an index may be missing and be written to again; a segment without records is none
		flags |= os.O_CREATE
	}
	file, err := f.name.files.fsys.Open(f.path(), flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.path(), err)
	}
	f.setLocked(file)
	f.file.refs.Add(1)
	return f.file, nil
}

// setLocked makes an open file this one.
func (f *lazyFile) setLocked(file env.File) {
	o := &openFile{File: file, owner: f}
	o.refs.Store(1)
	o.used.Store(true)
	f.file = o
	f.name.files.add(o)
}

// noteClosed keeps an error of closing for who uses the file next.
func (f *lazyFile) noteClosed(err error) {
	if err == nil {
		return
	}
	err = fmt.Errorf("close %s: %w", f.path(), err)
	f.err.Store(&err)
}

// touch makes the file if it is not there.
func (f *lazyFile) touch() error {
	file, err := f.name.files.fsys.Open(f.path(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", f.path(), err)
	}
	return file.Close()
}

// use runs fn with the open file.
func (f *lazyFile) use(fn func(o *openFile) error) error {
	o, err := f.acquire()
	if err != nil {
		return err
	}
	return errors.Join(fn(o), o.release())
}

// end closes the file for good, once the last who uses it is done.
func (f *lazyFile) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	return f.closeLocked()
}

// closeLocked closes the file until it is needed again.
func (f *lazyFile) closeLocked() error {
	o := f.file
	if o == nil {
		if err := f.err.Load(); err != nil {
			return *err
		}
		return nil
	}
	f.file = nil
	f.name.files.remove(o)
	return o.release()
}
