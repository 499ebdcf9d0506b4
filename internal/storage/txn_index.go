package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
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
	file lazyFile

	mu      sync.RWMutex
	entries []abortedTxn
	written bool // in this life
}

// load reads the file, if there is one. After a *DamageError the index is empty: readers would be shown records of aborted
// transactions, so it has to be made again from the segment.
func (x *txnIndex) load() error {
	path := x.file.path()
	data, err := env.ReadFile(x.file.name.files.fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read transaction index %s: %w", path, err)
	}
	entries, last := make([]abortedTxn, 0, len(data)/txnEntrySize), x.file.name.base-1
	for position := 0; position < len(data); position += txnEntrySize {
		e, problem := parseAbortedTxn(data[position:], last)
		if problem != "" {
			return &DamageError{path, int64(position), problem}
		}
		entries, last = append(entries, e), e.last
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries = entries
	return nil
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
	b := binary.BigEndian.AppendUint16(make([]byte, 0, txnEntrySize), 0)
	for _, v := range []int64{e.producerID, e.first, e.last, e.lastStable} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	x.written = true
	err := x.file.use(func(f *openFile) error {
		_, err := f.WriteAt(b, int64(len(x.entries))*txnEntrySize)
		return err
	})
	if err != nil {
		return fmt.Errorf("write transaction index: %w", err)
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
	_, err := x.file.name.files.fsys.Stat(x.file.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		x.written = true
		err = x.file.use(func(f *openFile) error { return f.Truncate(int64(n) * txnEntrySize) })
	}
	if err != nil {
		return fmt.Errorf("truncate transaction index: %w", err)
	}
	return nil
}

func (x *txnIndex) sync() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.written {
		return nil
	}
	x.written = false
	if err := x.file.use((*openFile).Sync); err != nil {
		return fmt.Errorf("sync transaction index: %w", err)
	}
	return nil
}

func (x *txnIndex) close() error { return x.file.end() }
