package record

import (
	"errors"
	"io"
	"math"

	"github.com/ottla-io/ottla/internal/kerr"
)

// ValidateOptions is what the topic, the clock and the request say.
type ValidateOptions struct {
	// Now is the broker's clock in milliseconds.
	Now int64
	// TimestampType is message.timestamp.type of the topic.
	TimestampType TimestampType
	// Before and After are message.timestamp.before.max.ms and .after.max.ms; Kafka's defaults are
	// math.MaxInt64 and 3600000.
	Before, After int64
	// Compacted says that cleanup.policy contains compact: keys must not be null.
	Compacted bool
	// FromClient is true for produce requests; false for what coordinators append, which may be
	// control batches with any base offset.
	FromClient bool
}

// Info is what Validate found out.
type Info struct {
	// MaxTimestamp is the largest timestamp in the records, NoTimestamp if all are; options.Now on
	// a LogAppendTime topic. The batch's own field may say something else: store this one with
	// SetMaxTimestamp or SetLogAppendTime.
	MaxTimestamp int64
	// OffsetOfMaxTimestamp is the offset that the time index notes for MaxTimestamp: the batch's
	// last one, counted from the base offset that the batch has now.
	OffsetOfMaxTimestamp int64
	// UncompressedBytes is the size of header and records without compression.
	UncompressedBytes int64
}

// maxRecordErrors is how many record errors an Error lists: a hostile batch of one megabyte may
// hold a billion records.
const maxRecordErrors = 10_000

// FromProduce takes the one batch out of the record set of a partition in a Produce request of
// the given version (3 and up), with Kafka's checks of that set. Bytes after the batch that are too
// few for another one are dropped. CRC and records are not looked at.
//
// Errors are *Error: InvalidRecord for no batch, more than one, or an old format; CorruptMessage;
// UnsupportedCompressionType for zstd before version 7.
func FromProduce(records []byte, version int16) (Batch, error) {
	batch, rest, err := Next(records)
	if errors.Is(err, ErrShort) {
		return nil, invalidf("no complete record batch in %d bytes", len(records))
	}
	if err != nil {
		return nil, err
	}
	if version < 7 && batch.Compression() == Zstd {
		return nil, &Error{Kind: kerr.UnsupportedCompressionType, Reason: "zstd needs produce version 7"}
	}
	switch _, _, err := Next(rest); {
	case errors.Is(err, ErrShort):
		return batch, nil
	case err == nil, errors.Is(err, ErrOldMagic):
		return nil, invalidf("more than one record batch")
	default:
		return nil, err
	}
}

// Validate checks the inside of a batch as Kafka's leader does before it appends: header fields
// against each other, and every record, compressed or not. Nothing is changed and the CRC is not
// checked. dec is needed if the batch is compressed, nil makes one. Memory does not depend on what
// the batch decompresses to.
//
// It is stricter than Kafka in two ways, since batches that fail here cannot be read back right:
// offset deltas must be 0, 1, 2… also in batches that are not compressed, and a record's size must
// fit its fields also in compressed ones. That transactional records need a transactional id is a
// matter of the whole request, and of its handler.
//
// Errors are *Error of these kinds: InvalidRecord, with Records if keys are missing;
// InvalidTimestamp, with Records; UnknownServerError.
func Validate(b Batch, o ValidateOptions, dec *Decompressor) (Info, error) {
	codec := b.Compression()
	if !codec.Valid() {
		return Info{}, decompressf("unknown codec %d", codec)
	}
	count := b.Count()
	if o.FromClient {
		if err := validateHeader(b); err != nil {
			return Info{}, err
		}
	}
	if count < 0 {
		return Info{}, invalidf("record count is %d", count)
	}

	w := walk{count: count, base: b.BaseTimestamp(), max: NoTimestamp, min: math.MaxInt64}
	if codec == None {
		w.win = b.Payload()
	} else if count > 0 {
		if dec == nil {
			dec = new(Decompressor)
		}
		dec.open(codec, b.Payload())
		defer dec.close()
		w.dec = dec
	}
	if err := w.run(); err != nil {
		return Info{}, err
	}

	if b.TimestampType() == LogAppendTime {
		w.min, w.max = b.MaxTimestamp(), max(b.MaxTimestamp(), NoTimestamp)
	}
	if w.suspect(b, o) {
		if err := recordErrors(b, o, dec); err != nil {
			return Info{}, err
		}
	}
	info := Info{MaxTimestamp: w.max, OffsetOfMaxTimestamp: b.LastOffset(), UncompressedBytes: BatchHeaderSize + w.read}
	if o.TimestampType == LogAppendTime {
		info.MaxTimestamp = o.Now
	}
	return info, nil
}

