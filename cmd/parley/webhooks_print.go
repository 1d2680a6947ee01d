package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/signature"
)

// received is a delivery as it is printed.
type received struct {
	At         clock.Stamp         `json:"received_at"`
	Method     string              `json:"method"`
	Path       string              `json:"path"`
	Event      string              `json:"event"`
	EventID    string              `json:"event_id"`
	EventUID   string              `json:"event_uid"`
	DeliveryID string              `json:"delivery_id"`
	Attempt    int                 `json:"attempt"`
	Verified   *bool               `json:"verified"` // null without --secret
	Failure    *receivedFailure    `json:"failure,omitempty"`
	Status     int                 `json:"status"`
	Headers    map[string][]string `json:"headers"`
	Body       string              `json:"body"`
	BodyBase64 []byte              `json:"body_base64"` // the exact bytes

	ForwardError string `json:"forward_error,omitempty"`
}

type receivedFailure struct {
	Step    string `json:"step"`
	Message string `json:"message"`
}

func newReceived(request *http.Request, body []byte, at time.Time) *received {
	attempt, _ := strconv.Atoi(request.Header.Get("X-Svc-Attempt")) // 0 when it is missing
	return &received{
		At: clock.Stamp(at), Method: request.Method, Path: request.URL.RequestURI(),
		Event: request.Header.Get("X-Svc-Event"), EventID: request.Header.Get("X-Svc-Event-Id"),
		EventUID: request.Header.Get("X-Svc-Event-Uid"), DeliveryID: request.Header.Get("X-Svc-Delivery-Id"), Attempt: attempt,
		Headers: request.Header, Body: strings.ToValidUTF8(string(body), "\uFFFD"), BodyBase64: body,
	}
}

func (d *received) verify(err error) {
	verified := err == nil
	d.Verified = &verified
	if failed, ok := errors.AsType[*signature.Error](err); ok {
		d.Failure = &receivedFailure{Step: string(failed.Step), Message: failed.Reason}
	}
}

func (r *localReceiver) print(d *received) {
	var text bytes.Buffer
	if r.asJSON {
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(d); err != nil {
			fmt.Fprintln(&text, err)
		}
	} else {
		fmt.Fprintln(&text, printable(d.line()))
		fmt.Fprintln(&text, printable(indented(d.BodyBase64)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.out.Write(text.Bytes()) // there is no other output to report an error to
}

// line has the event, whether its signature is valid, and the status of the answer.
func (d *received) line() string {
	words := []string{d.At.String()}
	if d.Event == "" {
		words = append(words, d.Method, d.Path)
	} else {
		words = append(words, d.Event, d.EventUID, d.DeliveryID, "attempt "+strconv.Itoa(d.Attempt))
	}
	switch {
	case d.Verified == nil:
		words = append(words, "not verified")
	case *d.Verified:
		words = append(words, "OK")
	default:
		words = append(words, "FAIL "+d.Failure.Message)
	}
	words = append(words, "→", strconv.Itoa(d.Status))
	if d.ForwardError != "" {
		words = append(words, "(cannot forward: "+d.ForwardError+")")
	}
	return strings.Join(words, " ")
}

func indented(body []byte) string {
	var text bytes.Buffer
	if err := json.Indent(&text, body, "  ", "  "); err == nil {
		return "  " + text.String()
	}
	if utf8.Valid(body) {
		return "  " + string(body)
	}
	return "  " + strconv.Quote(string(body))
}

// printable replaces control characters, because a terminal would execute them.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}
