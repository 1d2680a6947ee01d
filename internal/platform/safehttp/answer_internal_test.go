package safehttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	patience = 3 * time.Minute
	short    = 200 * time.Millisecond // for tests that wait for the timeout
)

func TestPost_Answer_ReturnedAsItCame(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	c, url := endpoint(t, patience, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- r
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "got %s", body)
	})
	header := http.Header{"X-Svc-Event-Id": {"evt_1"}, "Content-Type": {"application/json"}, "User-Agent": {"parley"}}
	answer, err := c.Post(t.Context(), url+"/hook?x=1", header, []byte(`{"a":1}`))
	require.NoError(t, err)
	require.Positive(t, answer.Took)
	require.Equal(t, Answer{Status: 429, Snippet: `got {"a":1}`, RetryAfter: "120", Took: answer.Took}, answer)
	r := <-seen
	require.Equal(t, http.MethodPost, r.Method)
	require.Equal(t, "/hook?x=1", r.RequestURI)
	require.Equal(t, 1, r.ProtoMajor)
	require.Equal(t, http.Header{
		"X-Svc-Event-Id": {"evt_1"}, "Content-Type": {"application/json"}, "User-Agent": {"parley"}, "Content-Length": {"7"},
	}, r.Header, "and nothing of our own, no Accept-Encoding either")
	require.Len(t, header, 3, "the caller's header is not changed")

	_, err = c.Post(t.Context(), url, nil, nil)
	require.NoError(t, err)
}

func TestPost_Redirect_NotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int64
	_, elsewhere := endpoint(t, patience, func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	c, url := endpoint(t, patience, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/followed" {
			followed.Add(1)
			return
		}
		w.Header().Set("Location", r.URL.Query().Get("to"))
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
	})
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{elsewhere, url + "/followed", "/followed", "https://10.0.0.1/", "https://8.8.8.8/", "http://169.254.169.254/", "://"} {
			answer, err := c.Post(t.Context(), fmt.Sprintf("%s/%d?to=%s", url, status, to), nil, []byte("{}"))
			require.NoError(t, err)
			require.Equal(t, status, answer.Status)
		}
	}
	require.Zero(t, followed.Load())
}

func TestPost_Again_ReusesTheConnection(t *testing.T) {
	t.Parallel()
	remotes := sync.Map{}
	c, url := endpoint(t, patience, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		remotes.Store(r.RemoteAddr, true)
		_, _ = w.Write(make([]byte, 60<<10)) // read to the end, but not stored
	})
	for range 20 {
		_, err := c.Post(t.Context(), url, nil, []byte("{}"))
		require.NoError(t, err)
	}
	count := 0
	remotes.Range(func(any, any) bool { count++; return true })
	require.Equal(t, 1, count)
}

// The endpoint closes the connection instead of reading a second request, as after the end of its
// keep-alive time.
func TestPost_KeptConnectionClosed_SentAgain(t *testing.T) {
	t.Parallel()
	requests, bodies := sync.Map{}, sync.Map{}
	c, url := endpoint(t, patience, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies.Store(string(body), true)
		if _, before := requests.LoadOrStore(r.RemoteAddr, true); before {
			panic(http.ErrAbortHandler)
		}
	})
	for range 10 {
		answer, err := c.Post(t.Context(), url, nil, []byte("{}"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.Status)
	}
	bodies.Range(func(body, _ any) bool { require.Equal(t, "{}", body); return true })
}

// raw writes bytes as they are, then waits until the caller closes the connection.
func raw(start string, repeat string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.WriteString(conn, start)
		for err == nil && repeat != "" {
			_, err = io.WriteString(conn, repeat)
		}
		if repeat == "" {
			_, _ = io.Copy(io.Discard, conn)
		}
	}
}

func hangUp(after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(conn, after)
		_ = conn.Close()
	}
}

// bomb unpacks to 400 MiB.
func bomb() []byte {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write(make([]byte, 1<<20))
	_ = writer.Close()
	return bytes.Repeat(packed.Bytes(), 400)
}

