package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sort"
	"strings"

	"github.com/ottla-io/ottla/internal/record"
)

// Sizes of the entries of index files, in bytes.
const (
	indexEntrySize     = 8  // int32 offset - base, int32 position
	timeIndexEntrySize = 12 // int64 timestamp, int32 offset - base
	txnEntrySize       = 34 // int16 version, int64 producer id, first offset, last offset, last stable offset
	producerEntrySize  = 46
)

type indexEntry struct{ offset, position int64 }

// sibling is the file with another ending beside an index.
func sibling(name, ext string) string { return name[:strings.LastIndexByte(name, '.')] + ext }

// readIndex reads an offset index: whole entries, a tail of zeros included.
func readIndex(name string) (base, size int64, entries []indexEntry, err error) {
	if base, err = baseOffset(name); err != nil {
		return 0, 0, nil, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, nil, err
	}
	for b := data; len(b) >= indexEntrySize; b = b[indexEntrySize:] {
		entries = append(entries, indexEntry{base + int64(int32(binary.BigEndian.Uint32(b))), int64(int32(binary.BigEndian.Uint32(b[4:])))})
	}
	return base, int64(len(data)), entries, nil
}

func (d *dump) index(name string) error {
	base, size, entries, err := readIndex(name)
	if err != nil {
		return err
	}
	log, err := openBatches(sibling(name, ".log"), 1<<62)
	if err != nil {
		return err
	}
	defer log.Close()
	if len(entries) == 0 {
		fmt.Fprintf(d.out, "%s is empty.\n", name)
		return nil
	}
	if d.sanityOnly {
		if last := entries[len(entries)-1].offset; last < base {
			return fmt.Errorf("Corrupt index found, index file (%s) has non-zero size but the last offset is %d which is less than the base offset %d", absolute(name), last, base) //nolint:staticcheck // Kafka's words
		}
		if size%indexEntrySize != 0 {
			return fmt.Errorf("Index file %s is corrupt, found %d bytes which is neither positive nor a multiple of %d", absolute(name), size, indexEntrySize) //nolint:staticcheck // Kafka's words
		}
		fmt.Fprintf(d.out, "%s passed sanity check.\n", name)
		return nil
	}
	for i, e := range entries {
		if e.offset == base && i > 0 {
			return nil // the zeros behind the last entry
		}
		log.pos = e.position
		last, err := log.lastOffset(d.maxMessage)
		if err != nil {
			return fmt.Errorf("%s: entry of offset %d: no batch at position %d of the log: %w", name, e.offset, e.position, err)
		}
		if last != e.offset {
			d.indexMismatches.add(absolute(name), "Index offset: %d, log offset: %d", e.offset, last)
		}
		if !d.verifyOnly {
			fmt.Fprintf(d.out, "offset: %d position: %d\n", e.offset, e.position)
		}
	}
	return nil
}

// lastOffset is the last offset of the batch at the position, if that is not larger than limit.
func (r *batchReader) lastOffset(limit int64) (int64, error) {
	n, err := r.size()
	if err == nil && n > limit {
		err = io.EOF
	}
	if err != nil {
		return 0, err
	}
	var head [record.BatchHeaderSize]byte
	if _, err := r.f.ReadAt(head[:], r.pos); err != nil {
		return 0, err
	}
	return record.Batch(head[:]).LastOffset(), nil
}

type timeEntry struct{ timestamp, offset int64 }

func readTimeIndex(name string) (base, size int64, entries []timeEntry, err error) {
	if base, err = baseOffset(name); err != nil {
		return 0, 0, nil, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, nil, err
	}
	for b := data; len(b) >= timeIndexEntrySize; b = b[timeIndexEntrySize:] {
		entries = append(entries, timeEntry{int64(binary.BigEndian.Uint64(b)), base + int64(int32(binary.BigEndian.Uint32(b[8:])))})
	}
	return base, int64(len(data)), entries, nil
}

func (d *dump) timeIndex(name string) error {
	base, size, entries, err := readTimeIndex(name)
	if err != nil {
		return err
	}
	log, err := openBatches(sibling(name, ".log"), 1<<62)
	if err != nil {
		return err
	}
	defer log.Close()
	_, _, offsets, err := readIndex(sibling(name, ".index"))
	if err != nil {
		return err
	}
	if d.sanityOnly {
		return d.timeIndexSanity(name, base, size, entries)
	}
	// Only the leading part of the index that is in use can be searched.
	used := sort.Search(len(offsets), func(i int) bool { return i > 0 && offsets[i].offset == base })
	offsets = offsets[:used]
	previous := record.NoTimestamp
	for i, e := range entries {
		if e.offset == base && i > 0 {
			return nil
		}
		log.pos = 0
		if at := sort.Search(len(offsets), func(i int) bool { return offsets[i].offset > e.offset }); at > 0 {
			log.pos = offsets[at-1].position
		}
		if err := d.checkTimeEntry(name, log, e, previous); err != nil {
			return err
		}
		if !d.verifyOnly {
			fmt.Fprintf(d.out, "timestamp: %d offset: %d\n", e.timestamp, e.offset)
		}
		previous = e.timestamp
	}
	return nil
}

