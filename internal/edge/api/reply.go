package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonout"
)

// reply is the answer of a handler.
type reply struct {
	status int
	header http.Header
	// body is encoded as JSON: an envelope, or another document. nil means no body.
	body any
	// encoded is the body when it is encoded already.
	encoded []byte
	// requestID is the id of the original request when a stored answer is repeated.
	requestID string
}

type envelope struct {
	Data      any    `json:"data"`
	RequestID string `json:"request_id"`
}

type listEnvelope struct {
	Data       any     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
	RequestID  string  `json:"request_id"`
}

type errorEnvelope struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Type      string     `json:"type"`
	Code      fault.Code `json:"code"`
	Message   string     `json:"message"`
	Param     string     `json:"param,omitempty"`
	RequestID string     `json:"request_id"`
}

// answer puts one resource into the envelope.
func (c *call) answer(status int, data any) reply {
	return reply{status: status, body: envelope{Data: data, RequestID: c.id.String()}}
}

// read answers 200 with one resource.
func read[T, R any](c *call, resource func(T) R, noun T, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	return c.answer(http.StatusOK, resource(noun)), nil
}

// write runs a verb that changes something, and makes its answer. With an Idempotency-Key the answer
// is made and stored inside the verb's transaction, so the result of that transaction must be the
// result of the verb.
func write[T, R any](c *call, status int, resource func(T) R, verb func(context.Context) (T, error)) (reply, error) {
	return perform(c, func(noun T) reply { return c.answer(status, resource(noun)) }, verb)
}

// writeNew is write for a verb that makes a resource. The answer is 201, with the path of the resource in Location.
func writeNew[T, R any](c *call, path func(T) string, resource func(T) R, verb func(context.Context) (T, error)) (reply, error) {
	return perform(c, func(noun T) reply {
		answer := c.answer(http.StatusCreated, resource(noun))
		answer.header = http.Header{"Location": {prefix + path(noun)}}
		return answer
	}, verb)
}

func perform[T any](c *call, render func(T) reply, verb func(context.Context) (T, error)) (reply, error) {
	c.render = func(result any) (reply, error) {
		noun, same := result.(T)
		if !same {
			return reply{}, fmt.Errorf("the transaction answers a %T and its verb a %T", result, noun)
		}
		return render(noun), nil
	}
	result, err := verb(c.ctx())
	if err != nil {
		return reply{}, err
	}
	return c.render(result)
}

// writeOrRefuse is write for a verb whose result may be a refusal of the provider. The refusal is
// stored like any other answer.
func writeOrRefuse[T, R any](
	c *call, status int, resource func(T) (R, *fault.Error), verb func(context.Context) (T, error),
) (reply, error) {
	c.render = func(result any) (reply, error) {
		noun, same := result.(T)
		if !same {
			return reply{}, fmt.Errorf("the transaction answers a %T and its verb a %T", result, noun)
		}
		shown, refusal := resource(noun)
		if refusal == nil {
			return c.answer(status, shown), nil
		}
		header := http.Header{}
		out, body := refuse(c, header, refusal)
		return reply{status: out.status, header: header, encoded: body}, nil
	}
	result, err := verb(c.ctx())
	if err != nil {
		return reply{}, err
	}
	if _, refusal := resource(result); refusal != nil {
		return reply{}, refusal
	}
	return c.render(result)
}

// deleted is the answer for a deleted resource.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func deletedOf(object string, id fmt.Stringer) deleted {
	return deleted{ID: id.String(), Object: object, Deleted: true}
}

func (r reply) encode() ([]byte, error) {
	if r.encoded != nil || r.body == nil {
		return r.encoded, nil
	}
	return jsonout.Line(r.body)
}

// sent describes the answer that was sent, for the logs.
type sent struct {
	status int
	bytes  int
	code   fault.Code
	err    error
}

var errNoAnswer = errors.New("a handler returned an empty reply")

// send writes the answer, or the error in its envelope.
func send(w http.ResponseWriter, c *call, r reply, err error) sent {
	header := w.Header()
	header["Cache-Control"] = noStore
	header["Vary"] = varyAuthorization
	header["X-Content-Type-Options"] = noSniff
	maps.Copy(header, c.header)
	if c.bucket != nil {
		setBucketHeaders(header, c.bucket)
	}
	if err == nil && r.status == 0 {
		err = errNoAnswer
	}
	var body []byte
	if err == nil {
		body, err = r.encode()
	}
	out := sent{status: r.status, err: err}
	if err != nil {
		out, body = refuse(c, header, err)
		r = reply{}
	}
	maps.Copy(header, r.header)
	header["X-Request-Id"] = []string{c.id.String()}
	if c.replayed && err == nil {
		header["X-Request-Id"], header["Idempotent-Replayed"] = []string{r.requestID}, yes
	}
	if body != nil {
		header["Content-Type"] = jsonType
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(out.status)
	out.bytes, _ = w.Write(body) // fails only when the caller has closed the connection
	return out
}

// Header values of every answer, shared so that they are not allocated each time.
var (
	noStore           = []string{"private, no-store"}
	varyAuthorization = []string{"Authorization"}
	noSniff           = []string{"nosniff"}
	jsonType          = []string{"application/json"}
	yes               = []string{"true"}
	bearerOnly        = []string{"Bearer"}
)

// callerLeft is the logged status of a request whose caller closed the connection. It is never sent.
const callerLeft = 499

func refuse(c *call, header http.Header, err error) (sent, []byte) {
	if errors.Is(err, context.Canceled) && errors.Is(c.ctx().Err(), context.Canceled) {
		return sent{status: callerLeft, err: err}, nil
	}
	refusal := faultOf(err)
	row := statusOf(refusal.Code)
	if row.status == http.StatusUnauthorized {
		header["Www-Authenticate"] = bearerOnly
	}
	if refusal.RetryAfter > 0 {
		header["Retry-After"] = []string{strconv.Itoa(wholeSeconds(refusal.RetryAfter))}
	}
	body, _ := reply{body: errorEnvelope{Error: errorBody{ // plain strings always encode
		Type: row.kind, Code: refusal.Code, Message: refusal.Message, Param: refusal.Param, RequestID: c.id.String(),
	}}}.encode()
	return sent{status: row.status, code: refusal.Code, err: err}, body
}
