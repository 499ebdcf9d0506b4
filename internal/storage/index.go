package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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

// offsetIndex maps the last offset of some batches to where they begin.
type offsetIndex struct {
	index
	size int64 // of the segment when it was opened: no entry that the file has then leads behind it
}

// indexed is an entry: a batch with an offset, its last one, begins at position.
type indexed struct{ offset, position int64 }

func (x *offsetIndex) parse(e []byte) indexed {
	return indexed{x.file.name.base + int64(binary.BigEndian.Uint32(e)), int64(binary.BigEndian.Uint32(e[4:]))}
}

// ready reads how many entries there are: offsets and positions must rise, positions below the size of the segment. mu is held.
func (x *offsetIndex) ready() error {
	if x.known {
		return nil
	}
	last := indexed{-1, -1}
	return x.index.ready(func(i int, b []byte) bool {
		e := x.parse(b)
		if e.position == 0 && e.offset == x.file.name.base || e.offset <= last.offset || e.position <= last.position || e.position >= x.size {
			return false
		}
		last = e
		return true
	})
}

func (x *offsetIndex) maybeAdd(offset, position int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(); err != nil {
		return err
	}
	if x.discarded || x.index.full(0) {
		return nil
	}
	var e [offsetEntrySize]byte
	binary.BigEndian.PutUint32(e[:], uint32(offset-x.file.name.base))
	binary.BigEndian.PutUint32(e[4:], uint32(position))
	return x.append(e[:])
}

func (x *offsetIndex) full() (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.ready()
	return x.index.full(0), err
}

// bytes is what the entries take.
func (x *offsetIndex) bytes() (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.ready()
	return int64(x.count) * int64(x.entrySize), err
}

// lookup finds the last entry at or below offset; false if there is none.
func (x *offsetIndex) lookup(offset int64) (indexed, bool, error) {
	return x.find(func(e indexed) bool { return e.offset <= offset })
}

// last is the last entry. sound says that it is the last that was ever added.
func (x *offsetIndex) last() (e indexed, ok, sound bool, err error) {
	e, ok, err = x.lookup(math.MaxInt64)
	x.mu.Lock()
	defer x.mu.Unlock()
	return e, ok, !x.damaged && !x.discarded, err
}

// before finds the entry with the largest position that is at most position.
func (x *offsetIndex) before(position int64) (indexed, bool, error) {
	return x.find(func(e indexed) bool { return e.position <= position })
}

func (x *offsetIndex) find(notAbove func(indexed) bool) (indexed, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(); err != nil {
		return indexed{}, false, err
	}
	var e [offsetEntrySize]byte
	i, err := x.search(e[:], func(e []byte) bool { return notAbove(x.parse(e)) })
	if err != nil || i < 0 {
		return indexed{}, false, err
	}
	return x.parse(e[:]), true, nil
}

// truncate forgets entries of offsets at or above offset.
func (x *offsetIndex) truncate(offset int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(); err != nil {
		return err
	}
	var e [offsetEntrySize]byte
	i, err := x.search(e[:], func(e []byte) bool { return x.parse(e).offset < offset })
	if err != nil {
		return err
	}
	return x.cut(i + 1)
}

// timeIndex maps the largest timestamp so far, from time to time, to the offset that brought it.
type timeIndex struct {
	index
	latest timestampOffset // the last entry, once the entries are known
}

// timestampOffset is a time in milliseconds and where it was seen.
type timestampOffset struct{ timestamp, offset int64 }

func (x *timeIndex) parse(e []byte) timestampOffset {
	return timestampOffset{int64(binary.BigEndian.Uint64(e)), x.file.name.base + int64(binary.BigEndian.Uint32(e[8:]))}
}

// ready reads how many entries there are: times must rise. mu is held.
func (x *timeIndex) ready() error {
	if x.known {
		return nil
	}
	base := x.file.name.base
	x.latest = timestampOffset{-1, base}
	return x.index.ready(func(i int, e []byte) bool {
		t := x.parse(e)
		if t.timestamp == 0 && t.offset == base || t.timestamp <= x.latest.timestamp || t.offset < x.latest.offset {
			return false
		}
		x.latest = t
		return true
	})
}

// last is the last entry: time -1 if there is none. sound says that it is the last that was ever added.
func (x *timeIndex) last() (t timestampOffset, sound bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.ready()
	return x.latest, !x.damaged && !x.discarded, err
}

// bytes is what the entries take.
func (x *timeIndex) bytes() (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.ready()
	return int64(x.count) * int64(x.entrySize), err
}

// full says that only the slot is left that is kept for the last entry.
func (x *timeIndex) full() (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.ready()
	return x.index.full(1), err
}

// maybeAdd adds an entry if it is later than the last. even says to use the slot that is kept for the last entry.
func (x *timeIndex) maybeAdd(t timestampOffset, even bool) error {
	if t.timestamp < 0 { // never later than anything: the file need not be looked at
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(); err != nil {
		return err
	}
	if x.discarded || t.timestamp <= x.latest.timestamp || !even && x.index.full(1) || x.index.full(0) {
		return nil
	}
	var e [timeEntrySize]byte
	binary.BigEndian.PutUint64(e[:], uint64(t.timestamp))
	binary.BigEndian.PutUint32(e[8:], uint32(t.offset-x.file.name.base))
	x.latest = t
	return x.append(e[:])
}

// lookup finds the last entry whose time is at most ms; false if there is none.
func (x *timeIndex) lookup(ms int64) (timestampOffset, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(); err != nil {
		return timestampOffset{}, false, err
	}
	var e [timeEntrySize]byte
	i, err := x.search(e[:], func(e []byte) bool { return int64(binary.BigEndian.Uint64(e)) <= ms })
	return x.parse(e[:]), i >= 0, err
}

// truncate forgets entries of offsets at or above offset.
func (x *timeIndex) truncate(offset int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.ready(); err != nil {
		return err
	}
	var e [timeEntrySize]byte
	i, err := x.search(e[:], func(e []byte) bool { return x.parse(e).offset < offset })
	if err != nil {
		return err
	}
	x.latest = timestampOffset{-1, x.file.name.base}
	if i >= 0 {
		x.latest = x.parse(e[:])
	}
	return x.cut(i + 1)
}

// discard removes the file.
func (x *timeIndex) discard() error {
	err := x.index.discard()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.latest = timestampOffset{-1, x.file.name.base}
	return err
}

// resetEntries forgets everything.
func (x *timeIndex) resetEntries() error {
	x.latest = timestampOffset{-1, x.file.name.base}
	return x.reset()
}
