package api_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

func badIdempotencyKeys(t *testing.T, b *badInputFixture) {
	w := newWire(t, b)
	want := faulty("Idempotency-Key")
	for name, key := range map[string]string{
		"256 characters": strings.Repeat("k", 256), "10,000 characters": strings.Repeat("k", 10_000), "a blank inside": "a b", "a tab inside": "a\tb",
		"an umlaut": "\u00fcmlaut", "Latin-1": "\xfcmlaut", "an emoji": "\U0001f511", "a delete": "a\x7f", "zero width": "a\u200b", "no-break": "a\u00a0b",
		"255 characters of two bytes": strings.Repeat("\u00e9", 255), "invalid UTF-8": "\xff\xfe", "full width": "\uff4b\uff45\uff59",
	} {
		in := b.create(name, `{"name":"never"}`, want)
		in.header = []string{"Idempotency-Key", key}
		if !strings.ContainsAny(key, "\x7f") { // Go's client refuses to send it
			b.refuse(t, in)
		}
		raw := w.post(`{"name":"never"}`, "Content-Length: 16", "Idempotency-Key: "+key)
		if strings.Contains(key, "\x7f") {
			w.refuseRaw(t, "400 close", map[string]string{name + ", raw": raw})
			continue
		}
		w.refuseRaw(t, "400 invalid_field_value", map[string]string{name + ", raw": raw})
	}
	w.refuseRaw(t, "400 invalid_field_value", map[string]string{
		"empty":             w.post(`{"name":"never"}`, "Content-Length: 16", "Idempotency-Key:"),
		"only blanks":       w.post(`{"name":"never"}`, "Content-Length: 16", "Idempotency-Key:   \t "),
		"two headers":       w.post(`{"name":"never"}`, "Content-Length: 16", "Idempotency-Key: a", "Idempotency-Key: a"),
		"two that differ":   w.post(`{"name":"never"}`, "Content-Length: 16", "Idempotency-Key: a", "idempotency-key: b"),
		"one empty":         w.post(`{"name":"never"}`, "Content-Length: 16", "Idempotency-Key:", "Idempotency-Key: a"),
		"folded over lines": w.post(`{"name":"never"}`, "Content-Length: 16", "Idempotency-Key: a\r\n b"),
	})
	b.requireNothingStored(t)

	used := []string{"Idempotency-Key", "used"}
	// A refused request does not use up its Idempotency-Key.
	for name, body := range map[string]any{
		"no JSON": "{", "no name": "{}", "an unknown field": `{"name":"x","y":1}`, "a blank name": `{"name":" "}`, "a foreign team": `{"name":"x","team_id":"` + b.Org.String() + `"}`,
		"too large": strings.Repeat(" ", 1<<20+1),
	} {
		in := b.create(name, body, refusal{})
		in.header = used
		require.GreaterOrEqual(t, b.try(t, in).Status, 400)
	}
	require.Equal(t, b.stored, b.rows(t), "no key is kept for a refusal")
	first := b.create("", `{"name":"once"}`, refusal{})
	first.header = used
	require.Equal(t, 201, b.try(t, first).Status)
	b.keep(t)

	reuse := refusal{422, "invalid_request_error", "idempotency_key_reuse", ""}
	for name, body := range map[string]string{
		"another name": `{"name":"twice"}`, "another case": `{"name":"Once"}`, "a blank more": `{"name": "once"}`, "the same, escaped": `{"name":"\u006fnce"}`,
		"a line break at the end": `{"name":"once"}` + "\n", "a field more": `{"name":"once","color":"gray"}`, "no JSON": `{`, "empty": ` `,
	} {
		in := b.create("a used key with "+name, body, reuse)
		in.header = used
		b.refuse(t, in)
	}
	gone := refusal{404, "not_found", "resource_not_found", ""}
	b.refuse(t, badInput{name: "a used key where nothing is served", method: "POST", path: "/nowhere", body: `{"name":"once"}`, header: used, want: gone})
	for _, key := range []string{strings.Repeat("k", 256), "a b", "\u00fc"} { // other methods ignore the header
		header := []string{"Idempotency-Key", key}
		require.Equal(t, 200, b.try(t, badInput{method: "GET", path: "/labels", header: header}).Status)
		require.Equal(t, 200, b.try(t, badInput{method: "PATCH", path: "/labels/" + b.label, body: `{"color":"gray"}`, header: header}).Status)
	}
}

