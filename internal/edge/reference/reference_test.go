package reference_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/edge/reference"
)

type fixture struct {
	*testing.T

	pages *reference.Pages
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pages, err := reference.New()
	require.NoError(t, err)
	return &fixture{T: t, pages: pages}
}

// ask sends a request with headers, which are pairs of name and value.
func (f *fixture) ask(method, path string, header ...string) *httptest.ResponseRecorder {
	f.Helper()
	request := httptest.NewRequestWithContext(f.Context(), method, path, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	f.pages.ServeHTTP(answer, request)
	require.Equal(f, "nosniff", answer.Header().Get("X-Content-Type-Options"))
	require.Contains(f, answer.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; ")
	return answer
}

// linked are the addresses in the page.
func (f *fixture) linked() []string {
	f.Helper()
	page := f.ask(http.MethodGet, "/docs")
	require.Equal(f, http.StatusOK, page.Code)
	var all []string
	for _, found := range regexp.MustCompile(`(?:href|src)="([^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1) {
		all = append(all, found[1])
	}
	return all
}

// viewer is the path of the script that shows the contract.
func (f *fixture) viewer() string {
	f.Helper()
	for _, address := range f.linked() {
		if strings.HasPrefix(address, "docs/scalar-") {
			return "/" + address
		}
	}
	require.Fail(f, "the page has no viewer")
	return ""
}

func TestPage_Files_AllServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	page := f.ask(http.MethodGet, "/docs")
	require.Equal(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
	require.Equal(t, "public, no-cache", page.Header().Get("Cache-Control"))
	require.Len(t, f.linked(), 6)
	for _, address := range f.linked() {
		if address == "v1/openapi.json" {
			continue
		}
		require.Regexp(t, `^docs/[A-Za-z]+(-[0-9.]+)?-[0-9a-f]{12}\.[a-z]+$`, address, "relative to the page, with a hash")
		file := f.ask(http.MethodGet, "/"+address)
		require.Equal(t, http.StatusOK, file.Code, address)
		require.NotEmpty(t, file.Header().Get("Content-Type"), address)
		require.Equal(t, "public, max-age=31536000, immutable", file.Header().Get("Cache-Control"), address)
		require.NotContains(t, file.Body.String()[:200], "<!doctype", address)
	}
}

func TestFile_ETag_NotModified(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, header := range [][]string{{"Accept-Encoding", "gzip"}, {"Accept-Encoding", "identity"}} {
		for _, path := range []string{"/docs", f.viewer()} {
			first := f.ask(http.MethodGet, path, header...)
			again := f.ask(http.MethodGet, path, append(header, "If-None-Match", first.Header().Get("ETag"))...)
			require.Equal(t, http.StatusNotModified, again.Code)
			require.Empty(t, again.Body.Bytes())
			head := f.ask(http.MethodHead, path, header...)
			require.Equal(t, http.StatusOK, head.Code)
			require.Empty(t, head.Body.Bytes())
		}
	}
}

// TestViewer_IsThePackagesFile compares both forms with the hash in the notice, which scripts/viewer.sh compares with npm's.
func TestViewer_IsThePackagesFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	notice, err := os.ReadFile("files/NOTICE.txt")
	require.NoError(t, err)
	want := regexp.MustCompile(`(?m)^sha256: *([0-9a-f]{64})$`).FindSubmatch(notice)
	require.NotNil(t, want)
	version := regexp.MustCompile(`(?m)^version: *(\S+)$`).FindSubmatch(notice)
	require.Contains(t, f.viewer(), "scalar-"+string(version[1])+"-")

	plain := f.ask(http.MethodGet, f.viewer())
	compressed := f.ask(http.MethodGet, f.viewer(), "Accept-Encoding", "br, gzip")
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	require.Equal(t, "gzip", compressed.Header().Get("Content-Encoding"))
	require.NotEqual(t, plain.Header().Get("ETag"), compressed.Header().Get("ETag"))
	r, err := gzip.NewReader(bytes.NewReader(compressed.Body.Bytes()))
	require.NoError(t, err)
	inflated, err := io.ReadAll(r)
	require.NoError(t, err)
	for _, script := range [][]byte{plain.Body.Bytes(), inflated} {
		hash := sha256.Sum256(script)
		require.Equal(t, string(want[1]), hex.EncodeToString(hash[:]))
	}
	for _, answer := range []*httptest.ResponseRecorder{plain, compressed} {
		require.Equal(t, "Accept-Encoding", answer.Header().Get("Vary"))
		require.Equal(t, "text/javascript; charset=utf-8", answer.Header().Get("Content-Type"))
	}
}

func TestPage_OtherRequests_Refused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	slash := f.ask(http.MethodGet, "/docs/")
	require.Equal(t, http.StatusPermanentRedirect, slash.Code)
	require.Equal(t, "../docs", slash.Header().Get("Location"))
	for _, path := range []string{"/docs/none.js", "/docs/files/page.html", "/docs/../docs", "/docs/icon.svg"} {
		require.Equal(t, http.StatusNotFound, f.ask(http.MethodGet, path).Code, path)
	}
	written := f.ask(http.MethodPost, "/docs")
	require.Equal(t, http.StatusMethodNotAllowed, written.Code)
	require.Equal(t, "GET, HEAD", written.Header().Get("Allow"))
}
