package parley

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The files that the SDKs of all languages play.
var (
	suite = load[struct {
		APIKey string `json:"api_key"`
		Random float64
		Body   string
		Cases  []playedCase
	}]("../testdata/cases.json")
	operations = load[[]operation]("../testdata/operations.json")
)

type playedCase struct {
	Name     string
	Kind     string
	Random   *float64
	Take     int
	Settings map[string]float64
	Call     call
	Server   []step
	Expect   struct {
		Requests *[]wantedRequest
		Waits    *[]float64
		Items    *[]string
		Result   any
		Page     any
		Event    any
		Error    json.RawMessage
	}

	// Of a webhook.
	Headers   map[string]string
	Secrets   []string
	Now       int64
	Tolerance *int64
	Body      *string
	BodyHex   *string `json:"body_hex"`
}

type call struct {
	Operation      string
	Arguments      []string
	Body           json.RawMessage
	Query          json.RawMessage
	IdempotencyKey string `json:"idempotency_key"`
	Upload         *struct {
		Filename, Content string
		Fields            map[string]string
	}
}

// step is how the server treats one request.
type step struct {
	Status  int
	Headers map[string]string
	Body    json.RawMessage
	Text    string
	Elapse  float64 // seconds that pass before the answer
	Close   bool    // the connection is closed without an answer
	Cut     bool    // the answer ends before its Content-Length
	Hang    bool    // no answer comes
}

type wantedRequest struct {
	Method, Path *string
	Headers      map[string]string
	Absent       []string
	Query        *map[string]string
	Body         any
	Contains     []string
}

type operation struct {
	call
	Method, Path string
	Status       int
	Answer       json.RawMessage
}

func load[T any](path string) T {
	var loaded T
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &loaded)
	}
	if err != nil {
		panic(err)
	}
	return loaded
}

func toDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func check(t *testing.T, holds bool, format string, arguments ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, arguments...)
	}
}

// invoke calls the method of an operation, and returns what it returns.
func invoke(t *testing.T, client *Client, wanted call) []reflect.Value {
	t.Helper()
	method := reflect.ValueOf(client).MethodByName(strings.ToUpper(wanted.Operation[:1]) + wanted.Operation[1:])
	check(t, method.IsValid(), "no method %s", wanted.Operation)
	var in []reflect.Value
	texts := wanted.Arguments
	for i := range method.Type().NumIn() {
		kind := method.Type().In(i)
		switch {
		case kind == reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(t.Context()))
		case kind.Kind() == reflect.String:
			in, texts = append(in, reflect.ValueOf(texts[0])), texts[1:]
		case kind == reflect.TypeFor[Upload]():
			in = append(in, reflect.ValueOf(Upload{wanted.Upload.Filename, []byte(wanted.Upload.Content), wanted.Upload.Fields}))
		case kind.Kind() == reflect.Interface:
			in = append(in, reflect.ValueOf(RawBody(wanted.Body)))
		case method.Type().IsVariadic() && i == method.Type().NumIn()-1:
			if wanted.IdempotencyKey != "" {
				in = append(in, reflect.ValueOf(WithIdempotencyKey(wanted.IdempotencyKey)))
			}
		case strings.HasSuffix(kind.String(), "Params"):
			in = append(in, decoded(t, kind, parameters(wanted.Query)))
		default:
			in = append(in, decoded(t, kind, wanted.Body))
		}
	}
	return method.Call(in)
}

// parameters turns the names of a query into those of the fields: created_after into createdafter,
// which encoding/json finds in any case.
func parameters(query json.RawMessage) json.RawMessage {
	return regexp.MustCompile(`"[a-z_]+":`).ReplaceAllFunc(query, func(name []byte) []byte {
		return []byte(strings.ReplaceAll(string(name), "_", ""))
	})
}

func decoded(t *testing.T, kind reflect.Type, text json.RawMessage) reflect.Value {
	t.Helper()
	value := reflect.New(kind)
	if text != nil {
		check(t, json.Unmarshal(text, value.Interface()) == nil, "%s is no %s", text, kind)
	}
	return value.Elem()
}

func failure(values []reflect.Value) error {
	err, _ := values[len(values)-1].Interface().(error)
	return err
}

