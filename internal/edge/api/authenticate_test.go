package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// refusal is an error envelope as the specification writes it, without message and request id.
type refusal struct {
	status            int
	kind, code, param string
}

func requireRefusal(t *testing.T, want refusal, got apitest.Answer) {
	t.Helper()
	body := got.Error(t)
	param, _ := body["param"].(string)
	require.Equal(t, want, refusal{got.Status, body["type"].(string), body["code"].(string), param}, "body: %s", got.Body)
	require.NotEmpty(t, body["message"])
	require.Equal(t, got.Header.Get("X-Request-Id"), body["request_id"])
	require.Len(t, got.JSON(t), 1, "the envelope holds the error and nothing else")
	_, waits := got.Header["Retry-After"]
	require.Equal(t, got.Status == http.StatusTooManyRequests || got.Status == http.StatusServiceUnavailable, waits, "Retry-After")
}

func TestAuthentication_Refusals(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	key := client.Key()
	revokedID, revoked := s.Key(t, client.Org)
	_, err := s.Keys.Revoke(t.Context(), client.Org, audit.Operator(), revokedID)
	require.NoError(t, err)
	expiresAt := s.Clock.Now().Add(time.Hour)
	_, expiring, err := s.Keys.Issue(t.Context(), client.Org, audit.Operator(), apikeys.Draft{Name: "short", ExpiresAt: &expiresAt})
	require.NoError(t, err)

	missing := refusal{401, "authentication_error", "missing_api_key", ""}
	invalid := refusal{401, "authentication_error", "invalid_api_key", ""}
	for name, test := range map[string]struct {
		header []string
		path   string
		want   refusal
	}{
		"no header":              {nil, "/me", missing},
		"query parameter":        {nil, "/me?api_key=" + key, missing},
		"access token in query":  {nil, "/me?access_token=" + key, missing},
		"cookie":                 {[]string{"Cookie", "Authorization=Bearer " + key}, "/me", missing},
		"own header":             {[]string{"X-Api-Key", key}, "/me", missing},
		"empty header":           {[]string{"Authorization", " "}, "/me", invalid},
		"scheme alone":           {[]string{"Authorization", "Bearer"}, "/me", invalid},
		"basic":                  {[]string{"Authorization", "Basic " + key}, "/me", invalid},
		"key alone":              {[]string{"Authorization", key}, "/me", invalid},
		"two spaces":             {[]string{"Authorization", "Bearer  " + key}, "/me", invalid},
		"tab":                    {[]string{"Authorization", "Bearer\t" + key}, "/me", invalid},
		"quoted":                 {[]string{"Authorization", `Bearer "` + key + `"`}, "/me", invalid},
		"one character too few":  {[]string{"Authorization", "Bearer " + key[:len(key)-1]}, "/me", invalid},
		"one character too many": {[]string{"Authorization", "Bearer " + key + "A"}, "/me", invalid},
		"other prefix":           {[]string{"Authorization", "Bearer svc_test_" + key[9:]}, "/me", invalid},
		"upper case":             {[]string{"Authorization", "Bearer " + strings.ToUpper(key)}, "/me", invalid},
		"unknown key":            {[]string{"Authorization", "Bearer svc_live_" + strings.Repeat("A", 24)}, "/me", invalid},
		"two keys":               {[]string{"Authorization", "Bearer " + key + ", Bearer " + key}, "/me", invalid},
		"revoked":                {[]string{"Authorization", "Bearer " + revoked}, "/me", refusal{401, "authentication_error", "revoked_api_key", ""}},
		"unknown route":          {nil, "/nowhere", missing},
		"unknown verb":           {nil, "/labels/x/y", missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireRefusal(t, test.want, s.Anonymous().Get(t, test.path, test.header...))
		})
	}
	t.Run("two headers", func(t *testing.T) {
		t.Parallel()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/me", nil)
		require.NoError(t, err)
		request.Header["Authorization"] = []string{"Bearer " + key, "Bearer " + key}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 401, response.StatusCode)
	})
	t.Run("the scheme is not case-sensitive", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, 200, s.Anonymous().Get(t, "/me", "Authorization", "bEARER "+key).Status)
	})
	t.Run("expiry is exact", func(t *testing.T) {
		t.Parallel()
		own := apitest.New(t)
		client := own.Client(t)
		at := own.Clock.Now().Add(time.Hour)
		_, expiring, err := own.Keys.Issue(t.Context(), client.Org, audit.Operator(), apikeys.Draft{Name: "short", ExpiresAt: &at})
		require.NoError(t, err)
		client = client.WithKey(expiring)
		own.Clock.Move(time.Hour - time.Millisecond)
		require.Equal(t, 200, client.Get(t, "/me").Status)
		own.Clock.Move(time.Millisecond)
		requireRefusal(t, refusal{401, "authentication_error", "expired_api_key", ""}, client.Get(t, "/me"))
	})
	require.Equal(t, 200, client.WithKey(expiring).Get(t, "/me").Status)
}

