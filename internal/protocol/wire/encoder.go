package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/ottla-io/ottla/internal/uuid"
)

// ErrUnsupportedVersion is what encoding or decoding an unknown version of a message wraps.
var ErrUnsupportedVersion = errors.New("unsupported version")

// Encoder appends values to a buffer. It keeps the first error for the end of the message.
type Encoder struct {
	b   []byte
	err error

	// external tells which records fields stay outside; see Split.
	external func(i int) int
	records  int
	splits   []Split
}

// Split is a place in an encoded message where records belong that are somewhere else, in a file for example.
type Split struct {
	At    int // offset in the message's buffer
	Index int // which records field, counted from 0 in the order of encoding
	Len   int // bytes
}

// NewEncoder appends to b.
func NewEncoder(b []byte) Encoder { return Encoder{b: b} }

// NewSplitEncoder appends to b, without those records that external says are elsewhere, and their places to
// splits. external is asked once for each records field, in the order of encoding, and answers their length, or
// -1 to use the field's own bytes.
func NewSplitEncoder(b []byte, splits []Split, external func(i int) int) Encoder {
	return Encoder{b: b, splits: splits, external: external}
}

// Result is the buffer, with the first error if there was one.
func (e *Encoder) Result(name string, version int16) ([]byte, error) {
	if e.err != nil {
		return nil, fmt.Errorf("encode %s version %d: %w", name, version, e.err)
	}
	return e.b, nil
}

// Splits are the places where records are missing, in rising order.
func (e *Encoder) Splits() []Split { return e.splits }

// Fail records an error.
func (e *Encoder) Fail(reason string) {
	if e.err == nil {
		e.err = errors.New(reason)
	}
}

// BadVersion records that the message has no such version.
func (e *Encoder) BadVersion() {
	if e.err == nil {
		e.err = ErrUnsupportedVersion
	}
}

// Lost records that a field has a value but no place in this version.
func (e *Encoder) Lost(field string) { e.Fail("no field " + field + " in this version") }

// Null records that a field is null and must not be.
func (e *Encoder) Null(field string) { e.Fail("field " + field + " must not be null") }

// Bool writes one byte.
func (e *Encoder) Bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// Int8 writes one byte.
func (e *Encoder) Int8(v int8) { e.b = append(e.b, byte(v)) }

// Int16 writes two bytes.
func (e *Encoder) Int16(v int16) { e.b = binary.BigEndian.AppendUint16(e.b, uint16(v)) }

// Uint16 writes two bytes.
func (e *Encoder) Uint16(v uint16) { e.b = binary.BigEndian.AppendUint16(e.b, v) }

// Int32 writes four bytes.
func (e *Encoder) Int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }

// Uint32 writes four bytes.
func (e *Encoder) Uint32(v uint32) { e.b = binary.BigEndian.AppendUint32(e.b, v) }

// Int64 writes eight bytes.
func (e *Encoder) Int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

// Float64 writes eight bytes.
func (e *Encoder) Float64(v float64) {
	e.b = binary.BigEndian.AppendUint64(e.b, math.Float64bits(v))
}

// UUID writes sixteen bytes.
func (e *Encoder) UUID(v uuid.UUID) { e.b = append(e.b, v[:]...) }

// Uvarint writes an unsigned varint; v is not negative.
func (e *Encoder) Uvarint(v int) { e.b = appendUvarint(e.b, uint32(v)) }

func appendUvarint(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// String writes a string of at most 32,767 bytes.
func (e *Encoder) String(s string, flex bool) {
	if len(s) > MaxStringLen {
		e.Fail("string too long")
		return
	}
	if flex {
		e.Uvarint(len(s) + 1)
	} else {
		e.Int16(int16(len(s)))
	}
	e.b = append(e.b, s...)
}

// NullableString writes a string, or null for nil if null is set. Of messages about errors, which may quote what a
// client sent, it writes as much as there is room for.
func (e *Encoder) NullableString(field string, s *string, null, flex bool) {
	switch {
	case s != nil && field == "ErrorMessage":
		e.String(cut(*s, MaxStringLen), flex)
	case s != nil:
		e.String(*s, flex)
	case !null:
		e.Null(field)
	case flex:
		e.b = append(e.b, 0)
	default:
		e.Int16(-1)
	}
}

// cut returns the first n bytes of s, or fewer where the last character would be torn.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Bytes writes bytes; nil is empty.
func (e *Encoder) Bytes(v []byte, flex bool) {
	e.length(len(v), flex)
	e.b = append(e.b, v...)
}

// NullableBytes writes bytes, or null for nil if null is set.
func (e *Encoder) NullableBytes(field string, v []byte, null, flex bool) {
	switch {
	case v != nil:
		e.Bytes(v, flex)
	case !null:
		e.Null(field)
	default:
		e.null(flex)
	}
}

// Records writes records; nil is null where null is set, else empty. Their bytes may stay outside: see Split.
func (e *Encoder) Records(v []byte, null, flex bool) {
	if e.external != nil {
		i := e.records
		e.records++
		if n := e.external(i); n >= 0 {
			e.length(n, flex)
			e.splits = append(e.splits, Split{len(e.b), i, n})
			return
		}
	}
	if v == nil && null {
		e.null(flex)
		return
	}
	e.Bytes(v, flex)
}

// ArrayLen writes the count of an array that is not null.
func (e *Encoder) ArrayLen(n int, flex bool) { e.length(n, flex) }

// NullableArrayLen writes the count of an array, or null if it is nil and null is set.
func (e *Encoder) NullableArrayLen(field string, n int, isNil, null, flex bool) {
	switch {
	case !isNil:
		e.length(n, flex)
	case !null:
		e.Null(field)
	default:
		e.null(flex)
	}
}

func (e *Encoder) length(n int, flex bool) {
	if n > math.MaxInt32-1 {
		e.Fail("longer than an int32 can say")
		return
	}
	if flex {
		e.Uvarint(n + 1)
	} else {
		e.Int32(int32(n))
	}
}

func (e *Encoder) null(flex bool) {
	if flex {
		e.b = append(e.b, 0)
	} else {
		e.Int32(-1)
	}
}
