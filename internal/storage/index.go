package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ottla-io/ottla/internal/env"
)

// Sizes of index entries: offset - base and position; time and offset - base.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// index is the file of an offset or time index: entries of one size, rising by their first field. An index that is written to is
// preallocated with zeros, and cut to its entries when its segment is rolled or closed in order. Entries are found by reading the
// file; nothing of it is kept in memory but the last entry.
type index struct {
	fsys      env.FS
	path      string
	entrySize int
	maxBytes  int // 0: read only

	mu    sync.Mutex // opening and closing the file
	ended bool
	file  atomic.Pointer[openFile]
	count atomic.Int32 // entries that are there for readers
}

type openFile struct{ env.File }

// handle opens the file when it is first needed.
func (x *index) handle() (env.File, error) {
	if f := x.file.Load(); f != nil {
		return f.File, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.file.Load(); f != nil {
		return f.File, nil
	}
	if x.ended {
		return nil, fmt.Errorf("index %s: %w", x.path, fs.ErrClosed)
	}
	f, err := x.fsys.Open(x.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", x.path, err)
	}
	x.file.Store(&openFile{f})
	return f, nil
}

// exists reports whether the file is there.
func (x *index) exists() (bool, error) {
	_, err := x.fsys.Stat(x.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// load finds out how many entries the file has: all up to the first that is zero, where preallocated space begins. keep says
// whether entry i can be there at all; entries from the first that cannot are left out.
func (x *index) load(keep func(i int, entry []byte) bool) error {
	f, err := x.handle()
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of index %s: %w", x.path, err)
	}
	n := 0
	buf := make([]byte, 512*x.entrySize)
	for pos := int64(0); pos < size; pos += int64(len(buf)) {
		want := min(int64(len(buf)), size-pos)
		got, err := f.ReadAt(buf[:want], pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read index %s at %d: %w", x.path, pos, err)
		}
		for b := buf[:got]; len(b) >= x.entrySize; b = b[x.entrySize:] {
			if !keep(n, b[:x.entrySize]) {
				x.count.Store(int32(n))
				return nil
			}
			n++
		}
		if int64(got) < want {
			break
		}
	}
	x.count.Store(int32(n))
	return nil
}

// full says that there is no room for another entry, slots of which stay free.
func (x *index) full(slots int) bool {
	return (int(x.count.Load())+slots)*x.entrySize >= x.maxBytes-x.maxBytes%x.entrySize
}

// append adds an entry behind the last.
func (x *index) append(entry []byte) error {
	f, err := x.handle()
	if err != nil {
		return err
	}
	n := x.count.Load()
	if _, err := f.WriteAt(entry, int64(n)*int64(x.entrySize)); err != nil {
		return fmt.Errorf("write index %s: %w", x.path, err)
	}
	x.count.Store(n + 1)
	return nil
}

// entry reads entry i into buf.
func (x *index) entry(i int, buf []byte) error {
	f, err := x.handle()
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(buf[:x.entrySize], int64(i)*int64(x.entrySize)); err != nil {
		return fmt.Errorf("read entry %d of index %s: %w", i, x.path, err)
	}
	return nil
}

// search finds the last of n entries for which notAbove holds; -1 if there is none. buf has it.
func (x *index) search(n int, buf []byte, notAbove func(entry []byte) bool) (int, error) {
	low, high := -1, n // notAbove(low) && !notAbove(high)
	for high-low > 1 {
		mid := int(uint(low+high) / 2)
		if err := x.entry(mid, buf); err != nil {
			return -1, err
		}
		if notAbove(buf) {
			low = mid
		} else {
			high = mid
		}
	}
	if low < 0 {
		return -1, nil
	}
	return low, x.entry(low, buf)
}

// preallocate makes the file as large as it may grow, as Kafka's are that are written to.
func (x *index) preallocate(maxBytes int) error {
	x.maxBytes = maxBytes - maxBytes%x.entrySize
	return x.resize(int64(max(x.maxBytes, int(x.count.Load())*x.entrySize)))
}

// trim cuts the file to its entries.
func (x *index) trim() error { return x.resize(int64(x.count.Load()) * int64(x.entrySize)) }

func (x *index) resize(size int64) error {
	f, err := x.handle()
	if err != nil {
		return err
	}
	if have, err := f.Size(); err == nil && have == size {
		return nil
	}
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("resize index %s: %w", x.path, err)
	}
	return nil
}

// cut forgets all entries from n on. What was preallocated is zero again.
func (x *index) cut(n int) error {
	if n >= int(x.count.Load()) {
		return nil
	}
	f, err := x.handle()
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = f.Truncate(int64(n) * int64(x.entrySize))
	}
	x.count.Store(int32(n))
	if err == nil && x.maxBytes > 0 {
		err = f.Truncate(size)
	}
	if err != nil {
		return fmt.Errorf("truncate index %s: %w", x.path, err)
	}
	return nil
}

func (x *index) sync() error {
	f := x.file.Load()
	if f == nil {
		return nil
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync index %s: %w", x.path, err)
	}
	return nil
}

func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	if f := x.file.Swap(nil); f != nil {
		return f.Close()
	}
	return nil
}

// offsetIndex maps the last offset of some batches to where they begin.
type offsetIndex struct {
	index
	base int64
	last atomic.Int64 // offset of the last entry, base if there is none
}

