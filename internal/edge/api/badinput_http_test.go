package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func badRequests(t *testing.T, b *badInputFixture) {
	w := newWire(t, b)
	// net/http answers bytes that are not HTTP, and closes the connection.
	plain := func(line string, headers ...string) string {
		return line + "\r\n" + strings.Join(append(headers, "\r\n"), "\r\n")
	}
	const host = "Host: parley.test"
	w.refuseRaw(t, "400 close", map[string]string{
		"HTTP/0.9":                   "GET /v1/health\r\n\r\n",
		"no target":                  plain("GET  HTTP/1.1", host),
		"a blank in the target":      plain("GET /v1/la bels HTTP/1.1", host),
		"a target without a slash":   plain("GET v1/health HTTP/1.1", host),
		"a target with a control":    plain("GET /v1/\x01 HTTP/1.1", host),
		"a target with bad percents": plain("GET /v1/labels/%zz HTTP/1.1", host),
		"a target with half a byte":  plain("GET /v1/labels/%2 HTTP/1.1", host),
		"no version":                 plain("GET /v1/health HTTP/", host),
		"a version in words":         plain("GET /v1/health HTTP/one", host),
		"a protocol in lower case":   plain("GET /v1/health http/1.1", host),
		"another protocol":           plain("GET /v1/health ICY/1.1", host),
		"a method with a bracket":    plain("GE(T /v1/health HTTP/1.1", host),
		"a method with a NUL":        plain("GET\x00 /v1/health HTTP/1.1", host),
		"no method":                  plain(" /v1/health HTTP/1.1", host),
		"an empty line first":        "\r\n\r\n" + plain("GET /v1/health HTTP/1.1", host),
		"no host":                    plain("GET /v1/health HTTP/1.1"),
		"two hosts":                  plain("GET /v1/health HTTP/1.1", host, host),
		"a host with a blank":        plain("GET /v1/health HTTP/1.1", "Host: a b"),
		"a header without a colon":   plain("GET /v1/health HTTP/1.1", host, "nonsense"),
		"a header without a name":    plain("GET /v1/health HTTP/1.1", host, ": x"),
		"a blank before the colon":   plain("GET /v1/health HTTP/1.1", host, "X : y"),
		"a name with an umlaut":      plain("GET /v1/health HTTP/1.1", host, "X\u00fc: y"),
		"a NUL in a header":          plain("GET /v1/health HTTP/1.1", host, "X: y\x00z"),
		"a return in a header":       plain("GET /v1/health HTTP/1.1", host, "X: y\rz: a"),
		"a key with a NUL":           plain("GET /v1/me HTTP/1.1", host, "Authorization: Bearer "+w.Key()+"\x00"),
		"a continuation first":       plain("GET /v1/health HTTP/1.1", " folded", host),
	})
	w.refuseRaw(t, "431 close", map[string]string{
		"a header of 1 MB":    plain("GET /v1/health HTTP/1.1", host, "X: "+strings.Repeat("a", 1<<20)),
		"a name of 1 MB":      plain("GET /v1/health HTTP/1.1", host, strings.Repeat("a", 1<<20)+": x"),
		"10,000 headers":      plain("GET /v1/health HTTP/1.1", host, strings.Repeat("X: a\r\n", 10_000)+"Y: z"),
		"a target of 1 MB":    plain("GET /v1/labels?"+strings.Repeat("a", 1<<20)+" HTTP/1.1", host),
		"a method of 1 MB":    plain(strings.Repeat("A", 1<<20)+" /v1/health HTTP/1.1", host),
		"a key of 1 MB":       plain("GET /v1/me HTTP/1.1", host, "Authorization: Bearer svc_live_"+strings.Repeat("A", 1<<20)),
		"a cursor of 1 MB":    w.head("GET", "/v1/labels?cursor="+strings.Repeat("A", 1<<20)),
		"a version of 1 MB":   plain("GET /v1/health HTTP/1."+strings.Repeat("1", 1<<20), host),
		"10,000 parameters":   w.head("GET", "/v1/labels?"+strings.Repeat("limit=1&", 10_000)),
		"10,000 lines folded": plain("GET /v1/health HTTP/1.1", host, "X: a"+strings.Repeat("\r\n b", 10_000)),
	})
	// net/http answers another version with 505, as RFC 9110 says, and closes the connection.
	w.refuseRaw(t, "505 close", map[string]string{
		"HTTP/2.0 in the clear": plain("GET /v1/health HTTP/2.0", host),
		"HTTP/3.0":              plain("GET /v1/health HTTP/3.0", host),
		"HTTP/9.9":              plain("GET /v1/health HTTP/9.9", host),
	})
	w.refuseRaw(t, "417 close", map[string]string{
		"an unknown expectation": w.post(`{"name":"never"}`, "Content-Length: 16", "Expect: the-impossible"),
	})
	w.refuseRaw(t, "401 missing_api_key", map[string]string{
		"the preface of HTTP/2":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"CONNECT to another host":    plain("CONNECT example.com:443 HTTP/1.1", "Host: example.com:443"),
		"a proxy's request":          plain("GET http://example.com/ HTTP/1.1", "Host: example.com"),
		"a proxy's request for ours": plain("GET http://example.com/v1/me HTTP/1.1", "Host: example.com"),
		"GET *":                      plain("GET * HTTP/1.1", host),
		"HTTP/1.0 without a host":    plain("GET /v1/me HTTP/1.0"),
		"a key in the trailer": plain("POST /v1/labels HTTP/1.1", host, "Content-Type: application/json", "Trailer: Authorization", inChunks) +
			"10\r\n" + `{"name":"never"}` + "\r\n0\r\nAuthorization: Bearer " + w.Key() + "\r\n\r\n",
		"a key in the target": plain("GET http://Bearer:"+w.Key()+"@parley.test/v1/me HTTP/1.1", host),
	})
	w.refuseRaw(t, "404 resource_not_found", map[string]string{
		"CONNECT to another host with a key": w.head("CONNECT", "example.com:443"),
		"GET * with a key":                   w.head("GET", "*"),
		"a proxy's request with a key":       w.head("GET", "http://example.com/"),
	})
	w.refuseRaw(t, "405 method_not_allowed", map[string]string{
		"TRACE":   w.head("TRACE", "/v1/labels", "X-Secret: canary"),
		"CONNECT": w.head("CONNECT", "/v1/labels"),
	})
	w.refuseRaw(t, "200", map[string]string{ // harmless: the header is ignored
		"an upgrade to HTTP/2":     plain("GET /v1/health HTTP/1.1", host, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
		"an upgrade to WebSocket":  plain("GET /v1/health HTTP/1.1", host, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x"),
		"a target in full":         w.head("GET", "http://parley.test/v1/me"),
		"a body where none is due": w.head("GET", "/v1/labels", "Content-Length: 3", "Content-Type: application/xml") + "<a>",
		"a header in two lines":    plain("GET /v1/health HTTP/1.1", host, "X: a\r\n b"),
		"HTTP/1.2":                 plain("GET /v1/health HTTP/1.2", host),
		"300 small headers":        plain("GET /v1/health HTTP/1.1", host, strings.Repeat("X: a\r\n", 300)+"Y: z"),
		"a forged address":         plain("GET /v1/health HTTP/1.1", host, "X-Forwarded-For: ' OR 1=1 --, \xff, ::1%eth0, 999.1.1.1"),
		"another method in a header": w.head("GET", "/v1/labels", "X-HTTP-Method-Override: DELETE", "X-Method-Override: DELETE",
			"X-Original-URL: /v1/me", "X-Rewrite-URL: /v1/me"),
	})
	trace := w.exchange(t, w.head("TRACE", "/v1/labels", "X-Secret: canary"), 1)
	require.NotContains(t, string(trace.answers[0].Body), "canary", "TRACE must not echo")
}

func badConnections(t *testing.T, b *badInputFixture) {
	w := newWire(t, b)
	me, health := w.head("GET", "/v1/me"), "GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
	bad := w.post(`{"name":}`, "Content-Length: 9")
	t.Run("a hundred pipelined requests are answered in order", func(t *testing.T) {
		got := w.exchange(t, strings.Repeat(health+me+bad, 33), 99)
		require.Equal(t, strings.TrimSuffix(strings.Repeat("200, 200, 400 invalid_field_value, ", 33), ", "), got.String())
	})
	w.refuseRaw(t, "200, 400 close", map[string]string{
		"a good request, then none": health + "nonsense\r\n\r\n" + me,
		"a body that was not told":  w.head("GET", "/v1/me") + `{"name":"never"}` + "\r\n\r\n" + me,
	})
	w.refuseRaw(t, "401 missing_api_key, 200", map[string]string{"the body of a refused request is not a request": strings.Replace(
		w.post(health, "Content-Length: "+fmt.Sprintf("%d", len(health))), "Authorization", "X-Authorization", 1) + me})

	expect := func(raw string) string {
		return strings.Replace(raw, "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1)
	}
	w.refuseRaw(t, "100, 400 invalid_field_value", map[string]string{"expects, and sends nonsense": expect(bad)})
	unasked := expect(w.post("", "Content-Length: 16"))
	w.refuseRaw(t, "401 missing_api_key", map[string]string{"expects without a key": strings.Replace(unasked, "Authorization", "X-Authorization", 1)})
	w.refuseRaw(t, "415 unsupported_media_type", map[string]string{"expects with another type": strings.Replace(unasked, "application/json", "text/plain", 1)})
	w.refuseRaw(t, "404 resource_not_found", map[string]string{"expects at a wrong address": strings.Replace(unasked, "/v1/labels", "/v1/nowhere", 1)})

	whole := w.post(`{"name":"never"}`, "Content-Length: 16")
	t.Run("a caller who closes the connection", func(t *testing.T) {
		head := strings.Index(whole, "\r\n\r\n") + 4
		for length := head; length < len(whole); length++ { // after each byte of the body
			w.cases++
			w.logged++
			conn, err := net.Dial("tcp", w.address)
			require.NoError(t, err)
			_, err = io.WriteString(conn, whole[:length])
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		for length := 1; length < head; length += 7 { // and in the headers, before the caller is known
			w.cases++
			conn, err := net.Dial("tcp", w.address)
			require.NoError(t, err)
			_, err = io.WriteString(conn, whole[:length])
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).SetLinger(0)) // sends a reset instead of a regular close
			require.NoError(t, conn.Close())
		}
	})
	t.Run("a caller who closes only its sending side", func(t *testing.T) {
		w.cases++
		conn, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, whole[:len(whole)-1])
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		require.Equal(t, "400 invalid_field_value", w.readAnswers(t, conn, whole, 1).String())
	})
	t.Run("a caller slower than the server's timeouts", func(t *testing.T) {
		impatient := func(headers, whole time.Duration) *wire {
			server := httptest.NewUnstartedServer(b.server.API)
			server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = headers, whole
			server.Start()
			t.Cleanup(server.Close)
			return &wire{badInputFixture: b, address: server.Listener.Addr().String()}
		}
		require.Equal(t, "400 invalid_field_value", impatient(3*time.Minute, 100*time.Millisecond).exchange(t, whole[:len(whole)-1], 1).String())
		// There is no answer when the timeout ends before the server has read a line.
		require.Contains(t, []string{"400 close", ""}, impatient(500*time.Millisecond, time.Minute).exchange(t, whole[:50], 1).String())
	})
	for name, noise := range map[string]string{
		"a TLS greeting": "\x16\x03\x01\x00\x05\x01\x00\x00\x01\xfc\r\n\r\n", "zeros": strings.Repeat("\x00", 50_000) + "\r\n\r\n",
		"0xff": strings.Repeat("\xff", 50_000) + "\r\n\r\n", "line breaks": strings.Repeat("\r\n", 25_000), "SSH": "SSH-2.0-x\r\n\r\n", "Redis": "*1\r\n$4\r\nPING\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := w.exchange(t, noise, 1)
			require.Contains(t, []string{"400 close", "431 close"}, got.String())
		})
	}
	require.Equal(t, "200", w.exchange(t, me, 1).String(), "and the server still works")
}
