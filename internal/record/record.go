package record

import (
	"errors"
	"io"
	"math"
)

// Header is one header of a record. Value is nil for null.
type Header struct {
	Key   []byte // UTF-8
	Value []byte
}

// Record is one record of a batch.
type Record struct {
	Attributes int8 // no bit has a meaning
	Offset     int64
	Timestamp  int64  // milliseconds; the batch's MaxTimestamp if that is a LogAppendTime batch
	Key        []byte // nil = null
	Value      []byte // nil = null
	Headers    []Header
}

// Iter walks the records of a batch:
//
//	it := batch.Iter(dec)
//	for it.Next(&rec) {
//	}
//	if err := it.Err(); err != nil …
//
// The batch is not copied and its CRC not checked. It need not be valid; errors are of kind
// InvalidRecord or UnknownServerError.
type Iter struct {
	win   []byte // records, from pos on not yet returned
	pos   int
	index int32 // of the next record
	count int32
	dec   *Decompressor // nil when the batch is not compressed
	err   error

	baseOffset    int64
	baseTimestamp int64
	logAppendTime bool
	maxTimestamp  int64
}

// Iter starts at the first record. dec is used if the batch is compressed and may be nil, then one
// is made. What Next returns aliases the batch, or, if that is compressed, dec, and then lasts
// until the next call of Next.
func (b Batch) Iter(dec *Decompressor) Iter {
	it := Iter{
		count:         b.Count(),
		baseOffset:    b.BaseOffset(),
		baseTimestamp: b.BaseTimestamp(),
		logAppendTime: b.TimestampType() == LogAppendTime,
		maxTimestamp:  b.MaxTimestamp(),
	}
	if it.count < 0 {
		it.err = invalidf("record count is %d", it.count)
		return it
	}
	codec := b.Compression()
	if codec == None {
		it.win = b.Payload()
		return it
	}
	if it.count == 0 { // a batch that compaction has emptied
		return it
	}
	if dec == nil {
		dec = new(Decompressor)
	}
	dec.open(codec, b.Payload())
	it.dec = dec
	it.win = dec.window[:0]
	return it
}

// Err is what ended the iteration early, nil if nothing did.
func (it *Iter) Err() error { return it.err }

// Next reads the next record into r, whose Headers slice is used again. It returns false at the
// end and on an error.
func (it *Iter) Next(r *Record) bool {
	if it.err != nil {
		return false
	}
	if it.index >= it.count {
		it.end()
		return false
	}
	for {
		size, at := varint(it.win, it.pos)
		switch {
		case at > 0 && size < 0:
			it.err = invalidf("record %d has size %d", it.index, size)
			return false
		case at > 0 && int(size) <= len(it.win)-at:
			return it.parse(r, it.win[at:at+int(size)], at+int(size))
		case at < 0 && len(it.win)-it.pos >= 5:
			it.err = invalidf("record %d has a size that is no varint", it.index)
			return false
		}
		if !it.refill() {
			return false
		}
	}
}

// refill moves what is left of the window to its front and appends the next chunk.
func (it *Iter) refill() bool {
	if it.dec == nil {
		it.err = it.cut()
		return false
	}
	n := copy(it.win, it.win[it.pos:])
	win, err := it.dec.fill(it.win[:n])
	it.win, it.pos = win, 0
	it.dec.window = win[:0]
	if errors.Is(err, io.EOF) {
		err = it.cut()
	}
	it.err = err
	return err == nil
}

func (it *Iter) cut() error {
	return invalidf("records end within record %d of %d", it.index, it.count)
}

// end checks that nothing follows the last record.
func (it *Iter) end() {
	if it.dec == nil {
		if it.pos != len(it.win) {
			it.err = invalidf("%d bytes follow the last record", len(it.win)-it.pos)
		}
		return
	}
	dec := it.dec
	it.dec = nil
	if it.pos != len(it.win) {
		it.err = invalidf("bytes follow the last record")
	} else if _, err := dec.fill(it.win[:0]); err == nil {
		it.err = invalidf("bytes follow the last record")
	} else if !errors.Is(err, io.EOF) {
		it.err = err
	}
	it.win, it.pos = nil, 0
	dec.close()
}

// parse reads one record's body; next is where the one behind it starts.
func (it *Iter) parse(r *Record, body []byte, next int) bool {
	if len(body) == 0 {
		it.err = invalidf("record %d is empty", it.index)
		return false
	}
	r.Attributes = int8(body[0])
	timestampDelta, i := varlong(body, 1)
	if i < 0 {
		return it.malformed()
	}
	offsetDelta, i := varint(body, i)
	if i < 0 {
		return it.malformed()
	}
	r.Offset = it.baseOffset + int64(offsetDelta)
	r.Timestamp = it.baseTimestamp + timestampDelta
	if it.logAppendTime {
		r.Timestamp = it.maxTimestamp
	}
	if r.Key, i = field(body, i); i < 0 {
		return it.malformed()
	}
	if r.Value, i = field(body, i); i < 0 {
		return it.malformed()
	}
	headers, i := varint(body, i)
	// A header takes at least two bytes.
	if i < 0 || headers < 0 || int(headers) > (len(body)-i)/2 {
		return it.malformed()
	}
	r.Headers = r.Headers[:0]
	for range headers {
		var h Header
		if h.Key, i = field(body, i); i < 0 || h.Key == nil {
			return it.malformed()
		}
		if h.Value, i = field(body, i); i < 0 {
			return it.malformed()
		}
		r.Headers = append(r.Headers, h)
	}
	if i != len(body) {
		it.err = invalidf("record %d has %d bytes more than its fields", it.index, len(body)-i)
		return false
	}
	it.pos = next
	it.index++
	return true
}

func (it *Iter) malformed() bool {
	it.err = invalidf("record %d is malformed", it.index)
	return false
}

// field reads a length and as many bytes; a negative length is null. next is negative on error.
func field(b []byte, i int) (v []byte, next int) {
	n, i := varint(b, i)
	if i < 0 {
		return nil, -1
	}
	if n < 0 {
		return nil, i
	}
	if int(n) > len(b)-i {
		return nil, -1
	}
	return b[i : i+int(n) : i+int(n)], i + int(n)
}

// RecordSize returns the bytes of a record in a batch, before compression.
func RecordSize(offsetDelta int32, timestampDelta int64, key, value []byte, headers []Header) int {
	n := bodySize(offsetDelta, timestampDelta, key, value, headers)
	return varintSize(int64(n)) + n
}

// MaxRecordOverhead is above what a record without headers takes beyond its key and value.
const MaxRecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 1

func bodySize(offsetDelta int32, timestampDelta int64, key, value []byte, headers []Header) int {
	n := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) +
		fieldSize(key) + fieldSize(value) + varintSize(int64(len(headers)))
	for _, h := range headers {
		n += varintSize(int64(len(h.Key))) + len(h.Key) + fieldSize(h.Value)
	}
	return n
}

func fieldSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func appendField(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}

func appendRecord(dst []byte, offsetDelta int32, timestampDelta int64, key, value []byte, headers []Header) []byte {
	n := bodySize(offsetDelta, timestampDelta, key, value, headers)
	if n > math.MaxInt32 {
		panic("record: a record is larger than 2 GiB")
	}
	dst = room(dst, n+5)
	dst = appendVarint(dst, int64(n))
	dst = append(dst, 0)
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for _, h := range headers {
		dst = appendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendField(dst, h.Value)
	}
	return dst
}
