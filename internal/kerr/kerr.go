package kerr

import (
	"errors"
	"fmt"
)

// Error is an error of the protocol. Compare with ==, or errors.Is where it may be wrapped.
type Error struct {
	Code      int16
	Name      string // as Kafka writes it, UNKNOWN_TOPIC_OR_PARTITION
	Retriable bool   // the same request may succeed later
}

// None is the code of success.
const None int16 = 0

// Error returns the name.
func (e *Error) Error() string { return e.Name }

// Code is the code to put on the wire: 0 for nil, the code of the first protocol error that err wraps, and
// UNKNOWN_SERVER_ERROR for everything else.
func Code(err error) int16 {
	if err == nil {
		return None
	}
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e.Code
	}
	return UnknownServerError.Code
}

// FromCode is the error of a code: nil for 0, and for a code that is not known an error of its own, not
// retriable, that keeps the code.
func FromCode(code int16) error {
	switch {
	case code == None:
		return nil
	case code == UnknownServerError.Code:
		return UnknownServerError
	case code > 0 && int(code) <= len(table):
		return table[code-1]
	}
	return &Error{Code: code, Name: fmt.Sprintf("UNKNOWN_ERROR_CODE_%d", code)}
}

// Name is the name of a code as Kafka writes it; NONE for 0.
func Name(code int16) string {
	if code == None {
		return "NONE"
	}
	return FromCode(code).Error()
}

// Retriable reports whether err is a protocol error that may go away by itself.
func Retriable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e != nil && e.Retriable
}
