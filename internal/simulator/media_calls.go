package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// attachments is the media host's path.
const attachments = "/whatsapp_business/attachments/"

// maxUpload is the largest file of any kind, and what its form adds.
const maxUpload = 100<<20 + 1<<16

// uploadMedia stores a file of the business.
func (s *Simulator) uploadMedia(c *call) (any, error) {
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxUpload)
	form, err := c.r.MultipartReader()
	if err != nil {
		return nil, wire.Refusal(100, "The request must be multipart/form-data.")
	}
	fields := map[string]string{}
	var data []byte
	var filename, declared string
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, wire.Refusal(131053, "The file could not be read.")
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, wire.Refusal(131053, "The file is too large.")
		}
		if part.FormName() == "file" {
			data, filename, declared = content, part.FileName(), partType(part)
		} else {
			fields[part.FormName()] = string(content)
		}
	}
	if fields[fieldProduct] != wire.Product {
		return nil, wire.Refusal(100, "The parameter messaging_product is required.")
	}
	if data == nil {
		return nil, wire.Refusal(100, "The parameter file is required.")
	}
	if declared == "" || fields["type"] != "" {
		declared = fields["type"]
	}
	kind := content.KindOf(declared)
	if kind == "" {
		return nil, wire.Refusal(100, "Param file must be a file with one of the supported types. Received file of type '%s'.", declared)
	}
	if problem := content.Fits(kind, declared, len(data)); problem != "" {
		return nil, wire.Refusal(131053, "%s", problem)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.world.keepMedia(c.number.ID, declared, filename, data, c.now.Add(uploadedLife), c.now)
	return object{"id": kept.ID}, nil
}

func partType(part *multipart.Part) string {
	declared := part.Header.Get("Content-Type")
	if declared == "application/octet-stream" {
		return ""
	}
	return declared
}

// readMedia answers where a file can be downloaded for the next minutes.
func (s *Simulator) readMedia(c *call) (any, error) {
	if err := s.guarded(c); err != nil {
		return nil, err
	}
	return object{
		fieldProduct: wire.Product, "url": s.mediaURL(s.base(c.r), c.media, c.now), "mime_type": c.media.Mime,
		"sha256": hexSum(c.media.sum), "file_size": c.media.size(), "id": c.media.ID,
	}, nil
}

func (s *Simulator) deleteMedia(c *call) (any, error) {
	if err := s.guarded(c); err != nil {
		return nil, err
	}
	s.world.media.remove(c.media)
	return success(), nil
}

// guarded refuses another number's file, and one of an account that the token does not cover.
func (s *Simulator) guarded(c *call) error {
	n := s.world.numbers[c.media.number]
	guard := c.r.URL.Query().Get("phone_number_id")
	if n == nil || !c.token.covers(n.Account.ID) || guard != "" && guard != n.ID {
		return wire.Refusal(100, "Object with ID '%s' does not exist, cannot be loaded due to missing permissions, "+
			"or does not support this operation.", c.media.ID).With(33)
	}
	return nil
}

// mediaURL is signed and expires; the caller holds the lock.
func (s *Simulator) mediaURL(base string, m *media, now time.Time) string {
	expires := strconv.FormatInt(now.Add(time.Duration(s.world.settings.MediaURLSeconds)*time.Second).Unix(), 10)
	query := url.Values{"mid": {m.ID}, "source": {"getMedia"}, "ext": {expires}, "hash": {s.urlHash(m.ID, expires)}}
	return base + attachments + "?" + query.Encode()
}

func (s *Simulator) urlHash(id, expires string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "/" + expires))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// download is the media host: it wants the token, and knows expired URLs no more.
func (s *Simulator) download(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, now: s.Now()}
	if err := s.authenticate(c); err != nil {
		s.refuse(c, err)
		return
	}
	query := r.URL.Query()
	expires, err := strconv.ParseInt(query.Get("ext"), 10, 64)
	valid := err == nil && hmac.Equal([]byte(query.Get("hash")), []byte(s.urlHash(query.Get("mid"), query.Get("ext"))))
	s.mu.Lock()
	found := s.world.media.find(query.Get("mid"), c.now)
	if found != nil {
		if n := s.world.numbers[found.number]; n == nil || !c.token.covers(n.Account.ID) {
			found = nil
		}
	}
	s.mu.Unlock()
	if !valid || c.now.Unix() >= expires || found == nil {
		http.NotFound(w, r)
		return
	}
	serveFile(w, found)
}

