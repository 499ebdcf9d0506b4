package controller

import (
	"errors"

	"github.com/ottla-io/ottla/internal/kerr"
)

// apiError is an error for the caller of a request: code and text, both Kafka's.
type apiError struct {
	code    *kerr.Error
	message string // empty: the code says it all, and the text is null on the wire
}

func (e *apiError) Error() string {
	if e.message == "" {
		return e.code.Name
	}
	return e.code.Name + ": " + e.message
}

func (e *apiError) Unwrap() error { return e.code }

// fail makes an error for the caller.
func fail(code *kerr.Error, message string) *apiError { return &apiError{code, message} }

// errTooManyRecords is what an operation comes to that would write more than maxRecordsPerUserOp.
var errTooManyRecords = fail(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")

// Texts that Kafka has for codes, where it sends them.
const (
	textUnknownTopic   = "This server does not host this topic-partition."
	textUnknownTopicID = "This server does not host this topic ID."
)

// codeAndMessage is how an error goes on the wire. Nothing of our inside is told.
func codeAndMessage(err error) (int16, *string) {
	if err == nil {
		return kerr.None, nil
	}
	var api *apiError
	if !errors.As(err, &api) || api.message == "" || api.code == kerr.UnknownServerError {
		return kerr.Code(err), nil
	}
	return api.code.Code, &api.message
}
