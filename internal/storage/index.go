package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
)

// Sizes of index entries: offset - base and position; time and offset - base.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// keptEntries is how many new entries an index keeps in memory until it writes them. After a crash the index of a segment that was
// written to is made again, whatever is in the file.
const keptEntries = 64

// index is the file of an offset or time index: entries of one size, rising by their first field. An index that is written to is
// preallocated with zeros, and cut to its entries when its segment is rolled or closed in order. Entries are found by reading the
// file; nothing of it is kept in memory but the last few entries.
type index struct {
	file      lazyFile
	entrySize int
	maxBytes  int // 0: read only

	mu       sync.Mutex
	known    bool   // count is; else it is found out from the file
	count    int    // entries
	kept     []byte // the last of them, if they are not in the file yet
	reserved bool   // the file was preallocated
	unsynced bool
	// discarded: the file was removed because it was wrong, and the next life makes it. Until then the index is empty and stays so.
	discarded bool
	// damaged: behind the entries that count there is something that is no preallocated space.
	damaged bool
}

// ready finds out how many entries the file has, if nobody knows. mu is held.
func (x *index) ready(valid func(i int, entry []byte) bool) error {
	if x.known {
		return nil
	}
	n, err := x.countEntries(valid)
	if err != nil {
		return err
	}
	x.count, x.known = n, true
	return nil
}

// countEntries counts the entries up to the first that is zero, where preallocated space begins, or that cannot be right.
func (x *index) countEntries(valid func(i int, entry []byte) bool) (n int, err error) {
	err = x.file.use(func(f *openFile) error {
		size, err := f.Size()
		if err != nil {
			return fmt.Errorf("size of index %s: %w", f.Name(), err)
		}
		buf := make([]byte, 512*x.entrySize)
		for pos := int64(0); pos < size; pos += int64(len(buf)) {
			want := min(int64(len(buf)), size-pos)
			got, err := f.ReadAt(buf[:want], pos)
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read index %s at %d: %w", f.Name(), pos, err)
			}
			for b := buf[:got]; len(b) >= x.entrySize; b = b[x.entrySize:] {
				if e := b[:x.entrySize]; !valid(n, e) {
					x.damaged = slices.ContainsFunc(e, func(c byte) bool { return c != 0 })
					return nil
				}
				n++
			}
			if int64(got) < want {
				return nil
			}
		}
		return nil
	})
	return n, err
}

// written is how many entries are in the file. mu is held.
func (x *index) written() int { return x.count - len(x.kept)/x.entrySize }

// full says that there is no room for another entry, slots of which stay free. mu is held.
func (x *index) full(slots int) bool {
	return !x.discarded && (x.count+slots)*x.entrySize >= x.maxBytes-x.maxBytes%x.entrySize
}

// append adds an entry behind the last. mu is held.
func (x *index) append(entry []byte) error {
	if err := x.reserve(); err != nil {
		return err
	}
	if x.kept == nil {
		x.kept = make([]byte, 0, keptEntries*x.entrySize)
	}
	if len(x.kept)+x.entrySize > cap(x.kept) {
		if err := x.writeKept(); err != nil {
			return err
		}
	}
	x.kept = append(x.kept, entry...)
	x.count++
	return nil
}

// writeKept brings all entries into the file. mu is held.
func (x *index) writeKept() error {
	if len(x.kept) == 0 {
		return nil
	}
	x.unsynced = true
	err := x.file.use(func(f *openFile) error {
		_, err := f.WriteAt(x.kept, int64(x.written())*int64(x.entrySize))
		return err
	})
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	x.kept = x.kept[:0]
	return nil
}