func badAuthorization(t *testing.T, b *badInputFixture) {
	key := b.Key()
	backwards := []byte(key)
	slices.Reverse(backwards)
	encoded := base64.StdEncoding.EncodeToString
	invalid := map[string]string{
		"a colon": "Bearer: " + key, "an equals sign": "Bearer=" + key, "a comma": "Bearer, " + key, "no blank": "Bearer" + key, "a parameter": "Bearer token=" + key,
		"quoted parameter": `Bearer token="` + key + `"`, "another scheme": "Token " + key, "ApiKey": "ApiKey " + key, "Key": "Key " + key, "OAuth": "OAuth " + key,
		"Digest": `Digest username="` + key + `"`, "Negotiate": "Negotiate " + encoded([]byte(key)), "AWS": "AWS4-HMAC-SHA256 Credential=" + key,
		"Basic as the user": "Basic " + encoded([]byte(key+":")), "Basic as the password": "Basic " + encoded([]byte(":"+key)), "Basic, both": "Basic " + encoded([]byte(key+":"+key)),
		"scheme twice": "Bearer Bearer " + key, "key twice": "Bearer " + key + " " + key, "a comma after": "Bearer " + key + ",", "a semicolon after": "Bearer " + key + ";",
		"a dot after": "Bearer " + key + ".", "padding after": "Bearer " + key + "=", "a path after": "Bearer " + key + "/", "brackets": "Bearer <" + key + ">",
		"single quotes": "Bearer '" + key + "'", "percents": "Bearer %73" + key[1:], "base64": "Bearer " + encoded([]byte(key)), "in reverse": "Bearer " + string(backwards),
		"lower case": "Bearer " + strings.ToLower(key), "without its prefix": "Bearer " + key[9:], "half": "Bearer " + key[:20],
		"23 characters": "Bearer svc_live_" + strings.Repeat("A", 23), "25 characters": "Bearer svc_live_" + strings.Repeat("A", 25),
		"24 of another alphabet": "Bearer svc_live_" + strings.Repeat("+", 12) + strings.Repeat("/", 12), "dots": "Bearer svc_live_" + strings.Repeat(".", 24),
		"prefix alone": "Bearer svc_live_", "a test key": "Bearer svc_test_" + key[9:], "another brand": "Bearer sk_live_" + key[9:], "prefix in upper case": "Bearer SVC_LIVE_" + key[9:],
		"a dash": "Bearer svc-live-" + key[9:], "a Cyrillic letter": "Bearer svc_liv\u0435_" + key[9:], "full width": "Bearer \uff53vc_live_" + key[9:],
		"zero width inside": "Bearer " + key[:12] + "\u200b" + key[12:], "no-break blank": "Bearer\u00a0" + key, "an ideographic blank": "Bearer\u3000" + key,
		"Latin-1": "Bearer " + key[:20] + "\xff" + key[21:], "10,000 characters": "Bearer svc_live_" + strings.Repeat("A", 10_000), "a JWT": "Bearer eyJhbGciOiJub25lIn0.e30.",
		"null": "Bearer null", "undefined": "Bearer undefined", "SQL": "Bearer ' OR '1'='1", "a template": "Bearer {{api_key}}", "the key's id": "Bearer " + b.KeyID.String(),
		"the organization": "Bearer " + b.Org.String(), "only a scheme and blanks": "Bearer    ", "a slash": "/", "a brace": "{}", "one byte": "B", "scheme cut": "Beare " + key,
		"scheme with more": "Bearers " + key, "full-width scheme": "\uff22earer " + key,
	}
	wrong := refusal{401, "authentication_error", "invalid_api_key", ""}
	none := refusal{401, "authentication_error", "missing_api_key", ""}
	routes := []badInput{
		{method: "GET", path: "/me"},
		{method: "GET", path: "/labels"},
		{method: "POST", path: "/labels", body: `{"name":"never"}`},
		{method: "DELETE", path: "/labels/" + b.label},
		{method: "GET", path: "/nowhere"},
	}
	for name, value := range invalid {
		for _, route := range routes {
			route.name, route.header, route.want = fmt.Sprintf("%s %s: %s", route.method, withoutID(route.path, b.label), name), []string{"Authorization", value}, wrong
			b.refuse(t, route)
		}
		for _, public := range []string{"/health", "/openapi.json"} { // which need no key
			require.Equal(t, 200, b.try(t, badInput{method: "GET", path: public, header: []string{"Authorization", value}}).Status)
		}
	}
	for name, header := range map[string][]string{
		"another header": {"X-Authorization", "Bearer " + key}, "the proxy's header": {"Proxy-Authorization", "Bearer " + key}, "a header of its own": {"Api-Key", key},
		"a cookie": {"Cookie", "api_key=" + key + "; token=" + key + "; Bearer=" + key}, "an underscore": {"Http_authorization", "Bearer " + key},
		"the referer": {"Referer", "https://x/?access_token=" + key}, "the protocol of a socket": {"Sec-WebSocket-Protocol", "bearer, " + key},
	} {
		for _, route := range routes {
			route.name, route.header, route.want = fmt.Sprintf("%s %s: in %s", route.method, withoutID(route.path, b.label), name), slices.Concat(header, []string{"Authorization", ""}), none
			b.refuse(t, route)
		}
	}
	for _, query := range []string{"access_token=", "api_key=", "key=", "token=", "authorization=Bearer%20", "auth="} {
		for _, route := range routes {
			route.name, route.path, route.header, route.want = fmt.Sprintf("%s %s: %s", route.method, withoutID(route.path, b.label), query), route.path+"?"+query+key, []string{"Authorization", ""}, none
			b.refuse(t, route)
		}
	}
	t.Run("guessed keys", guessing)
}

// guessing tries keys of the right form. All come from one address, with a different forged
// X-Forwarded-For each.
func guessing(t *testing.T) {
	const budget, guesses = 10, 2_000
	s := apitest.With(t, apitest.Options{Guesses: ratelimit.Limit{PerSecond: 1, Burst: budget}})
	s.Client(t)
	random := rand.New(rand.NewPCG(1, 2))
	statuses := map[int]int{}
	for range guesses {
		secret := make([]byte, 18)
		for i := range secret {
			secret[i] = byte(random.Uint32())
		}
		request := httptest.NewRequest(http.MethodGet, "/v1/me", nil)
		request.Header.Set("Authorization", "Bearer svc_live_"+base64.RawURLEncoding.EncodeToString(secret))
		request.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", secret[0], secret[1], secret[2]))
		recorder := httptest.NewRecorder()
		s.API.ServeHTTP(recorder, request)
		statuses[recorder.Code]++
	}
	require.Equal(t, map[int]int{401: budget, 429: guesses - budget}, statuses)
}
