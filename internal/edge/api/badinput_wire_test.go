package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// wire is the API behind a server with the product's limit of headers (internal/app), for requests that
// http.Client cannot send. The server's timeouts are longer than the test's. So when the server waits
// for more bytes than were sent, the test fails, on a slow machine too.
type wire struct {
	*badInputFixture
	address string
}

func newWire(t *testing.T, b *badInputFixture) *wire {
	t.Helper()
	server := httptest.NewUnstartedServer(b.server.API)
	server.Config.MaxHeaderBytes = 16 << 10
	server.Config.ReadTimeout = 2 * hang
	server.Start()
	t.Cleanup(server.Close)
	return &wire{badInputFixture: b, address: server.Listener.Addr().String()}
}

// head is the head of a valid request, plus the given lines.
func (w *wire) head(method, target string, lines ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: parley.test\r\nAuthorization: Bearer " + w.Key() + "\r\n" +
		strings.Join(append(lines, "\r\n"), "\r\n")
}

// post is a POST of a label. The lines and the body contain its framing.
func (w *wire) post(body string, lines ...string) string {
	return w.head("POST", "/v1/labels", append([]string{"Content-Type: application/json"}, lines...)...) + body
}

// received are the answers on a connection.
type received struct {
	answers []apitest.Answer
	closed  bool // the last answer ends the connection
}

// String lists the answers as `401 missing_api_key`, and an answer of net/http as `400 close`.
func (s received) String() string {
	var texts []string
	for i, answer := range s.answers {
		word := answer.Code()
		if word == "" && answer.Status >= 400 && s.closed && i == len(s.answers)-1 {
			word = "close"
		}
		texts = append(texts, strings.TrimSpace(strconv.Itoa(answer.Status)+" "+word))
	}
	return strings.Join(texts, ", ")
}

// exchange writes raw bytes and reads until that many answers came or the server closed the connection.
func (w *wire) exchange(t testing.TB, raw string, answers int) received {
	t.Helper()
	w.cases++
	w.server.Clock.Move(time.Duration(answers) * 4 * time.Millisecond) // refills the bucket
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(hang)))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, raw) // the server may close the connection before it has read all
	}()
	started := time.Now()
	got := w.readAnswers(t, conn, raw, answers)
	took := time.Since(started)
	require.Less(t, took, hang, "the server waits for more: %.80q", raw)
	w.slowest = max(w.slowest, took)
	require.NoError(t, conn.SetDeadline(time.Now())) // ends the writer
	<-written
	return got
}

func (w *wire) readAnswers(t testing.TB, conn net.Conn, raw string, answers int) received {
	t.Helper()
	var got received
	reader := bufio.NewReader(conn)
	method, _, _ := strings.Cut(raw, " ")
	for len(got.answers) < answers {
		response, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			return got
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		answer := apitest.Answer{Status: response.StatusCode, Header: response.Header, Body: body}
		w.note(answer)
		got.answers, got.closed = append(got.answers, answer), response.Close
	}
	return got
}

// refuseRaw sends each request in a subtest and compares the answers.
func (w *wire) refuseRaw(t *testing.T, want string, requests map[string]string) {
	t.Helper()
	for name, raw := range requests {
		t.Run(name, func(t *testing.T) {
			got := w.exchange(t, raw, strings.Count(want, ",")+1)
			require.Equal(t, want, got.String())
			for _, answer := range got.answers {
				if answer.Code() != "" {
					require.Equal(t, answer.Header.Get("X-Request-Id"), answer.Error(t)["request_id"])
				}
			}
		})
	}
}

