// Package receiver is a webhook endpoint for tests: an HTTPS server on this machine that records
// every request and answers as the test wants. It checks no signatures, but fails the test when a
// request contains a secret. verify.go checks signatures with an implementation in Node.
package receiver

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
)

// Receiver is a running server. It is closed when the test ends.
type Receiver struct {
	// URL has the address 127.0.0.1; the certificate also covers localhost and the hosts that New was given.
	URL string
	// CA contains only the CA of the receivers of this process. CAFile has the same as PEM.
	CA     *x509.CertPool
	CAFile string

	closing chan struct{}

	mu         sync.Mutex
	answer     func(Request) Answer
	requests   []Request
	deliveries map[string]int
	events     map[string]int
	broken     int
	changed    chan struct{} // closed at the next request; nil while no test waits
}

// Request is a request that arrived completely.
type Request struct {
	Number int // from 1, in the order of arrival
	Method string
	Path   string // with its query
	Host   string
	Header http.Header
	Body   []byte // the bytes as they arrived
	At     time.Time
}

// DeliveryID returns the id of the delivery that the request is an attempt of.
func (r Request) DeliveryID() string { return r.Header.Get("X-Svc-Delivery-Id") }

// EventUID returns the id of the event, which is the same for retries and replays.
func (r Request) EventUID() string { return r.Header.Get("X-Svc-Event-Uid") }

// Event returns the type of the event.
func (r Request) Event() string { return r.Header.Get("X-Svc-Event") }

// Attempt returns the number of the attempt; 0 when the header is missing or not a number.
func (r Request) Attempt() int {
	attempt, _ := strconv.Atoi(r.Header.Get("X-Svc-Attempt"))
	return attempt
}

// New starts a receiver that answers 200 to everything.
func New(t testing.TB, hosts ...string) *Receiver {
	t.Helper()
	r := &Receiver{
		answer: Always(Answer{}), closing: make(chan struct{}),
		deliveries: map[string]int{}, events: map[string]int{},
	}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = slog.NewLogLogger(canary.Logger(t).Handler(), slog.LevelError)
	server.TLS, r.CA, r.CAFile = authority(t, hosts)
	server.StartTLS()
	r.URL = server.URL
	t.Cleanup(func() {
		close(r.closing)
		server.CloseClientConnections()
		server.Close()
		for _, one := range r.Requests() {
			canary.Check(t, "a request to "+one.Path, fmt.Appendf(bytes.Clone(one.Body), "\n%s\n%v", one.Path, one.Header))
		}
	})
	return r
}

// Client returns a client that trusts the receiver.
func (r *Receiver) Client(t testing.TB) *http.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = r.CA
	transport.MaxIdleConnsPerHost = 64
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Timeout: time.Minute}
	client.Transport = transport
	return client
}

// Answer sets the function that answers later requests. It must be safe for concurrent use.
func (r *Receiver) Answer(with func(Request) Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = with
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.broken++
		r.tell()
		return
	}
	received, answer := r.record(Request{
		Method: request.Method, Path: request.URL.RequestURI(), Host: request.Host, Header: request.Header.Clone(), Body: body, At: time.Now(),
	})
	answer(received).send(w, request, r.closing)
}

func (r *Receiver) record(request Request) (Request, func(Request) Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request.Number = len(r.requests) + 1
	r.requests = append(r.requests, request)
	r.deliveries[request.DeliveryID()]++
	r.events[request.EventUID()]++
	r.tell()
	return request, r.answer
}

func (r *Receiver) tell() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Requests returns all requests so far, in the order of arrival.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Count is how many requests arrived whole.
func (r *Receiver) Count() int { return count(r, func() int { return len(r.requests) }) }

// Broken is how many requests ended before their body did.
func (r *Receiver) Broken() int { return count(r, func() int { return r.broken }) }

// CountDelivery is how many attempts of one delivery arrived.
func (r *Receiver) CountDelivery(id string) int {
	return count(r, func() int { return r.deliveries[id] })
}

// CountEvent is how often one event arrived, by its uid.
func (r *Receiver) CountEvent(uid string) int { return count(r, func() int { return r.events[uid] }) }

// Deliveries counts the requests of each delivery.
func (r *Receiver) Deliveries() map[string]int {
	return count(r, func() map[string]int { return maps.Clone(r.deliveries) })
}

// Events counts the requests of each event, by its uid.
func (r *Receiver) Events() map[string]int {
	return count(r, func() map[string]int { return maps.Clone(r.events) })
}

func count[T any](r *Receiver, read func() T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return read()
}

// Wait calls asked now and after every request until it returns true, and fails the test after
// within. Asked should be fast, because there may be thousands of requests.
func (r *Receiver) Wait(t testing.TB, within time.Duration, what string, asked func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		changed := r.next()
		if asked() {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			if !asked() {
				require.FailNow(t, "waited in vain", "%s, for %s; %d requests arrived", what, within, r.Count())
			}
			return
		}
	}
}

func (r *Receiver) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// WaitCount waits until at least so many requests arrived, and returns all.
func (r *Receiver) WaitCount(t testing.TB, requests int, within time.Duration) []Request {
	t.Helper()
	r.Wait(t, within, strconv.Itoa(requests)+" requests", func() bool { return r.Count() >= requests })
	return r.Requests()
}

// WaitEvents waits until at least so many different events arrived.
func (r *Receiver) WaitEvents(t testing.TB, events int, within time.Duration) {
	t.Helper()
	r.Wait(t, within, strconv.Itoa(events)+" events", func() bool { return count(r, func() int { return len(r.events) }) >= events })
}

// WaitDelivery waits until at least so many attempts of one delivery arrived.
func (r *Receiver) WaitDelivery(t testing.TB, id string, attempts int, within time.Duration) {
	t.Helper()
	r.Wait(t, within, strconv.Itoa(attempts)+" attempts of "+id, func() bool { return r.CountDelivery(id) >= attempts })
}

// WaitEvent waits until one event arrived at least so often.
func (r *Receiver) WaitEvent(t testing.TB, uid string, times int, within time.Duration) {
	t.Helper()
	r.Wait(t, within, uid+" "+strconv.Itoa(times)+" times", func() bool { return r.CountEvent(uid) >= times })
}