// search finds the last entry for which notAbove holds and gives its number; -1 if there is none. buf has it. mu is held.
func (x *index) search(buf []byte, notAbove func(entry []byte) bool) (int, error) {
	n := x.written()
	if len(x.kept) > 0 && notAbove(x.kept[:x.entrySize]) {
		return n + x.searchKept(buf, notAbove), nil
	}
	if n == 0 {
		return -1, nil
	}
	low := -1
	err := x.file.use(func(f *openFile) error {
		read := func(i int) error {
			if _, err := f.ReadAt(buf[:x.entrySize], int64(i)*int64(x.entrySize)); err != nil {
				return fmt.Errorf("read entry %d of index %s: %w", i, f.Name(), err)
			}
			return nil
		}
		high := n // notAbove(low) && !notAbove(high)
		for high-low > 1 {
			mid := int(uint(low+high) / 2)
			if err := read(mid); err != nil {
				return err
			}
			if notAbove(buf) {
				low = mid
			} else {
				high = mid
			}
		}
		if low < 0 {
			return nil
		}
		return read(low)
	})
	return low, err
}

func (x *index) searchKept(buf []byte, notAbove func(entry []byte) bool) int {
	i := 0
	for (i+2)*x.entrySize <= len(x.kept) && notAbove(x.kept[(i+1)*x.entrySize:(i+2)*x.entrySize]) {
		i++
	}
	copy(buf, x.kept[i*x.entrySize:(i+1)*x.entrySize])
	return i
}

// reserve makes the file as large as it may grow, as Kafka's are that are written to. mu is held.
func (x *index) reserve() error {
	if x.reserved || x.maxBytes == 0 {
		return nil
	}
	x.reserved = true
	return x.resize(int64(max(x.maxBytes, x.count*x.entrySize)))
}

// limit says how large the file may grow.
func (x *index) limit(maxBytes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.maxBytes = maxBytes - maxBytes%x.entrySize
}

// trim cuts the file to its entries. Where nobody looked for them nothing was added, and the file is as the last life left it.
func (x *index) trim() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.known || x.discarded || x.maxBytes == 0 {
		return nil
	}
	if err := x.writeKept(); err != nil {
		return err
	}
	x.kept, x.reserved = nil, false
	return x.resize(int64(x.count) * int64(x.entrySize))
}

// resize changes the size of the file if that is another one. mu is held.
func (x *index) resize(size int64) error {
	return x.file.use(func(f *openFile) error {
		if have, err := f.Size(); err == nil && have == size {
			return nil
		}
		x.unsynced = true
		if err := f.Truncate(size); err != nil {
			return fmt.Errorf("resize index %s: %w", f.Name(), err)
		}
		return nil
	})
}

// cut forgets all entries from n on. What was preallocated is zero again. mu is held.
func (x *index) cut(n int) error {
	if n >= x.count {
		return nil
	}
	if w := x.written(); n >= w {
		x.kept, x.count = x.kept[:(n-w)*x.entrySize], n
		return nil
	}
	x.kept, x.count = nil, n
	if err := x.resize(int64(n) * int64(x.entrySize)); err != nil {
		return err
	}
	if x.reserved {
		x.reserved = false
		return x.reserve()
	}
	return nil
}

// reset forgets everything, also what the file holds.
func (x *index) reset() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known, x.count, x.kept, x.reserved, x.discarded, x.damaged = true, 0, nil, false, false, false
	x.unsynced = true // even if the file is empty now: what a life before has cut off may come back
	return x.resize(0)
}

// discard removes an index that cannot be right: positions are found without it, and the next life makes it again.
func (x *index) discard() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known, x.count, x.kept, x.reserved, x.unsynced, x.discarded, x.damaged = true, 0, nil, false, false, true, false
	x.file.mu.Lock()
	err := x.file.closeLocked()
	x.file.mu.Unlock()
	if err2 := x.file.name.files.fsys.Remove(x.file.path()); err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
		err = errors.Join(err, err2)
	}
	return err
}

func (x *index) sync() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.writeKept(); err != nil {
		return err
	}
	if !x.unsynced {
		return nil
	}
	x.unsynced = false
	if err := x.file.use((*openFile).Sync); err != nil {
		return fmt.Errorf("sync index: %w", err)
	}
	return nil
}

func (x *index) close() error { return x.file.end() }
