package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

// The canaries are secrets, or values in places where a caller may put a secret by mistake.
const (
	canaryQuery = "canary-query-7Rz1"
	canaryBody  = "canary-body-7Rz2"
	canaryOnce  = "canary-idempotency-7Rz3"
	canaryPath  = "svc_live_canary-in-the-path-7Rz4x"
	canaryAgent = "svc_live_canary-in-the-agent-7Rz5"
	canaryGuess = "svc_live_canary-of-a-guess-7Rz6xx"
	canaryBasic = "Basic canary-basic-7Rz7"

	keptName = "canary name 7Rz8"
	keptOnce = "canary-kept-once-7Rz9"
)

// apilogFixture has a key for each reason why a request is served or refused, and the canaries.
type apilogFixture struct {
	*fixture

	server   *server
	orgIDs   []orgs.ID
	good     caller
	inactive caller
	barred   caller
	free     caller
	tiny     caller
	revoked  caller
	expired  caller
	labelID  string
	canaries map[string]string
	kept     map[string]string
}

func newAPILogFixture(t *testing.T, base *fixture, s *server) *apilogFixture {
	t.Helper()
	f := &apilogFixture{fixture: base, server: s, kept: map[string]string{"name of a label": keptName, "Idempotency-Key": keptOnce}}
	f.canaries = map[string]string{
		"query": canaryQuery, "body": canaryBody, "Idempotency-Key": canaryOnce, "key in the path": canaryPath,
		"key in the user agent": canaryAgent, "unknown key": canaryGuess, "basic credential": canaryBasic[len("Basic "):],
		"master key": canary.Master,
	}
	f.plan(t, "tiny", 1, 1)
	f.good, f.inactive, f.barred = f.caller(t, unlimited), f.caller(t, unlimited), f.caller(t, unlimited)
	f.free, f.tiny, f.revoked, f.expired = f.caller(t, "free"), f.caller(t, "tiny"), f.caller(t, unlimited), f.caller(t, unlimited)
	lapsed := orgs.Inactive
	_, err := f.orgs.Set(t.Context(), f.inactive.org, audit.Operator(), orgs.Change{Subscription: &lapsed})
	require.NoError(t, err)
	_, err = f.orgs.Suspend(t.Context(), f.barred.org, audit.Operator())
	require.NoError(t, err)
	f.exec(t, `UPDATE api_keys SET revoked_at = now() WHERE id = $1`, f.revoked.keyID)
	f.exec(t, `UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE id = $1`, f.expired.keyID)
	made, err := s.client(f.good.key).create(t.Context(), keptName, keptOnce)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	f.labelID = made.data(t)["id"].(string)
	return f
}

func (f *apilogFixture) caller(t *testing.T, plan string) caller {
	t.Helper()
	org := f.org(t, plan)
	id, key := f.key(t, org)
	f.orgIDs = append(f.orgIDs, org)
	f.canaries[fmt.Sprintf("key of caller %d", len(f.orgIDs))] = key
	return caller{org: org, keyID: id.String(), key: key}
}

// kinds are the requests that the test sends.
func (f *apilogFixture) kinds() []kind {
	return slices.Concat(f.servedKinds(), f.refusedKinds(), f.refusedKeyKinds(), f.unknownKeyKinds())
}

// always repeats the same request, with a copy of its headers. Where the Idempotency-Key is the
// canary, each copy has a different one.
func always(sent call) func(int) call {
	return func(n int) call {
		same := sent
		same.header = maps.Clone(sent.header)
		if same.header["Idempotency-Key"] == canaryOnce {
			same.header["Idempotency-Key"] += fmt.Sprint("-", n)
		}
		return same
	}
}

func (f *apilogFixture) servedKinds() []kind {
	return []kind{
		{
			name: "me", caller: f.good, status: http.StatusOK, route: "/me",
			sent: always(call{method: "GET", path: "/me"}),
		},
		{
			name: "a list with a query", caller: f.good, status: http.StatusOK, route: "/labels",
			sent: always(call{method: "GET", path: "/labels?limit=7"}),
		},
		{
			name: "a key in the user agent", caller: f.good, status: http.StatusOK, route: "/labels/{id}",
			sent: func(n int) call {
				return call{method: "GET", path: "/labels/" + f.labelID, header: map[string]string{"User-Agent": fmt.Sprintf("e2e/%d %s", n, canaryAgent)}}
			},
		},
		{
			name: "create", caller: f.good, status: http.StatusCreated, route: "/labels",
			sent: func(n int) call {
				return call{method: "POST", path: "/labels", body: fmt.Sprintf(`{"name":"made %d"}`, n)}
			},
		},
		{
			name: "replay", caller: f.good, status: http.StatusCreated, route: "/labels", replayed: true,
			sent: always(call{
				method: "POST", path: "/labels", body: fmt.Sprintf(`{"name":%q}`, keptName), header: map[string]string{"Idempotency-Key": keptOnce},
			}),
		},
		{
			name: "change", caller: f.good, status: http.StatusOK, route: "/labels/{id}",
			sent: func(n int) call {
				return call{method: "PATCH", path: "/labels/" + f.labelID, body: fmt.Sprintf(`{"color":%q}`, []string{"red", "blue"}[n%2])}
			},
		},
	}
}

