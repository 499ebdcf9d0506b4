package sim

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ottla-io/ottla/internal/env"
)

// disk is a tree of inodes as programs see it, and in each inode what the platters hold.
type disk struct {
	w      *World
	faults DiskFaults
	root   *inode
	used   int64     // bytes of pages in the tree
	names  []*naming // not yet durable, oldest first
	locks  map[*inode]bool
}

// inode is a file or a folder. Its fields are what programs see; durable what a crash leaves for certain.
type inode struct {
	dir     bool
	mode    fs.FileMode
	modTime time.Time
	removed bool // no name leads here any more

	entries map[string]*inode // of a folder
	durable map[string]*inode // the same, as far as it was synced

	pages content // of a file
	size  int64
	// dirty holds the durable version of each page that was written since it was synced, lost that of pages whose
	// sync failed.
	dirty, lost map[int64]*page
	syncedSize  int64
}

// naming is one atomic change of names: of one entry, or of two for a rename.
type naming struct {
	changes []change
}

type change struct {
	dir  *inode
	name string
	to   *inode // nil = the name goes
}

func newDisk(w *World) *disk {
	return &disk{w: w, faults: w.o.Disk, root: newFolder(0o755), locks: map[*inode]bool{}}
}

func newFolder(perm fs.FileMode) *inode {
	return &inode{dir: true, mode: fs.ModeDir | perm, entries: map[string]*inode{}, durable: map[string]*inode{}}
}

// rename records and performs a change of names.
func (d *disk) rename(changes ...change) {
	for _, c := range changes {
		if c.to == nil {
			delete(c.dir.entries, c.name)
		} else {
			c.dir.entries[c.name] = c.to
		}
	}
	d.names = append(d.names, &naming{changes})
}

// syncNames makes the names of a folder durable, together with older changes in other folders that they rest on.
func (d *disk) syncNames(dir *inode) {
	dirs := map[*inode]bool{dir: true}
	chosen := make([]bool, len(d.names))
	for i := len(d.names) - 1; i >= 0; i-- {
		for _, c := range d.names[i].changes {
			chosen[i] = chosen[i] || dirs[c.dir]
		}
		if chosen[i] {
			for _, c := range d.names[i].changes {
				dirs[c.dir] = true
			}
		}
	}
	var rest []*naming
	for i, n := range d.names {
		if chosen[i] {
			n.persist()
		} else {
			rest = append(rest, n)
		}
	}
	d.names = rest
}

func (n *naming) persist() {
	for _, c := range n.changes {
		if c.to == nil {
			delete(c.dir.durable, c.name)
		} else {
			c.dir.durable[c.name] = c.to
		}
	}
}

// lookup walks to a path. Relative paths start at the root.
func (d *disk) lookup(name string) (*inode, error) {
	in := d.root
	for part := range parts(name) {
		if !in.dir {
			return nil, syscall.ENOTDIR
		}
		next := in.entries[part]
		if next == nil {
			return nil, syscall.ENOENT
		}
		in = next
	}
	return in, nil
}

// parent walks to the folder that holds a path's last element.
func (d *disk) parent(name string) (dir *inode, base string, err error) {
	name = filepath.Clean("/" + filepath.ToSlash(name))
	base = filepath.Base(name)
	if dir, err = d.lookup(filepath.Dir(name)); err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	return dir, base, err
}

func parts(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(filepath.ToSlash(filepath.Clean("/"+filepath.ToSlash(name))), "/") {
			if part != "" && !yield(part) {
				return
			}
		}
	}
}

// unlinked gives the space of a file back, or of everything in a folder.
func (d *disk) unlinked(in *inode) {
	in.removed = true
	d.used -= in.pages.bytes()
	for _, child := range in.entries {
		d.unlinked(child)
	}
}

func (d *disk) unlockAll() { clear(d.locks) }

// fileSystem is a disk as one life of its machine uses it.
type fileSystem struct {
	n *Node
	d *disk
}

// begin is called at the start of everything that changes the disk.
func (f fileSystem) begin(op, name string) error {
	if f.n.dead {
		return &fs.PathError{Op: op, Path: name, Err: errDead}
	}
	f.n.operation(op)
	return nil
}

// end is called once the change has been made.
func (f fileSystem) end(op string) { f.n.operation(op) }

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (f fileSystem) Open(name string, flag int, perm fs.FileMode) (env.File, error) {
	in, err := f.open(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &file{fs: f, in: in, name: name, flag: flag}, nil
}

func (f fileSystem) open(name string, flag int, perm fs.FileMode) (*inode, error) {
	if f.n.dead {
		return nil, errDead
	}
	in, err := f.d.lookup(name)
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case err == nil && flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case err == nil && in.dir && (writes || flag&os.O_CREATE != 0):
		return nil, syscall.EISDIR
	case errors.Is(err, syscall.ENOENT) && flag&os.O_CREATE != 0:
		dir, base, err := f.d.parent(name)
		if err != nil {
			return nil, err
		}
		f.n.operation("create")
		in = &inode{mode: perm & 0o777, modTime: f.n.Now()}
		f.d.rename(change{dir, base, in})
		f.n.operation("create")
		return in, nil
	case err != nil:
		return nil, err
	}
	if flag&os.O_TRUNC != 0 && writes && in.size > 0 {
		f.n.operation("truncate")
		f.truncate(in, 0)
		f.n.operation("truncate")
	}
	return in, nil
}