func TestCases(t *testing.T) {
	check(t, len(suite.Cases) >= 60, "%d cases", len(suite.Cases))
	for _, c := range suite.Cases {
		t.Run(c.Name, func(t *testing.T) {
			if c.Kind == "webhook" {
				verify(t, c)
			} else {
				play(t, c)
			}
		})
	}
}

func play(t *testing.T, c playedCase) {
	t.Helper()
	s := serve(t, c.Server)
	returned := invoke(t, s.client(t, c), c.Call)
	var result any
	var items []string
	var err error
	switch {
	case c.Kind == "request":
		err = failure(returned)
		result = returned[0].Interface()
	case c.Expect.Page != nil:
		got := returned[0].MethodByName("Page").Call([]reflect.Value{reflect.ValueOf(t.Context())})
		err = failure(got)
		result = got[0].Interface()
	default:
		items, err = collect(t, returned[0], c.Take)
	}
	checkError(t, c.Expect.Error, err)
	s.checkRequests(t, c)
	if c.Expect.Waits != nil {
		check(t, fmt.Sprint(*c.Expect.Waits) == fmt.Sprint(s.waits), "waits %v, want %v", s.waits, *c.Expect.Waits)
	}
	if c.Expect.Items != nil {
		check(t, fmt.Sprint(*c.Expect.Items) == fmt.Sprint(items), "items %v, want %v", items, *c.Expect.Items)
	}
	for _, wanted := range []any{c.Expect.Result, c.Expect.Page} {
		if wanted != nil {
			checkSubset(t, wanted, plain(t, result), "result")
		}
	}
}

// collect reads the ids of a list's items, at most take unless that is 0.
func collect(t *testing.T, list reflect.Value, take int) (ids []string, err error) {
	t.Helper()
	all := list.MethodByName("All").Call([]reflect.Value{reflect.ValueOf(t.Context())})[0]
	for item, failed := range all.Seq2() {
		if err, _ = failed.Interface().(error); err != nil {
			continue
		}
		ids = append(ids, item.FieldByName("ID").String())
		if len(ids) == take {
			break
		}
	}
	return ids, err
}

func plain(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	check(t, err == nil, "%v", err)
	var generic any
	check(t, json.Unmarshal(text, &generic) == nil, "%s", text)
	return generic
}

func checkSubset(t *testing.T, wanted, got any, place string) {
	t.Helper()
	switch wanted := wanted.(type) {
	case map[string]any:
		fields, _ := got.(map[string]any)
		for name, value := range wanted {
			checkSubset(t, value, fields[name], place+"."+name)
		}
	case []any:
		items, _ := got.([]any)
		check(t, len(wanted) == len(items), "%s has %d items, want %d", place, len(items), len(wanted))
		for i, value := range wanted {
			checkSubset(t, value, items[i], place+"["+strconv.Itoa(i)+"]")
		}
	default:
		check(t, reflect.DeepEqual(wanted, got), "%s is %v, want %v", place, got, wanted)
	}
}

func checkError(t *testing.T, text json.RawMessage, err error) {
	t.Helper()
	if text == nil {
		check(t, err == nil, "error %v", err)
		return
	}
	var wanted struct {
		Class, Type, Code, Message, Param *string
		Status                            *int
		RequestID                         *string `json:"request_id"`
		RetryAfter                        *int    `json:"retry_after"`
	}
	check(t, json.Unmarshal(text, &wanted) == nil, "%s", text)
	var network *NetworkError
	var argument *ArgumentError
	switch *wanted.Class {
	case "NetworkError":
		check(t, errors.As(err, &network), "error %v", err)
		return
	case "ArgumentError":
		check(t, errors.As(err, &argument), "error %v", err)
		return
	}
	sentinels := map[string]error{
		"InvalidRequestError": ErrInvalidRequest, "AuthenticationError": ErrAuthentication,
		"PermissionDeniedError": ErrPermissionDenied, "NotFoundError": ErrNotFound, "ConflictError": ErrConflict,
		"RateLimitError": ErrRateLimit, "ServerError": ErrServer,
	}
	for name, sentinel := range sentinels {
		check(t, errors.Is(err, sentinel) == (name == *wanted.Class), "error %v, is %s: %v", err, name, errors.Is(err, sentinel))
	}
	var got *APIError
	check(t, errors.As(err, &got), "error %v", err)
	checkField(t, "type", wanted.Type, string(got.Type))
	checkField(t, "code", wanted.Code, string(got.Code))
	checkField(t, "message", wanted.Message, got.Message)
	checkField(t, "param", wanted.Param, got.Param)
	checkField(t, "request_id", wanted.RequestID, got.RequestID)
	checkField(t, "status", wanted.Status, got.Status)
	checkField(t, "retry_after", wanted.RetryAfter, int(got.RetryAfter.Seconds()))
}

