package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
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

// openTxnIndex reads the file of a segment, if there is one. With a *DamageError comes an empty index: readers would be shown
// records of aborted transactions, so it has to be made again from the segment.
func openTxnIndex(fsys env.FS, path string, base int64) (*txnIndex, error) {
	x := &txnIndex{fsys: fsys, path: path}
	data, err := env.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, fmt.Errorf("read transaction index %s: %w", path, err)
	}
	last := base - 1
	for position := 0; position < len(data); position += txnEntrySize {
		e, problem := parseAbortedTxn(data[position:], last)
		if problem != "" {
			x.entries = nil
			return x, &DamageError{path, int64(position), problem}
		}
		x.entries, last = append(x.entries, e), e.last
	}
	return x, nil
}

// parseAbortedTxn reads the entry at the beginning of b, which follows on one with the marker last, or says what is wrong with it.
func parseAbortedTxn(b []byte, last int64) (e abortedTxn, problem string) {
	if len(b) < txnEntrySize {
		return e, "an entry that is cut off"
	}
	if v := binary.BigEndian.Uint16(b); v != 0 {
		return e, fmt.Sprintf("an entry of version %d", v)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	e = abortedTxn{at(2), at(10), at(18), at(26)}
	if e.first < 0 || e.first > e.last || e.last <= last {
		return e, fmt.Sprintf("a transaction from offset %d to %d behind a marker at %d", e.first, e.last, last)
	}
	return e, ""
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
