package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/ottla-io/ottla/internal/env"
)

// txnEntrySize is the size of an entry of a transaction index.
const txnEntrySize = 2 + 4*8

// AbortedTxn is a transaction that was aborted.
type AbortedTxn struct {
	ProducerID, FirstOffset int64
}

// abortedTxn is an entry: the transaction began at first, its marker is at last, and afterwards everything below lastStable was
// decided. Markers rise.
type abortedTxn struct {
	producerID, first, last, lastStable int64
}

// txnIndex are the aborted transactions whose markers are in a segment. The file is made with the first one.
type txnIndex struct {
	fsys env.FS
	path string

	mu      sync.RWMutex
	entries []abortedTxn
	file    env.File
}

// openTxnIndex reads the file, if there is one. Entries from the first on that cannot be are left out, and cut off when the
// index is next written.
func openTxnIndex(fsys env.FS, path string) (*txnIndex, error) {
	x := &txnIndex{fsys: fsys, path: path}
	data, err := env.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read transaction index %s: %w", path, err)
	}
	for ; len(data) >= txnEntrySize; data = data[txnEntrySize:] {
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(data[i:])) }
		e := abortedTxn{at(2), at(10), at(18), at(26)}
		last := int64(-1)
		if n := len(x.entries); n > 0 {
			last = x.entries[n-1].last
		}
		if binary.BigEndian.Uint16(data) != 0 || e.first > e.last || e.last <= last || e.first < 0 {
			break
		}
		x.entries = append(x.entries, e)
	}
	return x, nil
}

func (x *txnIndex) append(e abortedTxn) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file == nil {
		f, err := x.fsys.Open(x.path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return fmt.Errorf("open transaction index %s: %w", x.path, err)
		}
		x.file = f
	}
	b := binary.BigEndian.AppendUint16(make([]byte, 0, txnEntrySize), 0)
	for _, v := range []int64{e.producerID, e.first, e.last, e.lastStable} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	if _, err := x.file.WriteAt(b, int64(len(x.entries))*txnEntrySize); err != nil {
		return fmt.Errorf("write transaction index %s: %w", x.path, err)
	}
	x.entries = append(x.entries, e)
	return nil
}

// collect appends the transactions with records in [from, to) to out. done says that later segments have none.
func (x *txnIndex) collect(out []AbortedTxn, from, to int64) (_ []AbortedTxn, done bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, e := range x.entries {
		if e.last >= from && e.first < to {
			out = append(out, AbortedTxn{e.producerID, e.first})
		}
		if e.lastStable >= to {
			return out, true
		}
	}
	return out, false
}

// truncate forgets transactions whose markers are at or above offset.
func (x *txnIndex) truncate(offset int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := len(x.entries)
	for n > 0 && x.entries[n-1].last >= offset {
		n--
	}
	return x.cut(n)
}

// reset forgets all.
func (x *txnIndex) reset() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cut(0)
}

func (x *txnIndex) cut(n int) error {
	x.entries = x.entries[:n]
	if x.file == nil {
		f, err := x.fsys.Open(x.path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("open transaction index %s: %w", x.path, err)
		}
		x.file = f
	}
	if err := x.file.Truncate(int64(n) * txnEntrySize); err != nil {
		return fmt.Errorf("truncate transaction index %s: %w", x.path, err)
	}
	return nil
}

func (x *txnIndex) sync() error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.file == nil {
		return nil
	}
	if err := x.file.Sync(); err != nil {
		return fmt.Errorf("sync transaction index %s: %w", x.path, err)
	}
	return nil
}

func (x *txnIndex) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file == nil {
		return nil
	}
	f := x.file
	x.file = nil
	return f.Close()
}
