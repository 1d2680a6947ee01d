package cloud

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonout"
	"github.com/parley-chat/parley/internal/provider"
)

// request is one call of the network's API.
type request struct {
	operation string
	method    string
	path      string // below the version
	query     url.Values
	token     provider.Token
	header    map[string]string
	body      []byte // JSON, unless stream is set
	stream    *stream
	timeout   time.Duration // the client's when zero
	secrets   []string      // never printed, beside the token
}

// stream is a body that is not JSON.
type stream struct {
	contentType string
	length      int64
	open        func() (io.ReadCloser, error)
}

// trail records whether a request left. The transport repeats a POST by itself only after
// having written nothing, so a new connection starts with a clean trail.
type trail struct{ left atomic.Bool }

func (t *trail) follow(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { t.left.Store(false) },
		WroteHeaders: func() { t.left.Store(true) },
	})
}

func (t *trail) delivery() provider.Delivery {
	if t.left.Load() {
		return provider.Ambiguous
	}
	return provider.NotSent
}

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 1 << 20

const userAgent = "parley/1"

// call makes a request and reads its answer into a value, which says itself whether it is complete.
func (c *Client) call(ctx context.Context, r request, into completable) error {
	raw, err := c.roundTrip(ctx, r)
	if err != nil {
		return err
	}
	loose(raw.body, into)
	if !into.complete() {
		return c.unreadable(r, raw)
	}
	return nil
}

// completable is an answer that can check whether it has what a success must have.
type completable interface{ complete() bool }

// answer is a response: status, header and JSON.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (c *Client) roundTrip(ctx context.Context, r request) (answer, error) {
	timeout := r.timeout
	if timeout == 0 {
		timeout = c.config.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	way := new(trail)
	built, err := c.build(way.follow(ctx), r)
	if err != nil {
		return answer{}, c.impossible(r, err.Error())
	}
	response, err := c.transport.RoundTrip(built)
	if err != nil {
		return answer{}, c.unanswered(ctx, r, way, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	got := answer{status: response.StatusCode, header: response.Header, body: body}
	if err != nil || len(body) > maxAnswer {
		got.body = nil // half an answer is none; its status still tells something
	}
	if failed := c.judge(r, got); failed != nil {
		if err != nil {
			return got, failed.Because(c.clean(err, r))
		}
		return got, failed
	}
	return got, nil
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	address := c.config.BaseURL + "/" + c.config.Version + "/" + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	body := io.Reader(nil)
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	built, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, errors.New("the request cannot be built") // the cause would print the address
	}
	if r.body != nil {
		built.Header.Set("Content-Type", "application/json")
	}
	if r.stream != nil {
		if built.Body, err = r.stream.open(); err != nil {
			return nil, errors.New("the file cannot be opened")
		}
		built.GetBody, built.ContentLength = r.stream.open, r.stream.length
		built.Header.Set("Content-Type", r.stream.contentType)
	}
	if !r.token.Empty() {
		built.Header.Set("Authorization", "Bearer "+r.token.Reveal())
	}
	built.Header.Set("User-Agent", userAgent)
	built.Header.Set("Accept", "application/json")
	for name, value := range r.header {
		built.Header[name] = []string{value} // the network's spelling is kept
	}
	return built, nil
}

// impossible is the error of a request that cannot be built.
func (c *Client) impossible(r request, why string) *provider.Error {
	return &provider.Error{
		Operation: r.operation, Class: provider.Terminal, Delivery: provider.NotSent, Code: fault.UpstreamError, Details: why,
	}
}

// unanswered is the error of a request without an answer: ambiguous if it may have left.
func (c *Client) unanswered(ctx context.Context, r request, way *trail, cause error) *provider.Error {
	cause = c.clean(cause, r)
	if ended := ctx.Err(); ended != nil {
		cause = ended // says whether time was up or the caller gave up
	}
	failed := &provider.Error{
		Operation: r.operation, Class: provider.Retryable, Delivery: way.delivery(), Code: fault.UpstreamError,
	}
	return failed.Because(cause)
}

// unreadable is the error of a success without its required values: ambiguous, it may have been executed.
func (c *Client) unreadable(r request, got answer) *provider.Error {
	return &provider.Error{
		Operation: r.operation, Class: provider.Retryable, Delivery: provider.Ambiguous, Code: fault.UpstreamError,
		HTTPStatus: got.status, Details: "the answer cannot be read",
	}
}

var (
	decimal = regexp.MustCompile(`^[0-9]{1,32}$`)
	// mediaIDs were always decimal, and are nowhere promised to be.
	opaqueID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)
)

// node refuses an id that would change the path of the request.
func (c *Client) node(operation, id string, pattern *regexp.Regexp) error {
	if pattern.MatchString(id) {
		return nil
	}
	failed := c.impossible(request{operation: operation}, "the id is not one of the provider's")
	failed.Missing = true
	return failed
}

// done is the answer of every write but a send.
type done struct {
	Success flag `json:"success"`
}

func (d *done) complete() bool { return bool(d.Success) }

func encode(value any) []byte {
	text, _ := jsonout.Marshal(value) // texts and JSON that was found valid: nothing can fail
	return text
}
