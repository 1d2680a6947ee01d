package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/openapi"
)

var noSuch = refusal{404, "not_found", "resource_not_found", ""}

func badIdentifiers(t *testing.T, b *badInputFixture) {
	good := b.label
	digits := strings.TrimPrefix(good, "lbl_")
	gone := b.server.Label(t, b.Org).ID
	_, err := b.server.Labels.Delete(t.Context(), b.Org, gone)
	require.NoError(t, err)
	otherClient := b.server.Client(t)
	foreign := b.server.Label(t, otherClient.Org).ID.String()
	wrong := map[string]string{
		"deleted": gone.String(), "of another organization": foreign, "never minted": "lbl_00000000000000000000000000",
		"the last there could be": "lbl_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "beyond the last": "lbl_8" + digits[1:], "all Z": "lbl_" + strings.Repeat("Z", 26),
		"25 characters": good[:len(good)-1], "27 characters": good + "0", "only the prefix": "lbl_", "without its prefix": digits,
		"in lower case": strings.ToLower(good), "prefix in upper case": "LBL_" + digits, "digits in lower case": "lbl_" + strings.ToLower(digits),
		"with a dash": "lbl-" + digits, "prefix twice": "lbl_" + good, "a UUID": "019cebab-8995-77b9-aad0-d83edc5a47e2",
		"dots": "%2e%2e", "dots and a slash": "%2e%2e%2f" + good, "dots in the middle": good + "%2f%2e%2e%2f" + good, "plain dots": "..", "one dot": ".",
		"a NUL": "%00", "a NUL at the end": good + "%00", "a line break at the end": good + "%0a", "a return": good + "%0d%0a", "a blank at the end": good + "%20",
		"a blank before": "%20" + good, "a plus": good + "+", "a semicolon": good + ";x=1", "a suffix": good + ".json", "a quote": good + "%27",
		"SQL": good + "%27%20OR%20%271%27=%271", "a star": "*", "a percent": "%25", "a percent, twice": "%2530", "a brace": "%7Bid%7D", "0": "0", "-1": "-1",
		"null": "null", "undefined": "undefined", "true": "true", "invalid UTF-8": "%ff%fe", "an emoji": "%F0%9F%9A%9A",
		"10 KB": strings.Repeat("A", 10<<10), "10 KB of percents": strings.Repeat("%41", 3<<10), "10 KB after a good one": good + strings.Repeat("0", 10<<10),
	}
	for _, prefix := range []string{"msg_", "cnv_", "ctc_", "cus_", "csl_", "tmpl_", "wbs_", "sec_", "wbd_", "evt_", "req_", "med_", "lb_", "_", "labels_"} {
		wrong["with the prefix "+prefix] = prefix + digits
	}
	for _, letter := range "ILOUilou@[`{/:-_ \u0130\u0660\u0966\uff10\U0001d7ce" { // and digits of other scripts
		for _, place := range []int{0, 5, 13, 25} {
			name := fmt.Sprintf("%q at %d", letter, place)
			wrong[name] = "lbl_" + digits[:place] + pathEscape(letter) + digits[place+1:]
		}
	}
	missing := b.try(t, badInput{method: "GET", path: "/labels/" + gone.String()})
	for name, id := range wrong {
		for _, method := range []string{"GET", "PATCH", "DELETE"} {
			t.Run(method+": "+name, func(t *testing.T) {
				in := badInput{method: method, path: "/labels/" + id}
				if method == "PATCH" {
					in.body = `{"name":"never"}`
				}
				answer := b.try(t, in)
				requireRefusal(t, noSuch, answer)
				anonymous := func(body []byte, id string) string { return strings.ReplaceAll(string(body), id, "") }
				require.Equal(t, anonymous(missing.Body, missing.Header.Get("X-Request-Id")),
					anonymous(answer.Body, answer.Header.Get("X-Request-Id")), "the same bytes as a missing one")
			})
		}
	}
	require.Equal(t, 200, otherClient.Get(t, "/labels/"+foreign).Status)
}

// pathEscape percent-encodes the UTF-8 bytes of a character.
func pathEscape(char rune) string {
	var escaped strings.Builder
	for _, octet := range []byte(string(char)) {
		escaped.WriteString(fmt.Sprintf("%%%02X", octet))
	}
	return escaped.String()
}

// allowed has the methods of each path of these operations.
func (b *badInputFixture) allowed(operations []*openapi.Operation) map[string][]string {
	verbs := map[string][]string{}
	for _, operation := range operations {
		path := b.concrete(operation.Path)
		verbs[path] = append(verbs[path], operation.Method)
	}
	for path, names := range verbs {
		if folder, isName := strings.CutSuffix(path, "/hello_world"); isName { // a template may be called sync
			verbs[folder+"/sync"] = append(verbs[folder+"/sync"], names...)
		}
	}
	return verbs
}

