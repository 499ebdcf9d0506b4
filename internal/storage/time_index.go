package storage

import (
	"encoding/binary"
)

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
