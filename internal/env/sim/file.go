package sim

import (
	"hash/crc32"
	"io"
	"os"
	"syscall"
)

const pageSize = 4096

// page is the unit in which a disk forgets. A nil page reads as zeros.
type page [pageSize]byte

// content is the pages of a file, by number. Holes cost nothing.
type content []*page

func (c content) get(no int64) *page {
	if no < int64(len(c)) {
		return c[no]
	}
	return nil
}

func (c *content) set(no int64, p *page) {
	for int64(len(*c)) <= no {
		*c = append(*c, nil)
	}
	(*c)[no] = p
}

// bytes is the space that the pages take.
func (c content) bytes() int64 {
	var n int64
	for _, p := range c {
		if p != nil {
			n += pageSize
		}
	}
	return n
}

// touch keeps the durable version of a page that is about to change, and returns a copy to change.
func (in *inode) touch(no int64) *page {
	old := in.pages.get(no)
	if _, ok := in.dirty[no]; !ok {
		if in.dirty == nil {
			in.dirty = map[int64]*page{}
		}
		durable := old
		if lost, ok := in.lost[no]; ok { // written again after a failed sync: the next one counts
			durable = lost
			delete(in.lost, no)
		}
		in.dirty[no] = durable
	} else if old != nil {
		return old
	}
	fresh := &page{}
	if old != nil {
		*fresh = *old
	}
	in.pages.set(no, fresh)
	return fresh
}

func (in *inode) readAt(p []byte, off int64) int {
	if off >= in.size {
		return 0
	}
	n := int(min(int64(len(p)), in.size-off))
	for at := 0; at < n; {
		no, from := (off+int64(at))/pageSize, int((off+int64(at))%pageSize)
		step := min(pageSize-from, n-at)
		if pg := in.pages.get(no); pg != nil {
			copy(p[at:at+step], pg[from:])
		} else {
			clear(p[at : at+step])
		}
		at += step
	}
	return n
}

// writeAt returns how much there was room for.
func (d *disk) writeAt(in *inode, p []byte, off int64) int {
	at := 0
	for at < len(p) {
		no, from := (off+int64(at))/pageSize, int((off+int64(at))%pageSize)
		if in.pages.get(no) == nil && !in.removed {
			if d.used+pageSize > d.faults.Capacity {
				d.w.Count("disk full")
				break
			}
			d.used += pageSize
		}
		at += copy(in.touch(no)[from:], p[at:])
	}
	if at > 0 {
		in.size = max(in.size, off+int64(at))
	}
	return at
}

func (f fileSystem) truncate(in *inode, size int64) {
	for no := (size + pageSize - 1) / pageSize; no < int64(len(in.pages)); no++ {
		if in.pages[no] != nil {
			in.touch(no)
			in.pages[no] = nil
			if !in.removed {
				f.d.used -= pageSize
			}
		}
	}
	in.pages = in.pages[:min(int64(len(in.pages)), (size+pageSize-1)/pageSize)]
	if rest := size % pageSize; rest != 0 && size < in.size {
		if in.pages.get(size/pageSize) != nil {
			clear(in.touch(size / pageSize)[rest:])
		}
	}
	in.size, in.modTime = size, f.n.Now()
}

// sync makes a file's bytes or a folder's names durable, if the disk is willing.
func (f fileSystem) sync(in *inode) error {
	w, faults := f.d.w, &f.d.faults
	cost := w.Disks.Between(faults.MinSync, faults.MaxSync)
	if w.Disks.Chance(faults.Slow) {
		w.Count("slow sync")
		cost += w.Disks.Between(0, faults.SlowBy)
	}
	w.spend(cost)
	if w.Disks.Chance(faults.SyncError) {
		w.Count("sync failed")
		in.loseDirty()
		return syscall.EIO
	}
	if in.dir {
		f.d.syncNames(in)
		return nil
	}
	clear(in.dirty)
	in.syncedSize = in.size
	return nil
}

// loseDirty is what a failed sync does: the pages count as clean from now on and were not written.
func (in *inode) loseDirty() {
	for no, durable := range in.dirty {
		if in.lost == nil {
			in.lost = map[int64]*page{}
		}
		in.lost[no] = durable
	}
	clear(in.dirty)
}

// file is an open file.
type file struct {
	fs     fileSystem
	in     *inode
	name   string
	flag   int
	closed bool
}

func (f *file) Name() string { return f.name }

func (f *file) check(write bool) error {
	switch access := f.flag & (os.O_WRONLY | os.O_RDWR); {
	case f.fs.n.dead:
		return errDead
	case f.closed:
		return os.ErrClosed
	case write && access == os.O_RDONLY, !write && access == os.O_WRONLY:
		return syscall.EBADF
	case f.in.dir:
		return syscall.EISDIR
	}
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	err := f.check(false)
	if err == nil && off < 0 {
		err = syscall.EINVAL
	}
	w := f.fs.n.w
	if err == nil && w.Disks.Chance(f.fs.d.faults.ReadError) {
		w.Count("read failed")
		err = syscall.EIO
	}
	if err != nil {
		return 0, pathError("read", f.name, err)
	}
	n := f.in.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	err := f.check(true)
	if err == nil && (off < 0 || f.flag&os.O_APPEND != 0) {
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, pathError("write", f.name, err)
	}
	f.fs.n.operation("write")
	w, faults := f.fs.n.w, &f.fs.d.faults
	want := len(p)
	switch {
	case w.Disks.Chance(faults.WriteError):
		w.Count("write failed")
		return 0, pathError("write", f.name, syscall.EIO)
	case w.Disks.Chance(faults.ShortWrite) && want > 1:
		w.Count("short write")
		p, err = p[:w.Disks.IntN(want)], syscall.EIO
	}
	n := f.fs.d.writeAt(f.in, p, off)
	if n < len(p) {
		err = syscall.ENOSPC
	}
	f.in.modTime = f.fs.n.Now()
	w.mix(uint64(crc32.Checksum(p[:n], castagnoli)))
	f.fs.n.operation("write")
	return n, pathError("write", f.name, err)
}

func (f *file) Truncate(size int64) error {
	err := f.check(true)
	if err == nil && size < 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return pathError("truncate", f.name, err)
	}
	f.fs.n.operation("truncate")
	f.fs.truncate(f.in, size)
	f.fs.n.operation("truncate")
	return nil
}

func (f *file) Sync() error {
	switch {
	case f.fs.n.dead:
		return pathError("sync", f.name, errDead)
	case f.closed:
		return pathError("sync", f.name, os.ErrClosed)
	}
	f.fs.n.operation("sync")
	if err := f.fs.sync(f.in); err != nil {
		return pathError("sync", f.name, err)
	}
	f.fs.n.operation("sync")
	return nil
}

func (f *file) Size() (int64, error) {
	switch {
	case f.fs.n.dead:
		return 0, pathError("stat", f.name, errDead)
	case f.closed:
		return 0, pathError("stat", f.name, os.ErrClosed)
	}
	return f.in.size, nil
}

func (f *file) Close() error {
	if f.closed {
		return pathError("close", f.name, os.ErrClosed)
	}
	f.closed = true
	return nil
}