func (f fileSystem) Mkdir(name string, perm fs.FileMode) error {
	if err := f.begin("mkdir", name); err != nil {
		return err
	}
	dir, base, err := f.d.parent(name)
	if err != nil {
		return pathError("mkdir", name, err)
	}
	if _, err := f.d.lookup(name); err == nil {
		return pathError("mkdir", name, syscall.EEXIST)
	}
	in := newFolder(perm & 0o777)
	in.modTime = f.n.Now()
	f.d.rename(change{dir, base, in})
	f.end("mkdir")
	return nil
}

func (f fileSystem) MkdirAll(name string, perm fs.FileMode) error {
	if f.n.dead {
		return pathError("mkdir", name, errDead)
	}
	path := ""
	for part := range parts(name) {
		path += "/" + part
		switch in, err := f.d.lookup(path); {
		case err == nil && in.dir:
		case err == nil:
			return pathError("mkdir", name, syscall.ENOTDIR)
		default:
			if err := f.Mkdir(path, perm); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f fileSystem) Remove(name string) error {
	if err := f.begin("remove", name); err != nil {
		return err
	}
	in, err := f.d.lookup(name)
	if err == nil && len(in.entries) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	f.unlink(name, in)
	f.end("remove")
	return nil
}

func (f fileSystem) unlink(name string, in *inode) {
	dir, base, err := f.d.parent(name)
	if err != nil {
		panic("sim: a file without a folder")
	}
	f.d.rename(change{dir, base, nil})
	f.d.unlinked(in)
}

// RemoveAll removes one name after another, as a program does.
func (f fileSystem) RemoveAll(name string) error {
	if f.n.dead {
		return pathError("removeall", name, errDead)
	}
	in, err := f.d.lookup(name)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		return pathError("removeall", name, err)
	}
	for _, child := range slices.Sorted(maps.Keys(in.entries)) {
		if err := f.RemoveAll(filepath.Join(name, child)); err != nil {
			return err
		}
	}
	return f.Remove(name)
}

func (f fileSystem) Rename(oldName, newName string) error {
	if err := f.begin("rename", oldName); err != nil {
		return err
	}
	if err := f.doRename(oldName, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	f.end("rename")
	return nil
}

func (f fileSystem) doRename(oldName, newName string) error {
	in, err := f.d.lookup(oldName)
	if err != nil {
		return err
	}
	oldDir, oldBase, err := f.d.parent(oldName)
	if err != nil {
		return err
	}
	newDir, newBase, err := f.d.parent(newName)
	if err != nil {
		return err
	}
	switch target := newDir.entries[newBase]; {
	case target == in:
		return nil
	case target != nil && target.dir:
		return syscall.EEXIST // what package os makes of it
	case target != nil && in.dir:
		return syscall.ENOTDIR
	case in.dir && in.holds(newDir):
		return syscall.EINVAL
	case target != nil:
		f.d.unlinked(target)
	}
	f.d.rename(change{oldDir, oldBase, nil}, change{newDir, newBase, in})
	return nil
}

// holds says whether other is this folder or in it.
func (in *inode) holds(other *inode) bool {
	if in == other {
		return true
	}
	for _, child := range in.entries {
		if child.dir && child.holds(other) {
			return true
		}
	}
	return false
}

func (f fileSystem) ReadDir(name string) ([]fs.DirEntry, error) {
	if f.n.dead {
		return nil, pathError("open", name, errDead)
	}
	in, err := f.d.lookup(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if !in.dir {
		return nil, pathError("readdirent", name, syscall.ENOTDIR)
	}
	all := make([]fs.DirEntry, 0, len(in.entries))
	for _, child := range slices.Sorted(maps.Keys(in.entries)) {
		all = append(all, fs.FileInfoToDirEntry(in.entries[child].info(child)))
	}
	return all, nil
}

func (f fileSystem) Stat(name string) (fs.FileInfo, error) {
	if f.n.dead {
		return nil, pathError("stat", name, errDead)
	}
	in, err := f.d.lookup(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return in.info(filepath.Base(filepath.Clean(name))), nil
}

func (f fileSystem) SyncDir(name string) error {
	if err := f.begin("syncdir", name); err != nil {
		return err
	}
	in, err := f.d.lookup(name)
	if err != nil {
		return pathError("open", name, err)
	}
	if err := f.sync(in); err != nil {
		return pathError("sync", name, err)
	}
	f.end("syncdir")
	return nil
}

func (f fileSystem) Lock(name string) (io.Closer, error) {
	in, err := f.open(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if f.d.locks[in] {
		return nil, env.ErrLocked
	}
	f.d.locks[in] = true
	return &lock{f, in}, nil
}

type lock struct {
	f  fileSystem
	in *inode
}

func (l *lock) Close() error {
	if l.in == nil {
		return os.ErrClosed
	}
	if !l.f.n.dead { // or it may be the next life's
		delete(l.f.d.locks, l.in)
	}
	l.in = nil
	return nil
}

func (f fileSystem) Usage(dir string) (total, usable int64, err error) {
	if _, err := f.d.lookup(dir); err != nil {
		return 0, 0, pathError("statfs", dir, err)
	}
	return f.d.faults.Capacity, max(f.d.faults.Capacity-f.d.used, 0), nil
}

func (f fileSystem) FileLimit() int { return math.MaxInt32 }

// info is what Stat tells.
type info struct {
	name string
	size int64
	mode fs.FileMode
	time time.Time
}

func (in *inode) info(name string) info { return info{name, in.size, in.mode, in.modTime} }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.time }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
