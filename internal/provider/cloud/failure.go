package cloud

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

// refusal is the network's error, in an answer or in a callback.
type refusal struct {
	Message   text            `json:"message"`
	Title     text            `json:"title"`
	Code      whole           `json:"code"`
	Subcode   whole           `json:"error_subcode"`
	Data      json.RawMessage `json:"error_data"` // an object, on some edges a text
	Trace     text            `json:"fbtrace_id"`
	Transient flag            `json:"is_transient"`
	UserTitle text            `json:"error_user_title"`
	UserText  text            `json:"error_user_msg"`
}

// judge turns an answer that is no success into an error.
func (c *Client) judge(r request, got answer) *provider.Error {
	envelope := read[struct {
		Error *refusal `json:"error"`
	}](got.body)
	success := got.status >= http.StatusOK && got.status < http.StatusMultipleChoices
	switch {
	case envelope.Error != nil && envelope.Error.Code.given:
		failed := c.failure(*envelope.Error, got.status, r)
		failed.Operation = r.operation
		failed.RetryAfter = max(failed.RetryAfter, c.retryAfter(got.header, failed.Class))
		return failed
	case success && envelope.Error == nil:
		return nil // whether it says enough is for the caller to find out
	default:
		return c.wordless(r, got)
	}
}

// wordless is the error of an answer that is not the network's: of a proxy, a load balancer, an
// outage. It is not_sent only if the request was certainly not executed.
func (c *Client) wordless(r request, got answer) *provider.Error {
	failed := &provider.Error{
		Operation: r.operation, Class: provider.Retryable, Delivery: provider.Ambiguous, Code: fault.UpstreamError,
		HTTPStatus: got.status, Details: "the answer is not the provider's",
	}
	if got.status >= http.StatusBadRequest && got.status < http.StatusInternalServerError {
		failed.Delivery = provider.NotSent
	}
	switch got.status {
	case http.StatusTooManyRequests:
		failed.Class, failed.Code, failed.Limit = provider.RateLimited, provider.AccountRateLimited, provider.LimitNumber
	case http.StatusRequestEntityTooLarge:
		failed.Class = provider.Terminal
	}
	failed.RetryAfter = c.retryAfter(got.header, failed.Class)
	return failed
}

var prefixed = regexp.MustCompile(`^\(#[0-9]+\)\s*`)

// failure maps the network's error by its code. It refused, so nothing was sent.
func (c *Client) failure(given refusal, status int, r request) *provider.Error {
	code := given.Code.int()
	found := verdictOf(code, given.Subcode.int(), status, bool(given.Transient))
	if !given.Code.given { // code 0 would mean that the token is not valid
		found = verdict{class: provider.Terminal, code: fault.UpstreamError}
	}
	details := read[struct {
		Details text `json:"details"`
	}](given.Data).Details
	if details == "" {
		details = read[text](given.Data)
	}
	if details == "" || given.UserText != "" {
		details = given.UserText
	}
	title := given.Title
	if title == "" {
		title = text(prefixed.ReplaceAllString(string(given.Message), ""))
	}
	if given.UserTitle != "" {
		title = given.UserTitle
	}
	known := &code
	if !given.Code.given || code > math.MaxInt32 || code < math.MinInt32 {
		known = nil // no code of the network is that large
	}
	return &provider.Error{
		Class: found.class, Delivery: provider.NotSent, Code: found.code, ProviderCode: known, Subcode: given.Subcode.int(),
		Title: c.hide(line(string(title)), r), Details: c.hide(line(string(details)), r),
		HTTPStatus: status, RetryAfter: found.wait, Limit: found.limit, Effect: found.effect, Missing: found.missing,
		Trace: line(string(given.Trace)),
	}
}

// retryAfter reads how long to wait: the standard header, and the usage of the hour, which
// is told in minutes.
func (c *Client) retryAfter(header http.Header, class provider.Class) time.Duration {
	const most = 24 * time.Hour
	wait := time.Duration(0)
	given := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(given, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(given); err == nil {
		wait = date.Sub(c.config.Clock.Now())
	}
	if class == provider.RateLimited {
		usage := read[map[string][]struct {
			Minutes whole `json:"estimated_time_to_regain_access"`
		}](json.RawMessage(header.Get("X-Business-Use-Case-Usage")))
		for _, lines := range usage {
			for _, line := range lines {
				wait = max(wait, time.Duration(min(max(line.Minutes.value, 0), 24*60))*time.Minute)
			}
		}
	}
	return min(max(wait, 0), most)
}

const hidden = "[hidden]"

// tokenLike matches the network's tokens: its errors repeat malformed ones.
var tokenLike = regexp.MustCompile(`EAA[A-Za-z0-9]{16,}`)

// hide removes secrets from text: those of the request and our own.
func (c *Client) hide(words string, r request) string {
	for _, secret := range slices.Concat(r.secrets, []string{r.token.Reveal()}, c.secrets) {
		if secret != "" {
			words = strings.ReplaceAll(words, secret, hidden)
		}
	}
	return tokenLike.ReplaceAllString(words, hidden)
}

// clean removes secrets from an error of the transport.
func (c *Client) clean(cause error, r request) error {
	if words := cause.Error(); c.hide(words, r) != words {
		return errors.New(c.hide(words, r))
	}
	return cause
}
