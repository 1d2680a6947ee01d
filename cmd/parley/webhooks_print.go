package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
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

// printer shows deliveries, one at a time.
type printer struct {
	asJSON, bodies bool
	// numbered puts a number before each line, by which recall shows the body.
	numbered bool

	mu      sync.Mutex
	out     io.Writer
	printed int
	recent  []*received
}

// maxRecalled is how many deliveries a printer remembers.
const maxRecalled = 1000

func (p *printer) show(d *received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text bytes.Buffer
	switch {
	case p.asJSON:
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(d); err != nil {
			fmt.Fprintln(&text, err)
		}
	case p.numbered:
		p.printed++
		p.recent = append(p.recent[max(0, len(p.recent)-maxRecalled+1):], d)
		fmt.Fprintf(&text, "[%d] %s\n", p.printed, printable(d.short()))
	default:
		fmt.Fprintln(&text, printable(d.line()))
	}
	if p.bodies && !p.asJSON {
		fmt.Fprintln(&text, printable(indented(d.BodyBase64)))
	}
	_, _ = p.out.Write(text.Bytes()) // there is no other output to report an error to
}

// recall shows the body of each delivery whose number is typed.
func (p *printer) recall(typed io.Reader) {
	for lines := bufio.NewScanner(typed); lines.Scan(); {
		number, err := strconv.Atoi(strings.Trim(lines.Text(), "[] \t"))
		p.mu.Lock()
		at := number - 1 - (p.printed - len(p.recent))
		switch {
		case strings.TrimSpace(lines.Text()) == "":
		case p.printed == 0:
			fmt.Fprintln(p.out, "No event has arrived yet.")
		case err != nil || at < 0 || at >= len(p.recent):
			fmt.Fprintf(p.out, "Type the number of an event from %d to %d.\n", p.printed-len(p.recent)+1, p.printed)
		default:
			fmt.Fprintln(p.out, printable(indented(p.recent[at].BodyBase64)))
		}
		p.mu.Unlock()
	}
}

// line has the event, whether its signature is valid, and the status of the answer.
func (d *received) line() string {
	words := []string{d.At.String()}
	if d.Event == "" {
		words = append(words, d.Method, d.Path)
	} else {
		words = append(words, d.Event, d.EventUID, d.DeliveryID, "attempt "+strconv.Itoa(d.Attempt))
	}
	return strings.Join(append(words, d.fate()), " ")
}

// short has the time, the event, what it is about, and what became of it.
func (d *received) short() string {
	words := []string{time.Time(d.At).Format(time.TimeOnly), d.Event}
	if about := gist(d.BodyBase64); about != "" {
		words = append(words, about)
	}
	return strings.Join(append(words, d.fate()), "  ")
}

// fate tells whether the signature is valid, and what was answered.
func (d *received) fate() string {
	fate := "OK"
	switch {
	case d.Verified == nil:
		fate = "not verified"
	case !*d.Verified:
		fate = "FAIL " + d.Failure.Message
	}
	fate += " → " + strconv.Itoa(d.Status)
	if d.ForwardError != "" {
		fate += " (cannot forward: " + d.ForwardError + ")"
	}
	return fate
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
