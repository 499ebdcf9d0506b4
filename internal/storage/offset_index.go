package storage

import (
	"encoding/binary"
	"math"
)

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
