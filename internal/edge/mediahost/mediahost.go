// Package mediahost serves the files of messages on an origin of its own, so that a file that a stranger
// sent can never act as a page of the API or the dashboard. A file is named by a secret key; there is no
// other authentication, and no list.
package mediahost

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/platform/bucket"
)

// keys are 32 random bytes as URL-safe base64.
var keys = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

const (
	// sendWithin is how long a whole answer may take: 100 MiB at 64 KiB a second take 27 minutes.
	sendWithin = 30 * time.Minute
	// stallsFor is how long a receiver may take to accept the next piece.
	stallsFor = 30 * time.Second
	// cached is how long a receiver may keep a file without asking again: files are deleted with their message or contact.
	cached = "private, max-age=3600"
)

// Host serves files.
type Host struct {
	files  *bucket.Bucket
	logger *slog.Logger
}

// New builds the host.
func New(files *bucket.Bucket, logger *slog.Logger) *Host { return &Host{files: files, logger: logger} }

// ServeHTTP answers GET and HEAD of /m/{key}, also for ranges.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	header.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "Files can be read, and nothing else.", http.StatusMethodNotAllowed)
		return
	}
	if len(r.URL.Path) <= len(media.Path) || r.URL.Path[:len(media.Path)] != media.Path || !keys.MatchString(r.URL.Path[len(media.Path):]) {
		missing(w)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's own would cancel the request's context, and the download with it
	file, err := h.files.Get(r.Context(), r.URL.Path[len(media.Path):])
	if errors.Is(err, bucket.ErrNotFound) {
		missing(w)
		return
	}
	if err != nil {
		h.logger.ErrorContext(r.Context(), "mediahost.bucket", "error", err)
		header.Set("Retry-After", "5")
		http.Error(w, "The file cannot be read now. Try again in a few seconds.", http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = file.Close() }()
	header.Set("Content-Type", file.File.ContentType)
	if file.File.ContentType == "" {
		header.Set("Content-Type", "application/octet-stream")
	}
	header.Set("Content-Disposition", file.File.Disposition)
	header.Set("Cache-Control", cached)
	header.Set("ETag", file.ETag)
	if asked := r.Header.Get("Range"); strings.Contains(asked, ",") || !strings.HasPrefix(asked, "bytes=") {
		r.Header.Del("Range") // each range would be a request to the bucket; other units are to be ignored
	}
	slow := &deadlineWriter{ResponseWriter: w, control: control, until: now().Add(sendWithin)}
	http.ServeContent(slow, r, "", file.ModTime(), file.Reader)
}

// now is the machine's time, which the deadlines of connections go by.
func now() time.Time { return time.Now() } //nolint:forbidigo // see above

func missing(w http.ResponseWriter) {
	http.Error(w, "There is no such file.", http.StatusNotFound)
}

// deadlineWriter gives a receiver stallsFor for each piece, and sendWithin for all of them.
type deadlineWriter struct {
	http.ResponseWriter

	control *http.ResponseController
	until   time.Time
}

func (p *deadlineWriter) Write(piece []byte) (int, error) {
	next := now().Add(stallsFor)
	if next.After(p.until) {
		next = p.until
	}
	_ = p.control.SetWriteDeadline(next) // without one the server's own holds
	return p.ResponseWriter.Write(piece)
}

var _ io.ReadSeeker = (*bucket.Object)(nil)