func TestPost_StrangeAnswers_EachOutcome(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	kib := strings.Repeat("x", 1<<10)
	packed := bomb()
	for name, test := range map[string]struct {
		answers http.HandlerFunc
		timeout time.Duration
		want    Answer
		code    string
	}{
		"endless body":           {raw(ok+"\r\n", strings.Repeat("x", 4<<10)), patience, Answer{Status: 200, Snippet: kib}, ""},
		"endless chunks":         {raw(ok+"Transfer-Encoding: chunked\r\n\r\n", "400\r\n"+kib+"\r\n"), patience, Answer{Status: 200, Snippet: kib}, ""},
		"endless body, refused":  {raw("HTTP/1.1 500 No\r\n\r\n", strings.Repeat("x", 4<<10)), patience, Answer{Status: 500, Snippet: kib}, ""},
		"1 MiB announced":        {raw(ok+"Content-Length: 1048576\r\n\r\n", kib), patience, Answer{Status: 200, Snippet: kib}, ""},
		"more announced":         {raw(ok+"Content-Length: 1048577\r\n\r\n", ""), patience, Answer{}, ResponseTooLarge},
		"absurdly announced":     {raw(ok+"Content-Length: 9223372036854775807\r\n\r\n", ""), patience, Answer{}, ResponseTooLarge},
		"more than a number":     {raw(ok+"Content-Length: 92233720368547758070\r\n\r\n", ""), patience, Answer{}, Connect},
		"1 MiB in one header":    {raw(ok+"X: "+strings.Repeat("x", 1<<20)+"\r\n\r\n", ""), patience, Answer{}, ResponseTooLarge},
		"endless headers":        {raw(ok, "X: "+kib+"\r\n"), patience, Answer{}, ResponseTooLarge},
		"endless status line":    {raw("HTTP/1.1 200 ", kib), patience, Answer{}, ResponseTooLarge},
		"headers below the cap":  {raw(ok+"X: "+strings.Repeat("x", 60<<10)+"\r\nContent-Length: 0\r\n\r\n", ""), patience, Answer{Status: 200}, ""},
		"endless interim status": {raw("", "HTTP/1.1 103 Early Hints\r\nX: "+kib+"\r\n\r\n"), patience, Answer{}, ResponseTooLarge},
		"another protocol":       {raw("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello", ""), patience, Answer{Status: 101}, ""},
		"no content":             {raw("HTTP/1.1 204 No Content\r\n\r\n", ""), patience, Answer{Status: 204}, ""},
		"body breaks off":        {hangUp(ok + "Content-Length: 100\r\n\r\nhello"), patience, Answer{Status: 200, Snippet: "hello"}, ""},
		"chunk breaks off":       {hangUp(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), patience, Answer{Status: 200, Snippet: "hello"}, ""},
		"headers break off":      {hangUp(ok + "X: y"), patience, Answer{}, Connect},
		"hangs up":               {hangUp(""), patience, Answer{}, Connect},
		"not HTTP":               {hangUp("220 smtp.example.com ESMTP\r\n"), patience, Answer{}, Connect},
		"silent":                 {raw("", ""), short, Answer{}, Timeout},
		"body stalls":            {raw(ok+"Content-Length: 100\r\n\r\nhello", ""), short, Answer{}, Timeout},
		"body stalls later":      {raw(ok+"Content-Length: 10000\r\n\r\n"+strings.Repeat("x", 5000), ""), short, Answer{}, Timeout},
		"headers stall":          {raw(ok+"X: y\r\n", ""), short, Answer{}, Timeout},
		"gzip bomb": {
			raw(fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", ok, len(packed), packed), ""), patience,
			Answer{Status: 200, Snippet: clean(packed[:2<<10])},
			"",
		},
		"not UTF-8": {raw(ok+"Content-Length: 8\r\n\r\na\xff\xfe\x00b\xc3(\x00", ""), patience, Answer{Status: 200, Snippet: "a\uFFFDb\uFFFD("}, ""},
		"zeros":     {raw(ok+"Content-Length: 3\r\n\r\n\x00\x00\x00", ""), patience, Answer{Status: 200}, ""},
		"long retry": {
			raw(ok+"Retry-After: "+strings.Repeat("9", 65)+"\r\nContent-Length: 0\r\n\r\n", ""), patience, Answer{Status: 200}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, url := endpoint(t, test.timeout, test.answers)
			answer, err := c.Post(t.Context(), url, nil, []byte("{}"))
			test.want.Took = answer.Took
			require.Equal(t, test.want, answer)
			if test.code == "" {
				require.NoError(t, err)
			} else {
				require.Equal(t, &Failure{Code: test.code}, err)
			}
		})
	}
}

func TestPost_EndlessAnswer_ReadIsBounded(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	c, url := endpoint(t, patience, func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 32<<10); ; {
			n, err := w.Write(chunk)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 10 {
				answer, err := c.Post(t.Context(), url, nil, []byte("{}"))
				if err != nil || answer.Status != http.StatusOK {
					t.Errorf("%v %v", answer, err)
				}
			}
		})
	}
	group.Wait()
	require.Less(t, written.Load()/80, int64(8<<20), "no more than the socket buffers")
}

func TestPost_TimeoutOrCancel_DifferentErrors(t *testing.T) {
	t.Parallel()
	arrived := make(chan bool, 2)
	c, url := endpoint(t, time.Minute, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- true
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := c.Post(ctx, url, nil, []byte("{}"))
	require.ErrorIs(t, err, context.Canceled, "the caller cancelled: not a failure of the endpoint")
	ctx, cancel = context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err = c.Post(ctx, url, nil, []byte("{}"))
	require.Equal(t, &Failure{Code: Timeout}, err)
}

func TestClean_AnyBytes_ValidText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                                   "",
		"plain\n":                            "plain\n",
		"\x00a\x00":                          "a",
		"\xff\xff":                           "\uFFFD",
		strings.Repeat("€", 400):             strings.Repeat("€", 341),
		strings.Repeat("x", 1023) + "é":      strings.Repeat("x", 1023),
		strings.Repeat("x", 1022) + "é":      strings.Repeat("x", 1022) + "é",
		strings.Repeat("\x00", 2000) + "end": "end",
	} {
		require.Equal(t, want, clean([]byte(raw)))
	}
	rapid.Check(t, func(r *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.StringMatching(`\x00+`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		got := clean([]byte(strings.Join(rapid.SliceOfN(part, 0, 200).Draw(r, "parts"), "")))
		require.True(r, utf8.ValidString(got))
		require.NotContains(r, got, "\x00")
		require.LessOrEqual(r, len(got), 1<<10)
	})
}
