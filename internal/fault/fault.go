// Package fault defines the errors that callers of the API see. Domain packages choose a code and
// a message that says what to do; the edge turns the code into an HTTP status. Every other error
// is an internal error and is never shown to a caller.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Error is an error that is shown to the caller.
type Error struct {
	Code    Code
	Message string
	// Param is the path of the wrong field (`text.body`, `contact_ids[3]`); empty for none.
	Param string
	// RetryAfter is how long the caller should wait before it retries; zero for no advice.
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

// New returns an error with a code and a message, which may be a format.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Missing returns the error of a body or query without a required field.
func Missing(param string) *Error {
	return &Error{Code: MissingRequiredField, Message: fmt.Sprintf("The field `%s` is required.", param), Param: param}
}

// Invalid returns the error of a wrong value. Rule says what would be accepted: "must be 1 to 60
// characters".
func Invalid(param, rule string) *Error {
	return &Error{Code: InvalidFieldValue, Message: fmt.Sprintf("The field `%s` %s.", param, rule), Param: param}
}

// NotFound returns the same error for a resource that does not exist and for one of another
// organization.
func NotFound(noun string) *Error {
	return New(ResourceNotFound, "No such %s in this organization.", noun)
}

// Unavailable returns an error that asks the caller to retry. The cause is only logged.
func Unavailable(retryAfter time.Duration, cause error) *Error {
	return &Error{
		Code:       ServiceUnavailable,
		Message:    "The service cannot answer right now. Retry after the time given in Retry-After.",
		RetryAfter: retryAfter,
		cause:      cause,
	}
}

// Moving returns the error of requests to an organization that is being moved to another database.
func Moving(cause error) *Error {
	return &Error{
		cause:      cause,
		Code:       ServiceUnavailable,
		Message:    "This organization is being moved to another database. Retry after the time given in Retry-After.",
		RetryAfter: 5 * time.Second, // about as long as a move takes
	}
}

// OutcomeUnknown returns the error of a change that may or may not have happened, because the
// connection was lost during the commit.
func OutcomeUnknown(cause error) *Error {
	return &Error{
		Code: ServiceUnavailable,
		Message: "The connection to the database broke at the last moment: the change may or may not have been made. " +
			"Repeat the request with the same Idempotency-Key, or look before you repeat it.",
		RetryAfter: time.Second,
		cause:      cause,
	}
}

// At returns a copy of the error with a field.
func (e *Error) At(param string) *Error {
	copied := *e
	copied.Param = param
	return &copied
}

// As returns the fault in err's chain, or nil when there is none.
func As(err error) *Error {
	found, _ := errors.AsType[*Error](err)
	return found
}

// Of returns the code of the fault in err's chain, or "" when there is none.
func Of(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