// peek shows a file to the phone page, which has no token.
func (s *Simulator) peek(w http.ResponseWriter, r *http.Request, id string) {
	s.mu.Lock()
	found := s.world.media.find(id, s.Now())
	s.mu.Unlock()
	if found == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Security-Policy", "sandbox") // a file may be a page, and this is somebody's origin
	serveFile(w, found)
}

func serveFile(w http.ResponseWriter, m *media) {
	w.Header().Set("Content-Type", m.Mime)
	w.Header().Set("Content-Length", strconv.Itoa(m.size()))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(m.data) // nobody is left to tell
}

// simMedia takes a file from the phone page: the raw body, its type in the header.
func (s *Simulator) simMedia(c *controlled) (any, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxUpload))
	if err != nil {
		return nil, wire.Refusal(100, "the file is too large")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.numberOf(c.r.URL.Query().Get("phone_number_id"))
	if err != nil {
		return nil, err
	}
	kept := s.world.keepMedia(n.ID, c.r.Header.Get("Content-Type"), c.r.URL.Query().Get("filename"), data,
		c.now.Add(receivedLife), c.now)
	return object{"id": kept.ID, "mime_type": kept.Mime}, nil
}

// upload is a resumable upload for a template's example.
type upload struct {
	id     string
	app    string
	name   string
	mime   string
	length int
	data   []byte
}

const (
	maxUploads     = 100
	maxUploadBytes = 16 << 20
)

func (s *Simulator) beginUpload(c *call) (any, error) {
	length, err := strconv.Atoi(c.form.Text("file_length"))
	if err != nil || length < 1 || length > maxUploadBytes {
		return nil, wire.Refusal(100, "The parameter file_length is required: 1 to %d bytes.", maxUploadBytes)
	}
	switch c.form.Text("file_type") {
	case "application/pdf", "image/jpeg", "image/jpg", "image/png", "video/mp4":
	default:
		return nil, wire.Refusal(100, "Param file_type must be one of application/pdf, image/jpeg, image/jpg, image/png, video/mp4.")
	}
	if len(s.world.uploads) >= maxUploads {
		clear(s.world.uploads)
	}
	begun := &upload{id: "upload:" + traceID(), app: c.app.ID, name: c.form.Text("file_name"), mime: c.form.Text("file_type"), length: length}
	s.world.uploads[begun.id] = begun
	return object{"id": begun.id}, nil
}

func (s *Simulator) readUpload(c *call) (any, error) {
	return object{"id": c.upload.id, "file_offset": len(c.upload.data)}, nil
}

// continueUpload takes the bytes from the offset on; the last ones earn a handle.
func (s *Simulator) continueUpload(c *call) (any, error) {
	offset, err := strconv.Atoi(c.r.Header.Get("file_offset"))
	if err != nil {
		return nil, wire.Refusal(100, "The header file_offset is required.")
	}
	chunk, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxUploadBytes))
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset != len(c.upload.data) || offset+len(chunk) > c.upload.length {
		return nil, wire.Refusal(100, "The chunk does not fit: the upload stands at %d of %d bytes.", len(c.upload.data), c.upload.length)
	}
	if c.upload.data = append(c.upload.data, chunk...); err != nil || len(c.upload.data) < c.upload.length {
		return object{"id": c.upload.id, "file_offset": len(c.upload.data)}, nil
	}
	return object{"h": handleOf(c.upload)}, nil
}

// handleOf names an uploaded example; it cannot be sent.
func handleOf(u *upload) string {
	sum := sha256.Sum256(append([]byte(u.id), u.data...))
	return "4::aW" + hex.EncodeToString(sum[:16]) + ":" + strings.ReplaceAll(u.mime, "/", "_") + ":" + u.app
}
