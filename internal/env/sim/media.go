package sim

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
)

// Disk is a machine's disk in the hands of the driver: what it does there costs no time, is durable at once, and is
// no operation of the node.
type Disk struct{ m *machine }

// Disk of this node's machine.
func (n *Node) Disk() Disk { return Disk{n.m} }

// SetFaults replaces those of the options.
func (d Disk) SetFaults(f DiskFaults) {
	f.setDefaults()
	d.m.disk.faults = f
}

// Faults that are in force.
func (d Disk) Faults() DiskFaults { return d.m.disk.faults }

// Files lists the paths of all files, sorted.
func (d Disk) Files() []string {
	var all []string
	var walk func(path string, in *inode)
	walk = func(path string, in *inode) {
		if !in.dir {
			all = append(all, path)
		}
		for _, name := range slices.Sorted(maps.Keys(in.entries)) {
			walk(filepath.Join(path, name), in.entries[name])
		}
	}
	walk("/", d.m.disk.root)
	return all
}

// ReadFile gives a file as programs see it.
func (d Disk) ReadFile(name string) ([]byte, error) {
	in, err := d.m.disk.lookup(name)
	if err == nil && in.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("read", name, err)
	}
	b := make([]byte, in.size)
	in.readAt(b, 0)
	return b, nil
}

// WriteFile puts a file in place of what is there. Its folder must exist.
func (d Disk) WriteFile(name string, data []byte, perm fs.FileMode) error {
	dir, base, err := d.m.disk.parent(name)
	if err != nil {
		return pathError("write", name, err)
	}
	if old := dir.entries[base]; old != nil {
		d.m.disk.unlinked(old)
	}
	in := &inode{mode: perm & 0o777, modTime: d.m.w.o.Start.Add(d.m.w.Now())}
	d.m.disk.writeAt(in, data, 0)
	in.dirty, in.syncedSize = nil, in.size
	d.m.disk.rename(change{dir, base, in})
	d.m.disk.syncNames(dir)
	return nil
}

// RemoveFile takes a file away.
func (d Disk) RemoveFile(name string) error {
	dir, base, err := d.m.disk.parent(name)
	if err != nil || dir.entries[base] == nil {
		return pathError("remove", name, syscall.ENOENT)
	}
	d.m.disk.unlinked(dir.entries[base])
	d.m.disk.rename(change{dir, base, nil})
	d.m.disk.syncNames(dir)
	return nil
}

// Corrupt flips bits of n bytes of a file, as a disk does that rots.
func (d Disk) Corrupt(name string, offset int64, n int) error {
	in, err := d.m.disk.lookup(name)
	if err != nil {
		return pathError("corrupt", name, err)
	}
	if offset < 0 || offset+int64(n) > in.size {
		return pathError("corrupt", name, fmt.Errorf("%d bytes at %d are not in a file of %d", n, offset, in.size))
	}
	d.m.w.Count("bytes rotted")
	for at := offset; at < offset+int64(n); at++ {
		no := at / pageSize
		old := in.pages.get(no)
		fresh := &page{}
		if old != nil {
			*fresh = *old
		}
		fresh[at%pageSize] ^= byte(1 + d.m.w.Disks.IntN(255))
		in.pages.set(no, fresh)
	}
	return nil
}

// Copy gives another machine the same disk as it is now, synced or not: for asking twice what a start makes of it.
// The other machine must not be running.
func (d Disk) Copy(to *Node) {
	if to.Alive() {
		panic("sim: the disk of a running machine cannot be replaced")
	}
	fresh := newDisk(d.m.w)
	fresh.faults = d.m.disk.faults
	fresh.root = d.m.disk.root.clone()
	fresh.used = d.m.disk.used
	to.m.disk = fresh
}

func (in *inode) clone() *inode {
	c := &inode{dir: in.dir, mode: in.mode, modTime: in.modTime, size: in.size, syncedSize: in.size}
	for _, p := range in.pages {
		if p != nil {
			fresh := *p
			p = &fresh
		}
		c.pages = append(c.pages, p)
	}
	if in.dir {
		c.entries, c.durable = map[string]*inode{}, map[string]*inode{}
		for name, child := range in.entries {
			c.entries[name] = child.clone()
			c.durable[name] = c.entries[name]
		}
	}
	return c
}