func newOffsetIndex(fsys env.FS, path string, base int64) *offsetIndex {
	x := &offsetIndex{index: index{fsys: fsys, path: path, entrySize: offsetEntrySize}, base: base}
	x.last.Store(base)
	return x
}

// load reads how many entries there are: offsets and positions must rise, positions below size.
func (x *offsetIndex) load(size int64) error {
	relative, position := uint32(0), int64(-1)
	err := x.index.load(func(i int, e []byte) bool {
		r, p := binary.BigEndian.Uint32(e), int64(binary.BigEndian.Uint32(e[4:]))
		if r == 0 && p == 0 || i > 0 && r <= relative || p <= position || p >= size {
			return false
		}
		relative, position = r, p
		return true
	})
	x.last.Store(x.base + int64(relative))
	return err
}

func (x *offsetIndex) add(offset, position int64) error {
	var e [offsetEntrySize]byte
	binary.BigEndian.PutUint32(e[:], uint32(offset-x.base))
	binary.BigEndian.PutUint32(e[4:], uint32(position))
	if err := x.append(e[:]); err != nil {
		return err
	}
	x.last.Store(offset)
	return nil
}

// lookup finds a position at or before the batch that holds offset.
func (x *offsetIndex) lookup(offset int64) (int64, error) {
	n := int(x.count.Load())
	if n == 0 {
		return 0, nil
	}
	var e [offsetEntrySize]byte
	i, err := x.search(n, e[:], func(e []byte) bool { return x.base+int64(binary.BigEndian.Uint32(e)) <= offset })
	if err != nil || i < 0 {
		return 0, err
	}
	return int64(binary.BigEndian.Uint32(e[4:])), nil
}

// before finds the largest position of an entry that is at most position; 0 if there is none.
func (x *offsetIndex) before(position int64) (int64, error) {
	n := int(x.count.Load())
	if n == 0 {
		return 0, nil
	}
	var e [offsetEntrySize]byte
	i, err := x.search(n, e[:], func(e []byte) bool { return int64(binary.BigEndian.Uint32(e[4:])) <= position })
	if err != nil || i < 0 {
		return 0, err
	}
	return int64(binary.BigEndian.Uint32(e[4:])), nil
}

// truncate forgets entries of offsets at or above offset.
func (x *offsetIndex) truncate(offset int64) error {
	var e [offsetEntrySize]byte
	i, err := x.search(int(x.count.Load()), e[:], func(e []byte) bool { return x.base+int64(binary.BigEndian.Uint32(e)) < offset })
	if err != nil {
		return err
	}
	last := x.base
	if i >= 0 {
		last += int64(binary.BigEndian.Uint32(e[:]))
	}
	x.last.Store(last)
	return x.cut(i + 1)
}

// timeIndex maps the largest timestamp so far, from time to time, to the offset that brought it.
type timeIndex struct {
	index
	base int64
	last timestampOffset // the last entry; guarded by the log's lock
}

// timestampOffset is a time in milliseconds and where it was seen.
type timestampOffset struct{ timestamp, offset int64 }

func newTimeIndex(fsys env.FS, path string, base int64) *timeIndex {
	return &timeIndex{index: index{fsys: fsys, path: path, entrySize: timeEntrySize}, base: base, last: timestampOffset{-1, base}}
}

func (x *timeIndex) parse(e []byte) timestampOffset {
	return timestampOffset{int64(binary.BigEndian.Uint64(e)), x.base + int64(binary.BigEndian.Uint32(e[8:]))}
}

// load reads how many entries there are: times must rise.
func (x *timeIndex) load() error {
	x.last = timestampOffset{-1, x.base}
	return x.index.load(func(i int, e []byte) bool {
		t := x.parse(e)
		if t.timestamp == 0 && t.offset == x.base && i > 0 || t.timestamp <= x.last.timestamp || i > 0 && t.offset < x.last.offset {
			return false
		}
		if t.timestamp == 0 && t.offset == x.base {
			return false // preallocated space
		}
		x.last = t
		return true
	})
}

// maybeAdd adds an entry if it is later than the last. even says to use the slot that is kept for the last entry.
func (x *timeIndex) maybeAdd(t timestampOffset, even bool) error {
	if t.timestamp <= x.last.timestamp || !even && x.full(1) || x.full(0) {
		return nil
	}
	var e [timeEntrySize]byte
	binary.BigEndian.PutUint64(e[:], uint64(t.timestamp))
	binary.BigEndian.PutUint32(e[8:], uint32(t.offset-x.base))
	if err := x.append(e[:]); err != nil {
		return err
	}
	x.last = t
	return nil
}

// lookup finds the last entry whose time is at most ms; false if there is none.
func (x *timeIndex) lookup(ms int64) (timestampOffset, bool, error) {
	var e [timeEntrySize]byte
	i, err := x.search(int(x.count.Load()), e[:], func(e []byte) bool { return int64(binary.BigEndian.Uint64(e)) <= ms })
	if err != nil || i < 0 {
		return timestampOffset{-1, x.base}, false, err
	}
	return x.parse(e[:]), true, nil
}

// truncate forgets entries of offsets at or above offset.
func (x *timeIndex) truncate(offset int64) error {
	var e [timeEntrySize]byte
	i, err := x.search(int(x.count.Load()), e[:], func(e []byte) bool { return x.parse(e).offset < offset })
	if err != nil {
		return err
	}
	x.last = timestampOffset{-1, x.base}
	if i >= 0 {
		x.last = x.parse(e[:])
	}
	return x.cut(i + 1)
}
