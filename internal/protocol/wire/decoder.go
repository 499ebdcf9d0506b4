package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ottla-io/ottla/internal/uuid"
)

// Limits of what is decoded, as Kafka 4.4 has them.
const (
	MaxElements  = 1_000_000 // of an array
	MaxTags      = 10_000    // tagged fields of a struct
	MaxStringLen = 0x7fff    // bytes
)

// Error says why bytes could not be decoded, and where.
type Error struct {
	Offset int // bytes from the start of the decoder's input
	Reason string
}

// Error returns reason and offset.
func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// Decoder reads values one after the other. After the first error it has no more input and returns zero
// values; whoever reads a whole message looks at Err once, at its end.
//
// Bytes it returns alias the input; strings are copies, and valid UTF-8: see text.
type Decoder struct {
	b   []byte
	i   int
	err *Error
}

// NewDecoder reads b from its start. It does not write to b.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Reset makes d read b from its start, as a new decoder.
func (d *Decoder) Reset(b []byte) { *d = Decoder{b: b} }

// Remaining is the number of bytes not yet read.
func (d *Decoder) Remaining() int { return len(d.b) - d.i }

// Offset is the number of bytes read.
func (d *Decoder) Offset() int { return d.i }

// Rest returns what is not yet read, without reading it.
func (d *Decoder) Rest() []byte { return d.b[d.i:] }

// Err is the first error, an *Error, or nil.
func (d *Decoder) Err() error {
	if d.err == nil {
		return nil
	}
	return d.err
}

// Failed reports whether there was an error.
func (d *Decoder) Failed() bool { return d.err != nil }

// Fail records an error; what is left of the input will not be read.
func (d *Decoder) Fail(reason string) {
	if d.err == nil {
		d.err = &Error{d.i, reason}
	}
	d.b = d.b[:d.i]
}

func (d *Decoder) short() { d.Fail("input ends too early") }

// Bool reads a byte; everything but 0 is true.
func (d *Decoder) Bool() bool { return d.Int8() != 0 }

// Int8 reads one byte.
func (d *Decoder) Int8() int8 {
	if d.i >= len(d.b) {
		d.short()
		return 0
	}
	v := d.b[d.i]
	d.i++
	return int8(v)
}

// Int16 reads two bytes.
func (d *Decoder) Int16() int16 {
	if len(d.b)-d.i < 2 {
		d.short()
		return 0
	}
	v := binary.BigEndian.Uint16(d.b[d.i:])
	d.i += 2
	return int16(v)
}

// Uint16 reads two bytes.
func (d *Decoder) Uint16() uint16 { return uint16(d.Int16()) }

// Int32 reads four bytes.
func (d *Decoder) Int32() int32 {
	if len(d.b)-d.i < 4 {
		d.short()
		return 0
	}
	v := binary.BigEndian.Uint32(d.b[d.i:])
	d.i += 4
	return int32(v)
}

// Uint32 reads four bytes.
func (d *Decoder) Uint32() uint32 { return uint32(d.Int32()) }

// Int64 reads eight bytes.
func (d *Decoder) Int64() int64 {
	if len(d.b)-d.i < 8 {
		d.short()
		return 0
	}
	v := binary.BigEndian.Uint64(d.b[d.i:])
	d.i += 8
	return int64(v)
}

// Float64 reads eight bytes.
func (d *Decoder) Float64() float64 { return math.Float64frombits(uint64(d.Int64())) }

// UUID reads sixteen bytes.
func (d *Decoder) UUID() uuid.UUID {
	if len(d.b)-d.i < 16 {
		d.short()
		return uuid.Zero
	}
	u := uuid.UUID(d.b[d.i:])
	d.i += 16
	return u
}

// Uvarint reads an unsigned varint of at most five bytes. Values above the largest int32 are errors: every
// use is a length, a count or a tag.
func (d *Decoder) Uvarint() int {
	if d.i < len(d.b) && d.b[d.i] < 0x80 {
		d.i++
		return int(d.b[d.i-1])
	}
	return d.longUvarint()
}