func (f *apilogFixture) refusedKinds() []kind {
	post := func(body string, header map[string]string) func(int) call {
		return always(call{method: "POST", path: "/labels", body: body, header: header})
	}
	once := map[string]string{"Idempotency-Key": canaryOnce}
	return []kind{
		{name: "a body with an unknown field", caller: f.good, status: 400, code: "invalid_field_value", route: "/labels", sent: post(`{"name":"x","`+canaryBody+`":"`+canaryBody+`"}`, once)},
		{name: "a broken body", caller: f.good, status: 400, code: "invalid_field_value", route: "/labels", sent: post(`{"name":"`+canaryBody, once)},
		{name: "an unknown query parameter", caller: f.good, status: 400, code: "invalid_field_value", route: "/labels", sent: always(call{method: "GET", path: "/labels?" + canaryQuery + "=" + canaryQuery})},
		{name: "a foreign cursor", caller: f.good, status: 400, code: "invalid_cursor", route: "/labels", sent: always(call{method: "GET", path: "/labels?cursor=" + canaryQuery})},
		{name: "unknown label", caller: f.good, status: 404, code: "resource_not_found", route: "/labels/{id}", sent: always(call{method: "GET", path: "/labels/lbl_01ARZ3NDEKTSV4RRFFQ69G5FAV"})},
		{name: "unknown route", caller: f.good, status: 404, code: "resource_not_found", sent: always(call{method: "GET", path: "/nowhere?key=" + canaryQuery})},
		{name: "a key in the path", caller: f.good, status: 404, code: "resource_not_found", route: "/labels/{id}", path: "/v1/labels/svc_live_[hidden]", sent: always(call{method: "GET", path: "/labels/" + canaryPath})},
		{name: "a key in an unknown path", caller: f.good, status: 404, code: "resource_not_found", path: "/v1/x/svc_live_[hidden]/y", sent: always(call{method: "GET", path: "/x/svc%5Flive_" + strings.TrimPrefix(canaryPath, "svc_live_") + "/y"})},
		{name: "wrong verb", caller: f.good, status: 405, code: "method_not_allowed", sent: always(call{method: "PUT", path: "/labels"})},
		{name: "a name twice", caller: f.good, status: 409, code: "already_exists", route: "/labels", sent: post(fmt.Sprintf(`{"name":%q}`, keptName), once)},
		{name: "too large", caller: f.good, status: 413, code: "request_too_large", route: "/labels", sent: post(`{"name":"`+strings.Repeat(canaryBody, 1<<20/len(canaryBody)+1)+`"}`, once)},
		{name: "not JSON", caller: f.good, status: 415, code: "unsupported_media_type", route: "/labels", sent: post(canaryBody, map[string]string{"Content-Type": "text/plain"})},
		{name: "a key for another request", caller: f.good, status: 422, code: "idempotency_key_reuse", route: "/labels", sent: post(`{"name":"`+canaryBody+`"}`, map[string]string{"Idempotency-Key": keptOnce})},
	}
}

func (f *apilogFixture) refusedKeyKinds() []kind {
	list, create := always(call{method: "GET", path: "/labels"}), always(call{method: "POST", path: "/labels", body: `{"name":"` + canaryBody + `"}`})
	return []kind{
		{name: "revoked key", caller: f.revoked, status: 401, code: "revoked_api_key", route: "/labels", sent: list},
		{name: "expired key", caller: f.expired, status: 401, code: "expired_api_key", route: "/labels", sent: list},
		{name: "lapsed subscription", caller: f.inactive, status: 402, code: "subscription_inactive", route: "/labels", sent: create},
		{name: "suspended", caller: f.barred, status: 403, code: "organization_suspended", route: "/labels", sent: list},
		{name: "no API on the plan", caller: f.free, status: 403, code: "feature_not_available", route: "/labels", sent: list, mostly: true},
		{name: "too fast", caller: f.tiny, status: 429, code: "rate_limit_exceeded", route: "/labels", sent: list, mostly: true},
	}
}

func (f *apilogFixture) unknownKeyKinds() []kind {
	list := always(call{method: "GET", path: "/labels"})
	return []kind{
		{name: "unknown key", caller: caller{key: canaryGuess}, status: 401, code: "invalid_api_key", sent: list, unlogged: true},
		{name: "no key", status: 401, code: "missing_api_key", sent: list, unlogged: true},
		{name: "basic", status: 401, code: "invalid_api_key", unlogged: true, sent: always(call{method: "GET", path: "/labels", header: map[string]string{"Authorization": canaryBasic}})},
	}
}