// chunked writes a body in chunks of one size.
func chunked(body string, size int) string {
	var framed strings.Builder
	for len(body) > 0 {
		piece := body[:min(size, len(body))]
		body = body[len(piece):]
		framed.WriteString(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
	}
	return framed.String() + "0\r\n\r\n"
}

const inChunks = "Transfer-Encoding: chunked"

func badFraming(t *testing.T, b *badInputFixture) {
	w := newWire(t, b)
	const body = `{"name":"never"}` // 16 bytes
	w.refuseRaw(t, "400 close", map[string]string{
		"two lengths that differ":     w.post(body, "Content-Length: 16", "Content-Length: 17"),
		"two lengths in one line":     w.post(body, "Content-Length: 16, 17"),
		"the same length in one line": w.post(body, "Content-Length: 16, 16"),
		"a negative length":           w.post(body, "Content-Length: -1"),
		"a length with a sign":        w.post(body, "Content-Length: +16"),
		"a length in hex":             w.post(body, "Content-Length: 0x10"),
		"a length in words":           w.post(body, "Content-Length: sixteen"),
		"an empty length":             w.post(body, "Content-Length:"),
		"a length beyond 64 bits":     w.post(body, "Content-Length: 99999999999999999999"),
		"a blank before the colon":    w.post(chunked(body, 16), "Transfer-Encoding : chunked"),
		"a vertical tab":              w.post(chunked(body, 16), "Transfer-Encoding: \vchunked"),
	})
	// net/http answers these with 501, as RFC 9112 says, and closes the connection.
	w.refuseRaw(t, "501 close", map[string]string{
		"chunked twice":           w.post(chunked(body, 16), inChunks, inChunks),
		"chunked twice in a line": w.post(chunked(body, 16), inChunks+", chunked"),
		"an unknown encoding":     w.post(chunked(body, 16), "Transfer-Encoding: xchunked"),
		"gzip in chunks":          w.post(chunked(body, 16), "Transfer-Encoding: gzip, chunked"),
		"identity and a length":   w.post(body, "Transfer-Encoding: identity", "Content-Length: 16"),
		"an empty encoding":       w.post(chunked(body, 16), "Transfer-Encoding:"),
	})
	w.refuseRaw(t, "400 invalid_field_value", map[string]string{
		"a chunk size that is no number": w.post("zz\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"a chunk size in 0x":             w.post("0x10\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"a negative chunk size":          w.post("-10\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"an empty chunk size":            w.post("\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"a chunk size beyond 64 bits":    w.post("ffffffffffffffffff\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"a chunk longer than its size":   w.post("5\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"a chunk shorter than its size":  w.post("20\r\n"+body+"\r\n0\r\n\r\n"+strings.Repeat("x", 16), inChunks),
		"an extension with a line break": w.post("10;a\nb\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"an extension of 100 KB":         w.post("10;"+strings.Repeat("a", 100_000)+"\r\n"+body+"\r\n0\r\n\r\n", inChunks),
		"more extension than content":    w.post(strings.Repeat("1;"+strings.Repeat("a", 1_000)+"\r\nx\r\n", 1_000)+"0\r\n\r\n", inChunks),
		"no chunk at all":                w.post("0\r\n\r\n", inChunks),
		"a body of zero length":          w.post("", "Content-Length: 0"),
		"no body and no length":          w.post(""),
		"trailing bytes in the length":   w.post(body+"x", "Content-Length: 17"),
		"a length that cuts":             w.post(body, "Content-Length: 15"),
	})
	long := strings.Repeat(" ", 3<<19) + body // net/http reads a part of the rest before it answers
	w.refuseRaw(t, "413 request_too_large", map[string]string{
		"more than 1 MiB by its length":    w.post(long, "Content-Length: "+strconv.Itoa(len(long))),
		"more than 1 MiB in chunks":        w.post(chunked(long, 64<<10), inChunks),
		"more than 1 MiB in tiny chunks":   w.post(chunked(long, 64), inChunks),
		"the beginning of a terabyte":      w.post(long, "Content-Length: 1099511627776"),
		"the beginning of a chunk of 1 TB": w.post("10000000000\r\n"+long, inChunks),
	})
	b.requireNothingStored(t)

	// With both headers net/http reads the chunks and ignores the length; the next bytes are the next
	// request. It should be refused, but net/http removes Content-Length before the API sees it.
	both := w.post(chunked(`{"name":"read by its chunks"}`, 5), "Content-Length: 4", inChunks) + w.head("GET", "/v1/me")
	require.Equal(t, "201, 200", w.exchange(t, both, 2).String())
	require.Equal(t, "201", w.exchange(t, w.post(chunked(`{"name":"in chunks of one"}`, 1), inChunks), 1).String())
	require.Equal(t, "201", w.exchange(t, w.post("1c;a=\"b\"\r\n"+`{"name":"with an extension"}`+"\r\n0\r\nAuthorization: x\r\n\r\n", inChunks), 1).String())
	require.Len(t, b.rows(t), 4)
	b.keep(t)
}