func TestAuthentication_RevokedKey_RefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	for range 20 {
		id, key := s.Key(t, client.Org)
		fresh := client.WithKey(key)
		require.Equal(t, 200, fresh.Get(t, "/me").Status)
		_, err := s.Keys.Revoke(t.Context(), client.Org, audit.Operator(), id)
		require.NoError(t, err)
		require.Equal(t, "revoked_api_key", fresh.Get(t, "/me").Code())
	}
}

func TestAuthentication_ManyBadKeys_LimitedPerAddress(t *testing.T) {
	t.Parallel()
	s := apitest.With(t, apitest.Options{Guesses: ratelimit.Limit{PerSecond: 1, Burst: 5}})
	client := s.Client(t)
	require.Equal(t, 200, client.Get(t, "/me").Status)
	for range 5 {
		require.Equal(t, 401, s.Anonymous().Get(t, "/me").Status)
	}
	answer := s.Anonymous().Get(t, "/me")
	requireRefusal(t, refusal{429, "rate_limit_error", "rate_limit_exceeded", ""}, answer)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
	require.Equal(t, 200, client.Get(t, "/me").Status, "keys that worked before still work from the same address")
	_, fresh := s.Key(t, client.Org)
	require.Equal(t, 200, client.WithKey(fresh).Get(t, "/me").Status, "a key that was never seen is looked up in the directory")
	for range 9 {
		require.Equal(t, 429, client.WithKey("svc_live_"+strings.Repeat("A", 24)).Get(t, "/me").Status)
	}
	_, fresh = s.Key(t, client.Org)
	require.Equal(t, 429, client.WithKey(fresh).Get(t, "/me").Status, "at most ten keys a second are")
	s.Clock.Move(time.Second)
	require.Equal(t, 200, client.WithKey(fresh).Get(t, "/me").Status)
	require.Equal(t, 401, s.Anonymous().Get(t, "/me").Status)
}

// Each refusal of a known key is in the API log of its organization. Beyond the rate of bad keys one entry counts them.
func TestAuthentication_ManyRevokedKeys_OneLogEntryCountsThem(t *testing.T) {
	t.Parallel()
	s := apitest.With(t, apitest.Options{Guesses: ratelimit.Limit{PerSecond: 1, Burst: 5}})
	client := s.Client(t)
	id, key := s.Key(t, client.Org)
	_, err := s.Keys.Revoke(t.Context(), client.Org, audit.Operator(), id)
	require.NoError(t, err)
	s.Logs.Flush()
	before, err := s.Logs.List(t.Context(), client.Org, 1000)
	require.NoError(t, err)
	for range 105 {
		client.WithKey(key).Get(t, "/me")
		client.WithKey(key).Get(t, "/labels")
	}
	s.Logs.Flush()
	entries, err := s.Logs.List(t.Context(), client.Org, 1000)
	require.NoError(t, err)
	entries = entries[:len(entries)-len(before)]
	counts := map[string][]int{}
	for _, entry := range entries {
		counts[entry.Code] = append(counts[entry.Code], entry.Count)
	}
	require.Equal(t, []int{1, 1, 1, 1, 1}, counts["revoked_api_key"])
	require.ElementsMatch(t, []int{102, 103}, counts["rate_limit_exceeded"], "one entry for each route")
}
