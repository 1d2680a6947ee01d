package parley

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The kinds of an APIError, for errors.Is.
var (
	ErrInvalidRequest   = errors.New("the request is wrong; Param says where")
	ErrAuthentication   = errors.New("the key is missing, unknown, revoked or expired")
	ErrPermissionDenied = errors.New("the plan, the subscription or the state of the organization does not allow it")
	ErrNotFound         = errors.New("there is no such resource in the organization")
	ErrConflict         = errors.New("the state of the resource does not allow it now")
	ErrRateLimit        = errors.New("requests come faster than the plan allows")
	ErrServer           = errors.New("a fault of the API or of the network behind it")
)

// APIError is an answer of the API that is an error. Branch on Code, or on its kind by
// errors.Is(err, parley.ErrNotFound).
type APIError struct {
	Status     int
	Type       ErrorType
	Code       ErrorCode // empty when the answer is not one of Parley's
	Message    string
	Param      string
	RequestID  string
	RetryAfter time.Duration // 0 when the answer has none
}

func (e *APIError) Error() string {
	code := string(e.Code)
	if code == "" {
		code = string(e.Type)
	}
	return fmt.Sprintf("parley: %d %s: %s (%s)", e.Status, code, e.Message, e.RequestID)
}

// Is tells whether the error is of a kind.
func (e *APIError) Is(kind error) bool { return kind == kinds[e.Type] }

var kinds = map[ErrorType]error{
	ErrorTypeInvalidRequestError: ErrInvalidRequest,
	ErrorTypeAuthenticationError: ErrAuthentication,
	ErrorTypePermissionError:     ErrPermissionDenied,
	ErrorTypeNotFound:            ErrNotFound,
	ErrorTypeConflict:            ErrConflict,
	ErrorTypeRateLimitError:      ErrRateLimit,
	ErrorTypeAPIError:            ErrServer,
}

// NetworkError means that no whole answer came: the connection failed, was cut, or timed out.
type NetworkError struct{ cause error }

func (e *NetworkError) Error() string { return "parley: no answer: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *NetworkError) Unwrap() error { return e.cause }

// ArgumentError means that a request could not be made of what was given. Nothing was sent.
type ArgumentError struct{ text string }

func (e *ArgumentError) Error() string { return "parley: " + e.text }

// refusal returns the error of an answer. One that is not Parley's, as of a proxy, gets its type by
// the status.
func (a *answer) refusal() *APIError {
	var envelope ErrorEnvelope
	after, _ := a.retryAfter()
	if err := json.Unmarshal(a.body, &envelope); err != nil || kinds[envelope.Error.Type] == nil {
		return &APIError{
			Status: a.status, Type: typeOf(a.status), RetryAfter: after,
			Message: fmt.Sprintf("HTTP %d, not an answer of Parley", a.status),
		}
	}
	refused := &APIError{
		Status: a.status, Type: envelope.Error.Type, Code: envelope.Error.Code, Message: envelope.Error.Message,
		RequestID: envelope.Error.RequestID, RetryAfter: after,
	}
	if envelope.Error.Param != nil {
		refused.Param = *envelope.Error.Param
	}
	return refused
}

func typeOf(status int) ErrorType {
	switch status {
	case http.StatusUnauthorized:
		return ErrorTypeAuthenticationError
	case http.StatusPaymentRequired, http.StatusForbidden:
		return ErrorTypePermissionError
	case http.StatusNotFound:
		return ErrorTypeNotFound
	case http.StatusConflict:
		return ErrorTypeConflict
	case http.StatusTooManyRequests:
		return ErrorTypeRateLimitError
	}
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		return ErrorTypeInvalidRequestError
	}
	return ErrorTypeAPIError
}
