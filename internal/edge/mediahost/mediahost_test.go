package mediahost_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/edge/mediahost"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

type fixture struct {
	files *bucket.Bucket
	url   string
	key   string
	data  []byte
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	files, err := bucket.Open("file://" + t.TempDir())
	require.NoError(t, err)
	server := httptest.NewServer(mediahost.New(files, canary.Logger(t)))
	t.Cleanup(server.Close)
	f := fixture{files: files, url: server.URL, key: media.NewKey(), data: []byte("<script>alert(1)</script>")}
	_, err = files.Put(t.Context(), f.key, bucket.File{ContentType: "text/html", Disposition: `attachment; filename="a.html"`}, bytes.NewReader(f.data))
	require.NoError(t, err)
	return f
}

// answer is what the host answered.
type answer struct {
	status int
	header http.Header
	body   string
}

func (f fixture) ask(t *testing.T, method, path string, header http.Header) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, f.url+path, http.NoBody)
	require.NoError(t, err)
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	require.Contains(t, response.Header.Get("Content-Security-Policy"), "sandbox")
	return answer{response.StatusCode, response.Header, string(body)}
}

func TestHost_File_SavedAndNeverShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.ask(t, http.MethodGet, "/m/"+f.key, nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, string(f.data), got.body)
	require.Equal(t, `attachment; filename="a.html"`, got.header.Get("Content-Disposition"))
	require.Equal(t, "text/html", got.header.Get("Content-Type"))
	got = f.ask(t, http.MethodHead, "/m/"+f.key, nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Empty(t, got.body)
	tag := got.header.Get("ETag")
	got = f.ask(t, http.MethodGet, "/m/"+f.key, http.Header{"If-None-Match": {tag}})
	require.Equal(t, http.StatusNotModified, got.status)
}

func TestHost_Range_PartOfTheFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.ask(t, http.MethodGet, "/m/"+f.key, http.Header{"Range": {"bytes=1-6"}})
	require.Equal(t, http.StatusPartialContent, got.status)
	require.Equal(t, "script", got.body)
	got = f.ask(t, http.MethodGet, "/m/"+f.key, http.Header{"Range": {"bytes=1000-"}})
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, got.status)
}

// TestHost_OtherRanges_WholeFile: a unit that is not known is ignored, and so are several ranges.
func TestHost_OtherRanges_WholeFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, asked := range []string{"items=0-1", "seconds=1-2", "Bytes=1-6", "bytes", "bytes 1-6", "bytes=0-1,3-4", "1-6"} {
		got := f.ask(t, http.MethodGet, "/m/"+f.key, http.Header{"Range": {asked}})
		require.Equal(t, http.StatusOK, got.status, asked)
		require.Equal(t, string(f.data), got.body, asked)
		require.Empty(t, got.header.Get("Content-Range"), asked)
	}
}

// TestHost_Deleted_GoneFromCachesWithinAnHour: files are deleted, so that no cache may keep one for ever.
func TestHost_Deleted_GoneFromCachesWithinAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.ask(t, http.MethodGet, "/m/"+f.key, nil)
	require.Equal(t, "private, max-age=3600", got.header.Get("Cache-Control"))
	require.NoError(t, f.files.Delete(t.Context(), f.key))
	got = f.ask(t, http.MethodGet, "/m/"+f.key, http.Header{"If-None-Match": {got.header.Get("ETag")}})
	require.Equal(t, http.StatusNotFound, got.status)
	require.Empty(t, got.header.Get("Cache-Control"))
}

func TestHost_OtherPaths_NotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{
		"/", "/m/", "/m", "/m/" + f.key + "/", "/m/" + f.key + ".attrs", "/m/" + f.key[:42], "/m/..%2f" + f.key, "/m/" + strings.ToLower(f.key) + "x",
		"/" + f.key, "/m/" + media.NewKey(),
	} {
		got := f.ask(t, http.MethodGet, path, nil)
		require.Equal(t, http.StatusNotFound, got.status, path)
		require.NotContains(t, got.body, "script")
	}
	got := f.ask(t, http.MethodPost, "/m/"+f.key, nil)
	require.Equal(t, http.StatusMethodNotAllowed, got.status)
}

// Nobody finds a file by guessing.
func TestHost_GuessedKeys_FindNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	host := mediahost.New(f.files, canary.Logger(t))
	for range 10_000 {
		recorder := httptest.NewRecorder()
		host.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/m/"+media.NewKey(), http.NoBody))
		require.Equal(t, http.StatusNotFound, recorder.Code)
	}
}
