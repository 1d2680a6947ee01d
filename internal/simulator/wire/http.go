package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// maxBody is the largest JSON body or form that is read, in bytes.
const maxBody = 1 << 20

// Form holds the parameters of a request by name.
type Form map[string]any

// Request is a request to the simulator.
type Request struct {
	W    http.ResponseWriter
	R    *http.Request
	Now  time.Time // when it arrived
	Form Form      // set by ReadForm
}

// ReadForm reads the parameters of a request: the JSON body, or else the form, and the query.
func (r *Request) ReadForm() error {
	r.Form = Form{}
	body, err := io.ReadAll(http.MaxBytesReader(r.W, r.R.Body, maxBody))
	if err != nil {
		return Refusal(100, "The request body cannot be read.")
	}
	encoded := strings.HasPrefix(r.R.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
	if encoded && !strings.HasPrefix(strings.TrimSpace(string(body)), "{") { // curl -d calls JSON a form
		values, _ := url.ParseQuery(string(body)) // a malformed pair is left out
		r.Form.add(values)
	} else if len(body) > 0 {
		if err := json.Unmarshal(body, &r.Form); err != nil {
			return Refusal(100, "The request body is not a JSON object.")
		}
		if r.Form == nil { // the body is null
			r.Form = Form{}
		}
	}
	r.Form.add(r.R.URL.Query())
	return nil
}

// WithForm returns a handler that reads the form before it calls handle.
func WithForm[S any, C interface{ ReadForm() error }](handle func(S, C) (any, error)) func(S, C) (any, error) {
	return func(server S, request C) (any, error) {
		if err := request.ReadForm(); err != nil {
			return nil, err
		}
		return handle(server, request)
	}
}

// Locked returns a handler that holds the server's lock while it calls handle.
func Locked[S sync.Locker, C any](handle func(S, C) (any, error)) func(S, C) (any, error) {
	return func(server S, request C) (any, error) {
		server.Lock()
		defer server.Unlock()
		return handle(server, request)
	}
}

// add takes the values whose names the form does not have yet.
func (f Form) add(values url.Values) {
	for name := range values {
		if _, given := f[name]; !given {
			f[name] = values.Get(name)
		}
	}
}

// Text returns a parameter as text. A JSON number is written without a fraction.
func (f Form) Text(name string) string {
	switch value := f[name].(type) {
	case string:
		return value
	case float64:
		return fmt.Sprintf("%.0f", value)
	default:
		return ""
	}
}

// Answer writes a JSON answer.
func Answer(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		status, encoded = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer cannot be encoded","code":1}}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(encoded) // fails only when the client has gone
}

// Success is the answer to every write except a send.
func Success() map[string]any { return map[string]any{"success": true} }

// Encode encodes a value of the simulator's own types, which cannot fail.
func Encode(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		return []byte("null")
	}
	return encoded
}
