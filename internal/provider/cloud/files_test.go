package cloud_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
)

func small() provider.File {
	return provider.File{Name: "a.png", MIMEType: "image/png", Size: 5, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("hello")), nil
	}}
}

// secretive is a client with canaries, of a network that answers everything the same way.
func secretive(t *testing.T, status int, body []byte) *cloud.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	return secretClient(t, server.URL, server.Close)
}

func secretClient(t *testing.T, base string, end func()) *cloud.Client {
	t.Helper()
	client, err := cloud.New(cloud.Config{BaseURL: base, AppID: "2", AppSecrets: secrets("canary-secret"), VerifyToken: "canary-verify"})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		end()
	})
	return client
}

// unreachable is a client of a network that nobody answers for.
func unreachable(t *testing.T, _ string) *cloud.Client {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return secretClient(t, "http://"+listener.Addr().String(), func() {})
}

// TestDownload_TheTokenGoesNowhereElse lets callbacks and redirects name other hosts.
func TestDownload_TheTokenGoesNowhereElse(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "stolen")
	}))
	t.Cleanup(foreign.Close)
	var base string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			_, _ = io.WriteString(w, "the file, for "+r.Header.Get("Authorization"))
		case "/inside":
			http.Redirect(w, r, "/file", http.StatusFound)
		case "/circle":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		default:
			http.Redirect(w, r, foreign.URL, http.StatusFound)
		}
	}))
	base = server.URL
	client := secretClient(t, base, server.Close)
	number := provider.Number{ID: "1", Token: provider.NewToken("token")}
	for _, path := range []string{"/file", "/inside"} {
		opened, err := client.DownloadMedia(t.Context(), number, base+path)
		require.NoError(t, err)
		content, err := io.ReadAll(opened.Body)
		require.NoError(t, err)
		require.NoError(t, opened.Body.Close())
		require.Equal(t, "the file, for Bearer token", string(content))
	}
	host, err := url.Parse(base)
	require.NoError(t, err)
	for _, location := range []string{
		foreign.URL, base + "/outside", base + "/circle", base + "/nowhere", "https://" + host.Host + "/file", "http://user@" + host.Host + "/file",
		"http://" + host.Hostname() + ":1/file", "file:///etc/passwd", "", "::", "https://lookaside.fbsbx.com.example.com/", "//" + host.Host + "/file",
		"https://lookaside.fbsbx.com/",
	} {
		_, err := client.DownloadMedia(t.Context(), number, location)
		require.Equal(t, provider.NotSent, failure(t, err).Delivery, location)
		require.Equal(t, provider.Terminal, failure(t, err).Class, location)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, asked, "nobody else was even asked")
}

func TestDownload_Failures(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		class   provider.Class
		missing bool
	}{
		http.StatusNotFound: {provider.Terminal, true}, http.StatusGone: {provider.Terminal, true},
		http.StatusServiceUnavailable: {provider.Retryable, false}, http.StatusTooManyRequests: {provider.RateLimited, false},
		http.StatusNoContent: {provider.Retryable, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		_, err := secretClient(t, server.URL, server.Close).DownloadMedia(t.Context(), provider.Number{ID: "1"}, server.URL+"/x")
		require.Equal(t, want.class, failure(t, err).Class, status)
		require.Equal(t, want.missing, failure(t, err).Missing, status)
	}
}

// TestUploadExample_GoesOn breaks the connection in the middle of a file.
func TestUploadExample_GoesOn(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 10_000)
	var mu sync.Mutex
	var kept []byte
	broken := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		path := strings.TrimPrefix(r.URL.Path, "/"+cloud.DefaultVersion)
		switch {
		case path == "/2/uploads":
			_, _ = io.WriteString(w, `{"id":"upload:MTphdHRh=?sig=ARZqk"}`)
		case path == "/upload:MTphdHRh=" && r.URL.Query().Get("sig") != "ARZqk":
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(map[string]any{"id": "upload:x", "file_offset": len(kept)})
		default:
			offset, err := strconv.Atoi(r.Header["File_offset"][0])
			if err != nil || offset != len(kept) {
				_, _ = io.WriteString(w, `{"error":{"code":100,"message":"the chunk does not fit"}}`)
				return
			}
			if broken < 2 {
				broken++
				part := make([]byte, 30_000)
				n, _ := io.ReadFull(r.Body, part)
				kept = append(kept, part[:n]...)
				panic(http.ErrAbortHandler)
			}
			rest, _ := io.ReadAll(r.Body)
			kept = append(kept, rest...)
			_, _ = io.WriteString(w, `{"h":"4::aW"}`)
		}
	}))
	client := secretClient(t, server.URL, server.Close)
	handle, err := client.UploadExample(t.Context(), provider.NewToken("t"), provider.File{
		Name: "a.png", MIMEType: "image/png", Size: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	})
	require.NoError(t, err)
	require.Equal(t, "4::aW", handle)
	require.True(t, bytes.Equal(content, kept), "%d of %d bytes", len(kept), len(content))
}

func TestUpload_RefusesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	client := secretive(t, http.StatusOK, []byte(`{"id":"elsewhere/../x"}`))
	unreadable := small()
	unreadable.Open = func() (io.ReadCloser, error) { return nil, fmt.Errorf("canary") }
	_, err := client.UploadMedia(t.Context(), provider.Number{ID: "1"}, unreadable)
	require.Equal(t, provider.NotSent, failure(t, err).Delivery)
	_, err = client.UploadExample(t.Context(), provider.NewToken("t"), small())
	require.Error(t, err, "an upload that is none")
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for _, config := range []cloud.Config{
		{BaseURL: "graph.example.com"},
		{BaseURL: "ftp://x"},
		{BaseURL: "https://"},
		{BaseURL: "https://user:pass@x"},
		{BaseURL: "https://x?y=1"},
		{Version: "24"},
		{Version: "v24.0/../x"},
		{BaseURL: "::"},
	} {
		_, err := cloud.New(config)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "pass")
	}
}
