// Package parley is the Go SDK of Parley. Client has one method for each operation of the contract.
package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Version is the version of this SDK.
const Version = "0.1.0"

const (
	firstWait   = 500 * time.Millisecond // before the second attempt; doubles with each further one
	longestWait = 8 * time.Second        // Retry-After may ask for more
)

// Client makes requests. It may be used by several goroutines.
type Client struct {
	apiKey     string
	baseURL    string
	http       *http.Client
	timeout    time.Duration
	maxRetries int
	maxElapsed time.Duration

	// Tests replace these.
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
	rand  func() float64 // 0 to 1
}

// Option changes a setting of a Client.
type Option func(*Client)

// WithTimeout sets how long one attempt may take. The default is 30 seconds.
func WithTimeout(timeout time.Duration) Option { return func(c *Client) { c.timeout = timeout } }

// WithMaxRetries sets the number of attempts after the first. The default is 4.
func WithMaxRetries(retries int) Option { return func(c *Client) { c.maxRetries = retries } }

// WithMaxElapsed sets the time after which no further attempt starts. The default is 60 seconds.
func WithMaxElapsed(elapsed time.Duration) Option { return func(c *Client) { c.maxElapsed = elapsed } }

// WithTransport sets what carries the requests. The default is http.DefaultTransport.
func WithTransport(transport http.RoundTripper) Option {
	return func(c *Client) { c.http.Transport = transport }
}

// New returns a client. The base URL ends in /v1.
func New(apiKey, baseURL string, options ...Option) (*Client, error) {
	parsed, err := url.Parse(baseURL)
	if err != nil || parsed.Host == "" || apiKey == "" {
		return nil, errors.New("parley: New needs an API key and an absolute URL")
	}
	c := &Client{
		apiKey: apiKey, baseURL: strings.TrimRight(baseURL, "/"),
		// A redirect is not followed, so that the key never goes to another host.
		http:    &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		timeout: 30 * time.Second, maxRetries: 4, maxElapsed: time.Minute,
		now: time.Now, sleep: pause, rand: rand.Float64,
	}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// RequestOption changes one request.
type RequestOption func(*http.Request)

// WithIdempotencyKey sets the Idempotency-Key of a POST. Without it the client makes one.
func WithIdempotencyKey(key string) RequestOption {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// Request makes a request that has no method of its own, and decodes its answer into out. The path is
// the list of the segments after /v1; each is escaped.
func (c *Client) Request(
	ctx context.Context, method string, path []string, query url.Values, body, out any, opts ...RequestOption,
) error {
	answer, err := c.send(ctx, method, path, query, body, opts)
	if err != nil {
		return err
	}
	if answer.status >= http.StatusMultipleChoices {
		return answer.refusal()
	}
	if err := json.Unmarshal(answer.body, out); err != nil {
		return &APIError{Status: answer.status, Type: ErrorTypeAPIError, Message: "The answer is not as the contract says: " + err.Error()}
	}
	return nil
}

func request[T any](
	ctx context.Context, c *Client, method string, path []string, query url.Values, body any, opts []RequestOption,
) (*T, error) {
	var out T
	if err := c.Request(ctx, method, path, query, body, &out, opts...); err != nil {
		return nil, err
	}
	return &out, nil
}

// location makes a request that is answered with a redirect, and returns where it leads.
func (c *Client) location(ctx context.Context, method string, path []string) (string, error) {
	answer, err := c.send(ctx, method, path, nil, nil, nil)
	if err != nil {
		return "", err
	}
	if answer.status != http.StatusFound {
		return "", answer.refusal()
	}
	return answer.header.Get("Location"), nil
}

// send makes attempts until one has an answer that is final.
func (c *Client) send(
	ctx context.Context, method string, path []string, query url.Values, body any, opts []RequestOption,
) (*answer, error) {
	made, content, err := c.request(ctx, method, path, query, body, opts)
	if err != nil {
		return nil, err
	}
	for attempt, began := 0, c.now(); ; attempt++ {
		got, failure := c.attempt(made, content)
		if failure == nil && !got.retriable() {
			return got, failure
		}
		wait := c.wait(got, attempt)
		if attempt >= c.maxRetries || c.now().Sub(began)+wait > c.maxElapsed {
			return got, failure
		}
		if err := c.sleep(ctx, wait); err != nil {
			return nil, &NetworkError{err}
		}
	}
}

// request returns the request without its body, and the body.
func (c *Client) request(
	ctx context.Context, method string, path []string, query url.Values, body any, opts []RequestOption,
) (*http.Request, []byte, error) {
	target := []string{c.baseURL}
	for _, segment := range path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, nil, &ArgumentError{fmt.Sprintf("an id or name in the path must not be %q", segment)}
		}
		target = append(target, url.PathEscape(segment))
	}
	address := strings.Join(target, "/")
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	content, kind, err := encode(body)
	if err != nil {
		return nil, nil, &ArgumentError{err.Error()}
	}
	made, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, nil, &ArgumentError{err.Error()}
	}
	made.Header.Set("Authorization", "Bearer "+c.apiKey)
	made.Header.Set("Accept", "application/json")
	made.Header.Set("User-Agent", "parley-go/"+Version)
	if content != nil {
		made.Header.Set("Content-Type", kind)
	}
	if method == http.MethodPost {
		made.Header.Set("Idempotency-Key", newKey()) // the same in all attempts, so that the effect happens once
	}
	for _, opt := range opts {
		opt(made)
	}
	return made, content, nil
}

func (c *Client) attempt(made *http.Request, content []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(made.Context(), c.timeout)
	defer cancel()
	request := made.Clone(ctx)
	if content != nil {
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &NetworkError{err}
	}
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, &NetworkError{err}
	}
	return &answer{response.StatusCode, response.Header, body}, nil
}

// wait returns the time before the next attempt. Its random part keeps clients from coming back together.
func (c *Client) wait(got *answer, attempt int) time.Duration {
	if got != nil {
		if after, given := got.retryAfter(); given {
			return after + part(firstWait, c.rand())
		}
	}
	full := min(part(firstWait, math.Pow(2, float64(attempt))), longestWait)
	return full/2 + part(full/2, c.rand())
}

func part(of time.Duration, share float64) time.Duration { return time.Duration(float64(of) * share) }

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer is what the server said, whatever its status.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) retriable() bool {
	switch a.status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		return a.refusal().Code == ErrorCodeIdempotencyInProgress
	}
	return false
}

var seconds = regexp.MustCompile(`^[0-9]{1,9}$`)

func (a *answer) retryAfter() (time.Duration, bool) {
	given := a.header.Get("Retry-After")
	if !seconds.MatchString(given) {
		return 0, false
	}
	count, _ := strconv.Atoi(given) // it is digits
	return time.Duration(count) * time.Second, true
}
