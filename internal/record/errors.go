package record

import (
	"errors"
	"fmt"

	"github.com/ottla-io/ottla/internal/kerr"
)

// ErrShort says that the bytes end before the batch does: the trailing part of a fetch answer, or
// the end of a log that a crash cut. It is not an error of the protocol.
var ErrShort = errors.New("record batch is incomplete")

// ErrOldMagic says that the bytes are a message set of format 0 or 1.
var ErrOldMagic error = &Error{Kind: kerr.InvalidRecord, Reason: "record batch has magic 0 or 1, only 2 is supported"}

// Error is what is wrong with a batch. Its kind is the protocol error to answer with:
//
//	CorruptMessage              size, format or CRC cannot be
//	InvalidRecord               well formed, but not acceptable
//	InvalidTimestamp            a record's time is out of the topic's bounds
//	UnsupportedCompressionType  zstd in a request too old for it
//	UnknownServerError          unknown codec, or bytes that do not decompress: Kafka has no code for it
type Error struct {
	Kind    *kerr.Error
	Reason  string        // one sentence for people
	Records []RecordError // what is wrong with single records (KIP-467), by rising index
	// More is how many further record errors were left out of Records.
	More int
}

func (e *Error) Error() string { return e.Kind.Name + ": " + e.Reason }

// Unwrap returns the kind, for errors.Is and kerr.Code.
func (e *Error) Unwrap() error { return e.Kind }

// RecordError is what is wrong with one record of a batch.
type RecordError struct {
	Index     int32 // position in the batch, from 0
	Offset    int64 // as the batch came
	Timestamp int64 // milliseconds
	Problem   RecordProblem
}

// RecordProblem says in what way a record is not acceptable.
type RecordProblem int8

const (
	// NullKey: the topic is compacted and the record has no key.
	NullKey RecordProblem = iota + 1
	// TimestampOutOfRange: see ValidateOptions.Before and After.
	TimestampOutOfRange
	// ProducerSetLogAppendTime: only the broker may set that attribute.
	ProducerSetLogAppendTime
)

// Message is the sentence for people that goes with the index in a Produce answer (batch_index_error_message).
// o is what Validate was given.
func (e RecordError) Message(o ValidateOptions) string {
	switch e.Problem {
	case NullKey:
		return fmt.Sprintf("record %d has no key, and the topic is compacted", e.Index)
	case TimestampOutOfRange:
		return fmt.Sprintf("record %d has timestamp %d, which is not within %d and %d", e.Index, e.Timestamp, o.Now-o.Before, o.Now+o.After)
	case ProducerSetLogAppendTime:
		return fmt.Sprintf("record %d has timestamp type LogAppendTime, which only the broker sets", e.Index)
	}
	return fmt.Sprintf("record %d is not acceptable", e.Index)
}

func invalidf(format string, args ...any) error {
	return &Error{Kind: kerr.InvalidRecord, Reason: fmt.Sprintf(format, args...)}
}

func corruptf(format string, args ...any) error {
	return &Error{Kind: kerr.CorruptMessage, Reason: fmt.Sprintf(format, args...)}
}

func decompressf(format string, args ...any) error {
	return &Error{Kind: kerr.UnknownServerError, Reason: fmt.Sprintf(format, args...)}
}
