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

// The canaries are secrets, or stand where a caller may have put one.
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

// scene is a set of organizations in every standing.
type scene struct {
	world    *world
	server   *server
	orgs     []orgs.ID
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

func newScene(t *testing.T, w *world, s *server) *scene {
	t.Helper()
	sc := &scene{world: w, server: s, kept: map[string]string{"name of a label": keptName, "Idempotency-Key": keptOnce}}
	sc.canaries = map[string]string{
		"query": canaryQuery, "body": canaryBody, "Idempotency-Key": canaryOnce, "key in the path": canaryPath,
		"key in the user agent": canaryAgent, "unknown key": canaryGuess, "basic credential": canaryBasic[len("Basic "):],
		"master key": canary.Master,
	}
	w.plan(t, "tiny", 1, 1)
	sc.good, sc.inactive, sc.barred = sc.caller(t, unlimited), sc.caller(t, unlimited), sc.caller(t, unlimited)
	sc.free, sc.tiny, sc.revoked, sc.expired = sc.caller(t, "free"), sc.caller(t, "tiny"), sc.caller(t, unlimited), sc.caller(t, unlimited)
	lapsed := orgs.Inactive
	_, err := w.orgs.Set(t.Context(), sc.inactive.org, audit.Operator(), orgs.Change{Subscription: &lapsed})
	require.NoError(t, err)
	_, err = w.orgs.Suspend(t.Context(), sc.barred.org, audit.Operator())
	require.NoError(t, err)
	w.exec(t, `UPDATE api_keys SET revoked_at = now() WHERE id = $1`, sc.revoked.keyID)
	w.exec(t, `UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE id = $1`, sc.expired.keyID)
	made, err := s.client(sc.good.key).create(t.Context(), keptName, keptOnce)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	sc.labelID = made.data(t)["id"].(string)
	return sc
}

func (sc *scene) caller(t *testing.T, plan string) caller {
	t.Helper()
	org := sc.world.org(t, plan)
	id, key := sc.world.key(t, org)
	sc.orgs = append(sc.orgs, org)
	sc.canaries[fmt.Sprintf("key of caller %d", len(sc.orgs))] = key
	return caller{org: org, keyID: id.String(), key: key}
}

// kinds are the requests; the first word of a name is for people alone.
func (sc *scene) kinds() []kind {
	return slices.Concat(sc.servedKinds(), sc.refusedKinds(), sc.standingKinds(), sc.strangerKinds())
}

// always is the same request each time, with a map of its own and an Idempotency-Key of
// its own where the canary is one.
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

func (sc *scene) servedKinds() []kind {
	return []kind{
		{
			name: "me", who: sc.good, status: http.StatusOK, route: "/me",
			sent: always(call{method: "GET", path: "/me"}),
		},
		{
			name: "a list with a query", who: sc.good, status: http.StatusOK, route: "/labels",
			sent: always(call{method: "GET", path: "/labels?limit=7"}),
		},
		{
			name: "a key in the user agent", who: sc.good, status: http.StatusOK, route: "/labels/{id}",
			sent: func(n int) call {
				return call{method: "GET", path: "/labels/" + sc.labelID, header: map[string]string{"User-Agent": fmt.Sprintf("e2e/%d %s", n, canaryAgent)}}
			},
		},
		{
			name: "create", who: sc.good, status: http.StatusCreated, route: "/labels",
			sent: func(n int) call {
				return call{method: "POST", path: "/labels", body: fmt.Sprintf(`{"name":"made %d"}`, n)}
			},
		},
		{
			name: "replay", who: sc.good, status: http.StatusCreated, route: "/labels", replayed: true,
			sent: always(call{
				method: "POST", path: "/labels", body: fmt.Sprintf(`{"name":%q}`, keptName), header: map[string]string{"Idempotency-Key": keptOnce},
			}),
		},
		{
			name: "change", who: sc.good, status: http.StatusOK, route: "/labels/{id}",
			sent: func(n int) call {
				return call{method: "PATCH", path: "/labels/" + sc.labelID, body: fmt.Sprintf(`{"color":%q}`, []string{"red", "blue"}[n%2])}
			},
		},
	}
}

func (sc *scene) refusedKinds() []kind {
	post := func(body string, header map[string]string) func(int) call {
		return always(call{method: "POST", path: "/labels", body: body, header: header})
	}
	once := map[string]string{"Idempotency-Key": canaryOnce}
	return []kind{
		{name: "a body with a stranger's field", who: sc.good, status: 400, code: "invalid_field_value", route: "/labels", sent: post(`{"name":"x","`+canaryBody+`":"`+canaryBody+`"}`, once)},
		{name: "a broken body", who: sc.good, status: 400, code: "invalid_field_value", route: "/labels", sent: post(`{"name":"`+canaryBody, once)},
		{name: "a stranger in the query", who: sc.good, status: 400, code: "invalid_field_value", route: "/labels", sent: always(call{method: "GET", path: "/labels?" + canaryQuery + "=" + canaryQuery})},
		{name: "a cursor of somebody else", who: sc.good, status: 400, code: "invalid_cursor", route: "/labels", sent: always(call{method: "GET", path: "/labels?cursor=" + canaryQuery})},
		{name: "unknown label", who: sc.good, status: 404, code: "resource_not_found", route: "/labels/{id}", sent: always(call{method: "GET", path: "/labels/lbl_01ARZ3NDEKTSV4RRFFQ69G5FAV"})},
		{name: "unknown route", who: sc.good, status: 404, code: "resource_not_found", sent: always(call{method: "GET", path: "/nowhere?key=" + canaryQuery})},
		{name: "a key in the path", who: sc.good, status: 404, code: "resource_not_found", route: "/labels/{id}", path: "/v1/labels/svc_live_[hidden]", sent: always(call{method: "GET", path: "/labels/" + canaryPath})},
		{name: "a key in an unknown path", who: sc.good, status: 404, code: "resource_not_found", path: "/v1/x/svc_live_[hidden]/y", sent: always(call{method: "GET", path: "/x/svc%5Flive_" + strings.TrimPrefix(canaryPath, "svc_live_") + "/y"})},
		{name: "wrong verb", who: sc.good, status: 405, code: "method_not_allowed", sent: always(call{method: "PUT", path: "/labels"})},
		{name: "a name twice", who: sc.good, status: 409, code: "already_exists", route: "/labels", sent: post(fmt.Sprintf(`{"name":%q}`, keptName), once)},
		{name: "too large", who: sc.good, status: 413, code: "request_too_large", route: "/labels", sent: post(`{"name":"`+strings.Repeat(canaryBody, 1<<20/len(canaryBody)+1)+`"}`, once)},
		{name: "not JSON", who: sc.good, status: 415, code: "unsupported_media_type", route: "/labels", sent: post(canaryBody, map[string]string{"Content-Type": "text/plain"})},
		{name: "a key for another request", who: sc.good, status: 422, code: "idempotency_key_reuse", route: "/labels", sent: post(`{"name":"`+canaryBody+`"}`, map[string]string{"Idempotency-Key": keptOnce})},
	}
}

func (sc *scene) standingKinds() []kind {
	list, create := always(call{method: "GET", path: "/labels"}), always(call{method: "POST", path: "/labels", body: `{"name":"` + canaryBody + `"}`})
	return []kind{
		{name: "revoked key", who: sc.revoked, status: 401, code: "revoked_api_key", route: "/labels", sent: list},
		{name: "expired key", who: sc.expired, status: 401, code: "expired_api_key", route: "/labels", sent: list},
		{name: "lapsed subscription", who: sc.inactive, status: 402, code: "subscription_inactive", route: "/labels", sent: create},
		{name: "suspended", who: sc.barred, status: 403, code: "organization_suspended", route: "/labels", sent: list},
		{name: "no API on the plan", who: sc.free, status: 403, code: "feature_not_available", route: "/labels", sent: list, mostly: true},
		{name: "too fast", who: sc.tiny, status: 429, code: "rate_limit_exceeded", route: "/labels", sent: list, mostly: true},
	}
}

func (sc *scene) strangerKinds() []kind {
	list := always(call{method: "GET", path: "/labels"})
	return []kind{
		{name: "unknown key", who: caller{key: canaryGuess}, status: 401, code: "invalid_api_key", sent: list, unlogged: true},
		{name: "no key", status: 401, code: "missing_api_key", sent: list, unlogged: true},
		{name: "basic", status: 401, code: "invalid_api_key", unlogged: true, sent: always(call{method: "GET", path: "/labels", header: map[string]string{"Authorization": canaryBasic}})},
	}
}