// validateHeader holds the checks of batches from clients, in Kafka's order.
func validateHeader(b Batch) error {
	if b.BaseOffset() != 0 {
		return invalidf("base offset is %d, not 0", b.BaseOffset())
	}
	count, delta := b.Count(), b.LastOffsetDelta()
	switch {
	case delta < 0:
		return invalidf("offset range [0, %d]", delta)
	case count <= 0:
		return invalidf("record count is %d", count)
	case int64(delta)+1 != int64(count):
		return invalidf("offset range [0, %d] and record count %d do not match", delta, count)
	case b.IsControl():
		return invalidf("clients must not write control records")
	case b.HasProducerID() && b.BaseSequence() < 0:
		return invalidf("sequence is %d with producer id %d", b.BaseSequence(), b.ProducerID())
	}
	return nil
}

// walk goes over the records without looking at keys and values. The hot path: most records lie
// whole in win and are passed by their lengths; one that crosses into the next chunk goes through a
// cursor, byte by byte.
type walk struct {
	win   []byte
	dec   *Decompressor // nil when not compressed
	count int32
	base  int64 // base timestamp

	index    int32
	read     int64 // bytes of records passed
	nullKeys int32
	min, max int64 // timestamps; min does not count NoTimestamp
}

// run walks all records and checks that nothing follows.
func (w *walk) run() error {
	for {
		n, err := w.whole(w.win)
		if err != nil {
			return err
		}
		w.read += int64(n)
		w.win = w.win[n:]
		if w.index == w.count {
			break
		}
		if err := w.split(); err != nil {
			return err
		}
	}
	if len(w.win) > 0 {
		return invalidf("%d bytes follow the last record", len(w.win))
	}
	if w.dec != nil {
		switch more, err := w.dec.fill(w.dec.window[:0]); {
		case err == nil:
			w.dec.window = more[:0]
			return invalidf("bytes follow the last record")
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	return nil
}

// whole passes the records that lie completely in win and returns the bytes they take. It stops at
// one that does not.
func (w *walk) whole(win []byte) (n int, err error) {
	base, count, index := w.base, w.count, w.index
	lowest, highest, nullKeys := w.min, w.max, w.nullKeys
	pos := 0
	for index < count {
		size, at := varint(win, pos)
		if at < 0 || int(size) > len(win)-at {
			break
		}
		if size <= 0 {
			return pos, invalidf("record %d has size %d", index, size)
		}
		end := at + int(size)
		body := win[:end]
		// A failure makes i negative, and it stays so.
		timestampDelta, i := varlong(body, at+1)
		offsetDelta, i := varint(body, i)
		keySize, i := varint(body, i)
		if keySize < 0 {
			nullKeys++
			keySize = 0
		}
		if i < 0 {
			return pos, malformed(index)
		}
		valueSize, i := varint(body, i+int(keySize))
		if i < 0 {
			return pos, malformed(index)
		}
		i += int(max(valueSize, 0))
		if i != end-1 || body[i] != 0 {
			if !passHeaders(body, i) {
				return pos, malformed(index)
			}
		}
		if offsetDelta != index {
			return pos, wrongOffset(index, offsetDelta)
		}
		timestamp := base + timestampDelta
		highest = max(highest, timestamp)
		if timestamp < lowest && timestamp != NoTimestamp {
			lowest = timestamp
		}
		index++
		pos = end
	}
	w.index, w.min, w.max, w.nullKeys = index, lowest, highest, nullKeys
	return pos, nil
}

// passHeaders says whether the headers at body[i:] are well formed and end the body.
func passHeaders(body []byte, i int) bool {
	n, i := varint(body, i)
	if i < 0 || n < 0 {
		return false
	}
	for range n {
		var size int32
		if size, i = varint(body, i); i < 0 || size < 0 {
			return false
		}
		if size, i = varint(body, i+int(size)); i < 0 {
			return false
		}
		i += int(max(size, 0))
	}
	return i == len(body)
}

func malformed(index int32) error { return invalidf("record %d is malformed", index) }

func wrongOffset(index, delta int32) error {
	return invalidf("record %d has offset delta %d", index, delta)
}

// split passes one record that may cross into further chunks.
func (w *walk) split() error {
	c := cursor{win: w.win, dec: w.dec}
	m, err := c.record(w.index)
	if err != nil {
		return err
	}
	w.win = c.win
	w.read += c.read
	if m.offsetDelta != w.index {
		return wrongOffset(w.index, m.offsetDelta)
	}
	if m.nullKey {
		w.nullKeys++
	}
	timestamp := w.base + m.timestampDelta
	w.max = max(w.max, timestamp)
	if timestamp != NoTimestamp {
		w.min = min(w.min, timestamp)
	}
	w.index++
	return nil
}

// suspect says whether some record may have to be named in an error. It may be wrong in saying so.
func (w *walk) suspect(b Batch, o ValidateOptions) bool {
	if w.count == 0 {
		return false
	}
	if o.Compacted && w.nullKeys > 0 {
		return true
	}
	if o.TimestampType == LogAppendTime || b.TimestampType() == LogAppendTime {
		return b.TimestampType() == LogAppendTime
	}
	if w.min == math.MaxInt64 && w.max == NoTimestamp {
		return false // no record has a time
	}
	low := o.Now - o.Before
	if o.Before > 0 && low > o.Now {
		low = math.MinInt64
	}
	high := o.Now + o.After
	if o.After > 0 && high < o.Now {
		high = math.MaxInt64
	}
	return w.min < low || w.max > high
}

// recordErrors walks the batch, which is otherwise valid, a second time and names the records that
// are not acceptable; nil if there are none.
func recordErrors(b Batch, o ValidateOptions, dec *Decompressor) error {
	c := cursor{win: b.Payload()}
	if codec := b.Compression(); codec != None {
		dec.open(codec, b.Payload())
		c = cursor{dec: dec}
	}
	e := &Error{}
	times := false
	for i := range b.Count() {
		m, err := c.record(i)
		if err != nil {
			return err
		}
		timestamp := b.BaseTimestamp() + m.timestampDelta
		if b.TimestampType() == LogAppendTime {
			timestamp = b.MaxTimestamp()
		}
		var p RecordProblem
		switch {
		case o.Compacted && m.nullKey:
			p = NullKey
		case o.TimestampType == CreateTime && timestamp != NoTimestamp:
			// Java's arithmetic, wrapping included.
			if diff := o.Now - timestamp; diff > o.Before || -diff > o.After {
				p = TimestampOutOfRange
			}
		case b.TimestampType() == LogAppendTime:
			p = ProducerSetLogAppendTime
		}
		if p == 0 {
			continue
		}
		times = times || p != NullKey
		if len(e.Records) == maxRecordErrors {
			e.More++
			continue
		}
		e.Records = append(e.Records, RecordError{Index: i, Offset: b.BaseOffset() + int64(m.offsetDelta), Timestamp: timestamp, Problem: p})
	}
	switch {
	case len(e.Records) == 0:
		return nil
	case times:
		e.Kind, e.Reason = kerr.InvalidTimestamp, "one or more records have a timestamp out of range"
	default:
		e.Kind, e.Reason = kerr.InvalidRecord, "one or more records have no key on a compacted topic"
	}
	return e
}

// cursor reads records across chunks, without holding more than one.
type cursor struct {
	win  []byte
	dec  *Decompressor // nil: win is all there is
	read int64         // bytes taken
	err  error
}

// meta is what validation needs of a record.
type meta struct {
	timestampDelta int64
	offsetDelta    int32
	nullKey        bool
}

// record reads the record that is number index.
func (c *cursor) record(index int32) (meta, error) {
	var m meta
	size := c.varint()
	start := c.read
	c.skip(1)
	m.timestampDelta = c.varlong()
	m.offsetDelta = c.varint()
	key := c.varint()
	m.nullKey = key < 0
	c.skip(key)
	c.skip(c.varint())
	headers := c.varint()
	for i := int32(0); i < headers && c.err == nil; i++ {
		n := c.varint()
		if n < 0 {
			c.fail()
		}
		c.skip(n)
		c.skip(c.varint())
	}
	switch {
	case errors.Is(c.err, io.EOF):
		return m, invalidf("records end within record %d", index)
	case errors.Is(c.err, errMalformed) || (c.err == nil && (headers < 0 || c.read-start != int64(size))):
		return m, malformed(index)
	}
	return m, c.err
}

// errMalformed stays inside cursor; it is replaced by an error that names the record.
var errMalformed = invalidf("record is malformed")

func (c *cursor) fail() {
	if c.err == nil {
		c.err = errMalformed
	}
}

func (c *cursor) fill() bool {
	if c.err != nil {
		return false
	}
	if c.dec == nil {
		c.err = io.EOF
		return false
	}
	win, err := c.dec.fill(c.dec.window[:0])
	c.dec.window = win[:0]
	c.win, c.err = win, err
	return err == nil
}

func (c *cursor) byte() byte {
	if len(c.win) == 0 && !c.fill() {
		return 0
	}
	b := c.win[0]
	c.win = c.win[1:]
	c.read++
	return b
}

// skip passes n bytes; none if n is negative, which is null.
func (c *cursor) skip(n int32) {
	for left := int(n); left > 0; {
		if len(c.win) == 0 && !c.fill() {
			return
		}
		k := min(left, len(c.win))
		c.win = c.win[k:]
		c.read += int64(k)
		left -= k
	}
}

func (c *cursor) varint() int32 {
	u := c.uvarint(5)
	return int32(uint32(u)>>1) ^ -int32(u&1)
}

func (c *cursor) varlong() int64 {
	u := c.uvarint(10)
	return int64(u>>1) ^ -int64(u&1)
}

func (c *cursor) uvarint(most int) uint64 {
	var u uint64
	for i := range most {
		b := c.byte()
		if c.err != nil {
			return 0
		}
		u |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return u
		}
	}
	c.fail()
	return 0
}