func (d *Decoder) longUvarint() int {
	var v uint64
	for n := range 5 {
		if d.i+n >= len(d.b) {
			d.short()
			return 0
		}
		c := d.b[d.i+n]
		v |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			if v > math.MaxInt32 {
				break
			}
			d.i += n + 1
			return int(v)
		}
	}
	d.Fail("varint out of range")
	return 0
}

// length reads the length of a string (wide false: two bytes in the old form) or of anything else; -1 is null.
func (d *Decoder) length(flex, wide bool) int {
	var n int
	switch {
	case flex:
		n = d.Uvarint() - 1
	case wide:
		n = int(d.Int32())
	default:
		n = int(d.Int16())
	}
	if d.err != nil {
		return 0
	}
	if n < 0 {
		// Kafka takes every negative length for null.
		return -1
	}
	return n
}

// take returns the next n bytes.
func (d *Decoder) take(n int) []byte {
	if n > len(d.b)-d.i {
		d.short()
		return nil
	}
	b := d.b[d.i : d.i+n : d.i+n]
	d.i += n
	return b
}

// String reads a string; null is an error.
func (d *Decoder) String(flex bool) string {
	n := d.length(flex, false)
	switch {
	case n < 0:
		d.Fail("null in place of a string")
		return ""
	case n > MaxStringLen:
		d.Fail("string too long")
		return ""
	}
	return text(d.take(n))
}

// NullableString reads a string; nil is null, which is an error unless null is set.
func (d *Decoder) NullableString(null, flex bool) *string {
	n := d.length(flex, false)
	switch {
	case n < 0:
		if !null {
			d.Fail("null in place of a string")
		}
		return nil
	case n > MaxStringLen:
		d.Fail("string too long")
		return nil
	case n == 0:
		return &Empty
	}
	s := text(d.take(n))
	return &s
}

// Empty is what nullable strings point to when they are empty. Nobody writes to it.
var Empty = ""

// Bytes reads bytes or records, which alias the input; nil if there are none. Null is an error.
func (d *Decoder) Bytes(flex bool) []byte {
	n := d.length(flex, true)
	switch {
	case n < 0:
		d.Fail("null in place of bytes")
		return nil
	case n == 0:
		return nil
	}
	return d.take(n)
}

// NullableBytes reads bytes or records, which alias the input; nil is null, which is an error unless null is set.
func (d *Decoder) NullableBytes(null, flex bool) []byte {
	n := d.length(flex, true)
	switch {
	case n < 0:
		if !null {
			d.Fail("null in place of bytes")
		}
		return nil
	}
	return d.take(n)
}

// ArrayLen reads the count of an array whose elements have at least minSize bytes; null is an error.
func (d *Decoder) ArrayLen(minSize int, flex bool) int {
	n := d.NullableArrayLen(minSize, false, flex)
	return max(n, 0)
}

// NullableArrayLen reads the count of an array whose elements have at least minSize bytes; -1 is null, which
// is an error unless null is set. So many elements cannot be there that they would not fit into the input.
func (d *Decoder) NullableArrayLen(minSize int, null, flex bool) int {
	n := d.length(flex, true)
	switch {
	case n < 0:
		if !null {
			d.Fail("null in place of an array")
			return 0
		}
		return -1
	case n > MaxElements:
		d.Fail("more than 1,000,000 elements in an array")
		return 0
	case n*minSize > len(d.b)-d.i:
		d.Fail("array longer than its input")
		return 0
	}
	return n
}

// Cap is the capacity to begin with for an array of n elements of size bytes each in memory. It takes at most
// twice as much memory as there is input: a count that lies costs little, one that does not lets the slice grow.
func (d *Decoder) Cap(n, size int) int { return min(n, 2*(len(d.b)-d.i)/size+1) }

// DecodeError says which message could not be decoded.
func DecodeError(name string, version int16, err error) error {
	return fmt.Errorf("decode %s version %d: %w", name, version, err)
}
