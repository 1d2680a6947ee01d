// Package reference serves the reference of the API at /docs: a page that shows /v1/openapi.json of the same server. The
// script that shows it is an npm package, which files/NOTICE.txt names and scripts/viewer.sh checks. No file comes from
// another host.
package reference

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/parley-chat/parley/internal/platform/gzipped"
)

// Path is the page. Its files are below it.
const Path = "/docs"

//go:embed files
var files embed.FS

// viewer is the script that shows the contract, compressed.
const viewer = "scalar-1.72.1.js.gz"

// types are the content types of the files, by their extension.
var types = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// policy lets the page load from its own server alone. The viewer writes styles into the page, and draws icons from `data:`.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one file as it is served.
type file struct {
	kind, cache string
	plain       func() ([]byte, error)
	// compressed is nil for files that are served plain.
	compressed []byte
	etag       string
}

// Pages serves the page and its files.
type Pages struct {
	byPath map[string]*file
}

// New reads the embedded files.
func New() (*Pages, error) {
	p := &Pages{byPath: map[string]*file{}}
	// names are the addresses of the files, relative to the page.
	names := struct{ Icon, Notice, Style, Viewer, Start string }{}
	for name, address := range map[string]*string{
		"icon.svg": &names.Icon, "NOTICE.txt": &names.Notice, "style.css": &names.Style, viewer: &names.Viewer, "start.js": &names.Start,
	} {
		content, err := files.ReadFile("files/" + name)
		if err != nil {
			return nil, err
		}
		*address = strings.TrimPrefix(Path, "/") + "/" + p.add(name, content)
	}
	layout, err := template.ParseFS(files, "files/page.html")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := layout.Execute(&page, names); err != nil {
		return nil, err
	}
	p.byPath[Path] = newFile(page.Bytes(), ".html", "public, no-cache")
	return p, nil
}

// add adds a file that never changes, and returns its name: it contains a hash of the content.
func (p *Pages) add(name string, content []byte) string {
	name, compressed := strings.CutSuffix(name, ".gz")
	extension := path.Ext(name)
	made := newFile(content, extension, "public, max-age=31536000, immutable")
	name = strings.TrimSuffix(name, extension) + "-" + strings.Trim(made.etag, `"`) + extension
	if compressed {
		made.compressed, made.plain = content, sync.OnceValues(func() ([]byte, error) { return inflate(content) })
	}
	p.byPath[Path+"/"+name] = made
	return name
}

func newFile(content []byte, extension, cache string) *file {
	hash := sha256.Sum256(content)
	return &file{
		kind: types[extension], cache: cache, etag: `"` + hex.EncodeToString(hash[:6]) + `"`,
		plain: func() ([]byte, error) { return content, nil },
	}
}

func inflate(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// ServeHTTP answers one request.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	found := p.byPath[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "The reference can only be read.", http.StatusMethodNotAllowed)
	case r.URL.Path == Path+"/":
		header.Set("Location", ".."+Path) // relative, because a proxy may serve Parley below another path
		w.WriteHeader(http.StatusPermanentRedirect)
	case found == nil:
		http.Error(w, "There is no such page. The reference is at "+Path+".", http.StatusNotFound)
	default:
		found.serve(w, r)
	}
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("Cache-Control", f.cache)
	if f.compressed != nil {
		header.Set("Vary", "Accept-Encoding")
	}
	if f.compressed != nil && gzipped.Accepted(r.Header) {
		header.Set("Content-Encoding", "gzip")
		header.Set("ETag", strings.TrimSuffix(f.etag, `"`)+`-gzip"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.compressed))
		return
	}
	content, err := f.plain()
	if err != nil {
		http.Error(w, "The file cannot be read.", http.StatusInternalServerError)
		return
	}
	header.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
