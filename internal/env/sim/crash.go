package sim

import (
	"maps"
	"slices"
)

// sectorSize is what a disk writes at once.
const sectorSize = 512

// mercy is how much of what was not synced a crash leaves.
type mercy int

const (
	none   mercy = iota // nothing
	all                 // everything: the crash came late
	prefix              // what was done first
	some                // any part
)

// crash turns the disk into what the next life finds.
func (d *disk) crash() {
	w := d.w
	d.unlockAll()
	names := mercy(w.Crashes.IntN(4))
	cut := w.Crashes.IntN(len(d.names) + 1)
	for i, n := range d.names {
		if names == all || names == prefix && i < cut || names == some && w.Crashes.Chance(0.5) {
			n.persist()
		} else {
			w.Count("name lost at a crash")
		}
	}
	d.names = nil
	d.used = 0
	d.recover(d.root, mercy(w.Crashes.IntN(4)))
}

// recover goes through what is reachable, in order, and makes the durable state the visible one.
func (d *disk) recover(in *inode, m mercy) {
	in.removed = false
	if in.dir {
		in.entries = maps.Clone(in.durable)
		for _, name := range slices.Sorted(maps.Keys(in.entries)) {
			d.recover(in.entries[name], m)
		}
		return
	}
	d.recoverFile(in, m)
	d.used += in.pages.bytes()
}

func (d *disk) recoverFile(in *inode, m mercy) {
	w := d.w
	size := in.size
	switch {
	case in.size == in.syncedSize || m == all:
	case m == none:
		size = in.syncedSize
	case in.size > in.syncedSize:
		size = in.syncedSize + w.Crashes.int64n(in.size-in.syncedSize)
	case w.Crashes.Chance(0.5):
		size = in.syncedSize // a truncation that did not reach the disk
	}
	if size != in.size {
		w.Count("file size lost at a crash")
	}
	for no, durable := range in.lost {
		in.pages.set(no, durable)
	}
	numbers := slices.Sorted(maps.Keys(in.dirty))
	cut := 0
	if m == prefix {
		cut = w.Crashes.IntN(len(numbers) + 1)
	}
	for i, no := range numbers {
		if keep := m == all || m == prefix && i < cut || m == some && w.Crashes.Chance(0.5); !keep {
			w.Count("page lost at a crash")
			in.pages.set(no, in.dirty[no])
			continue
		}
		if m != all {
			in.pages.set(no, d.damage(in.pages.get(no), in.dirty[no]))
		}
	}
	in.dirty, in.lost = nil, nil
	in.cut(size)
	in.size, in.syncedSize = size, size
}

// damage makes a page of its new and its old version.
func (d *disk) damage(fresh, durable *page) *page {
	w := d.w
	result := &page{}
	if fresh != nil {
		*result = *fresh
	}
	old := &page{}
	if durable != nil {
		old = durable
	}
	switch {
	case w.Crashes.Chance(d.faults.Torn):
		w.Count("page torn at a crash")
		from := (1 + w.Crashes.IntN(pageSize/sectorSize-1)) * sectorSize
		copy(result[from:], old[from:])
	case w.Crashes.Chance(d.faults.Garbled):
		from := w.Crashes.IntN(pageSize/sectorSize) * sectorSize
		if [sectorSize]byte(result[from:]) == [sectorSize]byte(old[from:]) {
			break // this sector was not being written
		}
		w.Count("page garbled at a crash")
		var noise [sectorSize]byte
		w.Crashes.Read(noise[:])
		for i := range noise {
			// What was synced before stays: a log cannot but append to the sector in which it ends.
			if result[from+i] != old[from+i] {
				result[from+i] = noise[i]
			}
		}
	}
	return result
}

// cut drops what lies behind the end.
func (in *inode) cut(size int64) {
	pages := (size + pageSize - 1) / pageSize
	in.pages = in.pages[:min(int64(len(in.pages)), pages)]
	if rest := size % pageSize; rest != 0 {
		if last := in.pages.get(size / pageSize); last != nil {
			fresh := *last
			clear(fresh[rest:])
			in.pages[size/pageSize] = &fresh
		}
	}
}