func checkField[T comparable](t *testing.T, name string, wanted *T, got T) {
	t.Helper()
	check(t, wanted == nil || *wanted == got, "%s is %v, want %v", name, got, wanted)
}

func verify(t *testing.T, c playedCase) {
	t.Helper()
	body := []byte(suite.Body)
	if c.Body != nil {
		body = []byte(*c.Body)
	}
	if c.BodyHex != nil {
		body, _ = hex.DecodeString(*c.BodyHex)
	}
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value)
	}
	verifier := NewVerifier(c.Secrets...)
	verifier.Now = func() time.Time { return time.Unix(c.Now, 0) }
	if c.Tolerance != nil {
		verifier.Tolerance = time.Duration(*c.Tolerance) * time.Second
	}
	event, err := verifier.Verify(header, body)
	var refused *WebhookError
	if errors.As(err, &refused) {
		check(t, string(c.Expect.Error) == strconv.Quote(string(refused.Kind)), "kind %s, want %s", refused.Kind, c.Expect.Error)
		return
	}
	check(t, err == nil && c.Expect.Error == nil, "error %v, want %s", err, c.Expect.Error)
	got := map[string]any{
		"type": event.Type, "uid": event.UID, "id": event.ID, "delivery_id": event.DeliveryID,
		"attempt": event.Attempt, "source": event.Source, "body": event.Body,
	}
	checkSubset(t, c.Expect.Event, plain(t, got), "event")
}

func TestCalls_HaveTheirOwnIdempotencyKey(t *testing.T) {
	s := serve(t, []step{{Body: []byte("{}")}, {Body: []byte("{}")}})
	client := s.client(t, playedCase{})
	for range 2 {
		_, err := client.CreateLabel(t.Context(), LabelDraft{Name: "a"})
		check(t, err == nil, "%v", err)
	}
	check(t, s.seen[0].Header.Get("Idempotency-Key") != s.seen[1].Header.Get("Idempotency-Key"), "the same key")
}

func TestOperations_AllOfTheContract(t *testing.T) {
	check(t, len(operations) >= 61, "%d operations", len(operations))
	for _, o := range operations {
		t.Run(o.Operation, func(t *testing.T) {
			s := serve(t, []step{{Status: o.Status, Headers: map[string]string{"Location": "x"}, Body: o.Answer}})
			returned := invoke(t, s.client(t, playedCase{}), o.call)
			err := failure(returned)
			if len(returned) == 1 {
				_, err = collect(t, returned[0], 0)
			}
			check(t, err == nil, "%v", err)
			check(t, s.seen[0].Method == o.Method && s.seen[0].RequestURI == o.Path, "%s %s", s.seen[0].Method, s.seen[0].RequestURI)
		})
	}
}

// A send body needs only what differs; and a call that the caller cancels is not retried.
func TestSendText_FillsInItsType(t *testing.T) {
	text, err := json.Marshal(SendText{To: Ptr("+351910000001"), Text: TextContent{Body: "Hi"}})
	check(t, err == nil, "%v", err)
	checkSubset(t, map[string]any{"messaging_product": "chat", "type": "text", "to": "+351910000001"}, plain(t, json.RawMessage(text)), "body")
}

func TestCancel_EndsTheCall(t *testing.T) {
	s := serve(t, []step{{Status: http.StatusServiceUnavailable}, {Status: http.StatusServiceUnavailable}})
	client := s.client(t, playedCase{})
	ctx, cancel := context.WithCancel(t.Context())
	client.sleep = func(ctx context.Context, wait time.Duration) error {
		cancel()
		return pause(ctx, wait)
	}
	_, err := client.GetMe(ctx)
	check(t, errors.Is(err, context.Canceled), "error %v", err)
	check(t, len(s.seen) == 1, "%d requests", len(s.seen))
}
