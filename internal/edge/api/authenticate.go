package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clientip"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/idempotency"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
)

const scheme = "Bearer "

// byKey finds the organization of the request by its API key. A known key is set in the call even
// when it is refused, so that the refusal is in the API log of its organization.
func (a *API) byKey(c *call) error {
	c.byKey = true
	presented, err := bearer(c.request.Header)
	if err != nil {
		return a.countBadKey(c, err)
	}
	hash, err := apikeys.Hash(presented)
	if err != nil {
		return a.countBadKey(c, err)
	}
	route, cached := a.Directory.Cached(directory.APIKey, hash)
	if !cached {
		if err := a.refuseLookup(c); err != nil {
			return err
		}
		route, err = a.Directory.Reread(c.ctx(), directory.APIKey, hash)
	}
	if err == nil {
		err = a.enterCell(c, route, hash)
	}
	if errors.Is(err, apikeys.ErrElsewhere) { // the organization moved since the route was cached
		if route, err = a.Directory.Reread(c.ctx(), directory.APIKey, hash); err == nil {
			err = a.enterCell(c, route, hash)
		}
	}
	switch {
	case errors.Is(err, directory.ErrUnknown):
		return a.countBadKey(c, apikeys.Unknown())
	case errors.Is(err, apikeys.ErrElsewhere):
		return fault.Moving(nil)
	default:
		return a.countBadKey(c, err)
	}
}

// enterCell looks the key up in the cell of its route. What is stored under the Idempotency-Key of the
// request is read in the same round trip; once uses it if the caller is not refused.
func (a *API) enterCell(c *call, route directory.Route, hash []byte) error {
	home, served := a.Cells[route.Cell]
	if !served {
		return fault.Unavailable(time.Second, fmt.Errorf("cell %s is not served here", route.Cell))
	}
	c.cell = home
	leave, err := a.enter(a.arriving[route.Cell], c, route.OrgID)
	if err != nil {
		return err
	}
	defer leave()
	var others []postgres.Statement
	c.stored = nil
	if key, err := idempotencyKey(c); err == nil && key != "" { // once refuses a malformed key
		c.stored = &idempotency.Stored{}
		others = append(others, home.Idempotency.Look(key, c.stored))
	}
	c.caller, err = home.Keys.Authenticate(postgres.Yielding(c.ctx()), route.OrgID, route.Epoch, hash, others...)
	return err
}

// countBadKey counts a bad key for the address of the caller. Too many of them answer 429.
func (a *API) countBadKey(c *call, err error) error {
	if err == nil || errorType(fault.Of(err)) != authenticationError {
		return err
	}
	if refused := a.refuseGuess(c, a.Guesses.Spend(clientip.Bucket(c.ip))); refused != nil {
		return refused
	}
	return err
}

// lookupLimit is how many unknown keys are looked up for an address without guesses, so that a program with an old key does
// not keep a new key out that is used behind the same address.
var lookupLimit = ratelimit.Limit{PerSecond: 10, Burst: 10} //nolint:gochecknoglobals // a constant

// refuseLookup refuses a key that this process has not seen, if its address has neither guesses nor lookups left. Otherwise
// many bad keys would be as many reads of the directory.
func (a *API) refuseLookup(c *call) error {
	guess := a.Guesses.Peek(clientip.Bucket(c.ip))
	if !guess.Allowed && a.lookups.Spend(clientip.Bucket(c.ip)).Allowed {
		return nil
	}
	return a.refuseGuess(c, guess)
}

// refuseGuess answers 429 when the address of the caller has no guesses left.
func (a *API) refuseGuess(c *call, guess ratelimit.Decision) error {
	if guess.Allowed {
		return nil
	}
	c.bucket, c.guessed = &guess, true
	return &fault.Error{
		Code:       fault.RateLimitExceeded,
		Message:    "Too many requests with a bad API key from this address. Check the key, then retry after the time given in Retry-After.",
		RetryAfter: guess.RetryAfter,
	}
}

// bearer reads the key from the Authorization header. Keys are accepted nowhere else.
func bearer(header http.Header) (string, error) {
	values := header.Values("Authorization")
	if len(values) == 0 {
		return "", fault.New(fault.MissingAPIKey, "No API key was sent. Send it as `Authorization: Bearer svc_live_…`.")
	}
	if len(values) > 1 {
		return "", fault.New(fault.InvalidAPIKey, "The Authorization header was sent more than once. Send one.")
	}
	if value := values[0]; len(value) > len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) {
		return value[len(scheme):], nil
	}
	return "", fault.New(fault.InvalidAPIKey, "The Authorization header holds no bearer token. Send it as `Authorization: Bearer svc_live_…`.")
}