func (d *dump) timeIndexSanity(name string, base, size int64, entries []timeEntry) error {
	if n := len(entries); n > 0 {
		first, last := entries[0], entries[n-1]
		switch {
		case last.timestamp < first.timestamp:
			return fmt.Errorf("Corrupt time index found, time index file (%s) has non-zero size but the last timestamp is %d which is less than the first timestamp %d", absolute(name), last.timestamp, first.timestamp) //nolint:staticcheck // Kafka's words
		case last.offset < base:
			return fmt.Errorf("Corrupt time index found, time index file (%s) has non-zero size but the last offset is %d which is less than the first offset %d", absolute(name), last.offset, base) //nolint:staticcheck // Kafka's words
		}
	}
	if size%timeIndexEntrySize != 0 {
		return fmt.Errorf("Time index file %s is corrupt, found %d bytes which is neither positive nor a multiple of %d", absolute(name), size, timeIndexEntrySize) //nolint:staticcheck // Kafka's words
	}
	fmt.Fprintf(d.out, "%s passed sanity check.\n", name)
	return nil
}

// checkTimeEntry compares an entry with the batch of its offset; log stands at that batch or before it.
func (d *dump) checkTimeEntry(name string, log *batchReader, e timeEntry, previous int64) error {
	for {
		b, err := log.next()
		if errors.Is(err, io.EOF) {
			d.timeNotFound.add(absolute(name), "Indexed offset: %d, found log offset: %d", e.offset, -1)
			return nil
		}
		if err != nil {
			return err
		}
		switch last := b.LastOffset(); {
		case last < e.offset:
			continue
		case last != e.offset:
			d.timeNotFound.add(absolute(name), "Indexed offset: %d, found log offset: %d", e.offset, last)
			return nil
		}
		most, it, r := record.NoTimestamp, b.Iter(nil), record.Record{}
		for it.Next(&r) {
			most = max(most, r.Timestamp)
		}
		if err := it.Err(); err != nil {
			return err
		}
		if most != e.timestamp {
			d.timeMismatches.add(absolute(name), "Index timestamp: %d, log timestamp: %d", e.timestamp, most)
		}
		if previous >= e.timestamp {
			d.timeDisorder.add(absolute(name), "Index timestamp: %d, Previously indexed timestamp: %d", e.timestamp, previous)
		}
		return nil
	}
}

// producerSnapshot prints the state of idempotent producers at an offset.
func (d *dump) producerSnapshot(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	entries, problem := producerEntries(data)
	if problem != "" {
		if err := d.out.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(d.err, "%s: %s\n", name, problem)
		return nil
	}
	for ; len(entries) > 0; entries = entries[producerEntrySize:] {
		i16 := func(at int) int16 { return int16(binary.BigEndian.Uint16(entries[at:])) }
		i32 := func(at int) int32 { return int32(binary.BigEndian.Uint32(entries[at:])) }
		i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(entries[at:])) }
		first := "OptionalLong.empty"
		if offset := i64(38); offset >= 0 {
			first = fmt.Sprintf("OptionalLong[%d]", offset)
		}
		fmt.Fprintf(d.out, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d",
			i64(0), i16(8), i32(34), first, i64(26))
		if lastOffset, delta, lastSeq := i64(14), i32(22), i32(10); lastOffset >= 0 {
			fmt.Fprintf(d.out, " firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
				record.DecrementSequence(lastSeq, delta), lastSeq, lastOffset, delta, i64(26))
		}
		fmt.Fprintln(d.out)
	}
	return nil
}

// producerEntries checks a snapshot's head and returns its entries.
func producerEntries(data []byte) (entries []byte, problem string) {
	if len(data) < 10 {
		return nil, fmt.Sprintf("snapshot of %d bytes, at least 10 are needed", len(data))
	}
	if version := binary.BigEndian.Uint16(data); version != 1 {
		return nil, fmt.Sprintf("snapshot contained an unknown file version %d", version)
	}
	if binary.BigEndian.Uint32(data[2:]) != crc32.Checksum(data[6:], crc32.MakeTable(crc32.Castagnoli)) {
		return nil, "snapshot is corrupt: its checksum is wrong"
	}
	count := int64(int32(binary.BigEndian.Uint32(data[6:])))
	if entries = data[10:]; count*producerEntrySize != int64(len(entries)) {
		return nil, fmt.Sprintf("snapshot of %d producers has %d bytes", count, len(data))
	}
	return entries, ""
}

// txnIndex prints the aborted transactions of a segment.
func (d *dump) txnIndex(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for ; len(data) >= txnEntrySize; data = data[txnEntrySize:] {
		i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(data[at:])) }
		fmt.Fprintf(d.out, "version: %d producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
			binary.BigEndian.Uint16(data), i64(2), i64(10), i64(18), i64(26))
	}
	return nil
}
