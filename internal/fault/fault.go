// Package fault is the error language of the product. Domain packages choose a
// code and a message that tells a person what to do; the edge alone turns a code
// into a status. Everything that is not a fault is an internal error and is never
// shown to a caller.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Error is a refusal that a caller may read.
type Error struct {
	Code    Code
	Message string
	// Param points to the offending field (`text.body`, `contact_ids[3]`), or is empty.
	Param string
	// RetryAfter is how long the caller should wait, or zero.
	RetryAfter time.Duration

	cause error
}

func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.Message
	if e.Param != "" {
		text += " (" + e.Param + ")"
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// New refuses with a code and a message that may be formatted.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Missing refuses a body or query without a required field.
func Missing(param string) *Error {
	return &Error{Code: MissingRequiredField, Message: fmt.Sprintf("The field `%s` is required.", param), Param: param}
}

// Invalid refuses a value; rule says what would be accepted, as in "must be 1 to 60 characters".
func Invalid(param, rule string) *Error {
	return &Error{Code: InvalidFieldValue, Message: fmt.Sprintf("The field `%s` %s.", param, rule), Param: param}
}

// NotFound is the one answer for what is missing and for what belongs to somebody else.
func NotFound(noun string) *Error {
	return New(ResourceNotFound, "No such %s in this organization.", noun)
}

// Unavailable asks the caller to come back; the cause stays in the log.
func Unavailable(retryAfter time.Duration, cause error) *Error {
	return &Error{
		Code:       ServiceUnavailable,
		Message:    "The service cannot answer right now. Retry after the time given in Retry-After.",
		RetryAfter: retryAfter,
		cause:      cause,
	}
}

// Moving asks the callers of an organization to wait while it changes its database.
func Moving(cause error) *Error {
	return &Error{
		cause:      cause,
		Code:       ServiceUnavailable,
		Message:    "This organization is being moved to another database. Retry after the time given in Retry-After.",
		RetryAfter: 5 * time.Second, // about as long as a move takes
	}
}

// OutcomeUnknown is a change that may or may not have happened: its connection broke
// while it was being made durable.
func OutcomeUnknown(cause error) *Error {
	return &Error{
		Code: ServiceUnavailable,
		Message: "The connection to the database broke at the last moment: the change may or may not have been made. " +
			"Repeat the request with the same Idempotency-Key, or look before you repeat it.",
		RetryAfter: time.Second,
		cause:      cause,
	}
}

// At says which field of a request the refusal is about.
func (e *Error) At(param string) *Error {
	copied := *e
	copied.Param = param
	return &copied
}

// Of returns the code of the fault in err's chain, or "" when there is none.
func Of(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