func (b *badInputFixture) concrete(path string) string {
	return strings.NewReplacer("{id}", b.label, "{phone_number_id}", "100000000000001", "{name}", "hello_world").Replace(path)
}

func badMethods(t *testing.T, b *badInputFixture) {
	methods := []string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "LINK", "PURGE", "FOO", "get", "Post", "GET2", "G",
		strings.Repeat("M", 1_000), "A!#$%&'*+-.^_`|~Z",
	}
	verbs := b.allowed(b.server.Contract.Operations())
	for _, path := range []string{"/nowhere", "/labels/" + b.label + "/nowhere", "/", ""} {
		verbs[path] = nil
	}
	order := []string{"GET", "HEAD", "POST", "PATCH", "DELETE"}
	for path, served := range verbs {
		if slices.Contains(served, "GET") {
			served = append(served, "HEAD")
		}
		slices.SortFunc(served, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
		for _, method := range methods {
			if slices.Contains(served, method) {
				continue
			}
			name := fmt.Sprintf("%.20s %s", method, strings.ReplaceAll(path, b.label, "{id}"))
			t.Run(name, func(t *testing.T) {
				answer := b.try(t, badInput{method: method, path: path})
				want := refusal{405, "invalid_request_error", "method_not_allowed", ""}
				if served == nil {
					want = noSuch
				}
				requireVerb(t, method, want, answer)
				if served != nil {
					require.Equal(t, strings.Join(served, ", "), answer.Header.Get("Allow"))
				}
			})
			t.Run(name+" without a key", func(t *testing.T) {
				b.cases++
				answer := b.server.Anonymous().Do(t, method, path, nil)
				requireVerb(t, method, refusal{401, "authentication_error", "missing_api_key", ""}, answer)
			})
		}
	}
}

// requireVerb checks an error. For HEAD it checks the status only, because the answer has no body.
func requireVerb(t *testing.T, method string, want refusal, answer apitest.Answer) {
	t.Helper()
	if method == http.MethodHead {
		require.Equal(t, want.status, answer.Status)
		require.Empty(t, answer.Body)
		return
	}
	requireRefusal(t, want, answer)
}

// badPaths sends paths that look like a served one. None of them may reach its handler.
func badPaths(t *testing.T, b *badInputFixture) {
	w := newWire(t, b)
	var targets []string
	for path := range b.allowed(b.server.API.Served()) {
		last := strings.LastIndex(path, "/") + 1
		bare := path[1:]
		for _, twisted := range []string{
			path + "/", path + "//", path + "/.", path + "/..", path + "/./", "/" + path, "/." + path, "/x/.." + path, path[:last] + "/" + path[last:],
			path[:last] + "./" + path[last:], path + ";x", path + ";x=1", path + "%20", path + "%00", path + "%09", path + "%0d%0aX:%20y", path + "%2f", path + "%3f",
			path + "%23", path + ".", path + ",", path + "'", path + "\"", path + "*", path + "\\", path + "/extra", path + "/%2e%2e", path + "%c0%af", path + "%ff",
			path + "~", strings.ToUpper(path), "/%2e" + path, "/%2e%2e/v1" + path, "%2f" + bare, "/" + bare[:1] + "%00" + bare[1:], path + "/.json", path + "/" + path[last:],
		} {
			targets = append(targets, "/v1"+twisted)
		}
		targets = append(targets, path, "/V1"+path, "/v2"+path, "/v01"+path, "/v1.0"+path, "//v1"+path, "/v1/v1"+path, "/api/v1"+path, "/v1%2f"+bare, "/./v1"+path)
	}
	targets = append(targets, "/", "/v1", "/v1/", "/v1//", "/..", "/%2e%2e/%2e%2e/etc/passwd", "/v1/../../etc/passwd", "/metrics", "/healthz", "/readyz",
		"/debug/pprof/", "/debug/vars", "/.env", "/.git/config", "/favicon.ico", "/robots.txt", "/index.html", "/v1/openapi.yaml", "/v1/openapi",
		"/v1/docs", "/v1/*", "/v1/{id}", "/v1/labels/{id}/x", "/v1/"+strings.Repeat("a", 10<<10), "/v1"+strings.Repeat("/", 10<<10), "/v1"+strings.Repeat("/..", 3<<10))
	for _, target := range targets {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			t.Run(fmt.Sprintf("%s %.80s", method, strings.ReplaceAll(target, b.label, "{id}")), func(t *testing.T) {
				got := w.exchange(t, w.head(method, target, "Content-Length: 0"), 1)
				require.Len(t, got.answers, 1)
				answer := got.answers[0]
				if answer.Status == http.StatusMethodNotAllowed { // it matches /labels/{id}, which has no POST
					requireRefusal(t, refusal{405, "invalid_request_error", "method_not_allowed", ""}, answer)
					require.NotEmpty(t, answer.Header.Get("Allow"))
					return
				}
				requireRefusal(t, noSuch, answer)
			})
		}
	}
}
