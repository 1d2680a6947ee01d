package graph

import (
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// uploadMedia stores a file of the business.
func (s *Server) uploadMedia(c *call) (any, error) {
	c.R.Body = http.MaxBytesReader(c.W, c.R.Body, state.MaxUpload)
	form, err := c.R.MultipartReader()
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
	if fields[wire.FieldProduct] != wire.Product {
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
	s.Lock()
	defer s.Unlock()
	added := s.Data.AddFile(c.number.ID, declared, filename, data, c.Now.Add(state.UploadLifetime), c.Now)
	return object{"id": added.ID}, nil
}

// partType returns the declared type of a file, empty for the generic one.
func partType(part *multipart.Part) string {
	declared := part.Header.Get("Content-Type")
	if declared == "application/octet-stream" {
		return ""
	}
	return declared
}

// readMedia answers a download URL that expires.
func (s *Server) readMedia(c *call) (any, error) {
	if err := s.checkFileAccess(c); err != nil {
		return nil, err
	}
	return object{
		wire.FieldProduct: wire.Product, "url": s.MediaURL(s.BaseURL(c.R), c.media, c.Now), "mime_type": c.media.Mime,
		"sha256": hex.EncodeToString(c.media.SHA256[:]), "file_size": c.media.Size(), "id": c.media.ID,
	}, nil
}

func (s *Server) deleteMedia(c *call) (any, error) {
	if err := s.checkFileAccess(c); err != nil {
		return nil, err
	}
	s.Data.Files.Remove(c.media)
	return wire.Success(), nil
}

// checkFileAccess refuses a file of another number, or of an account that the token does not cover.
func (s *Server) checkFileAccess(c *call) error {
	n := s.Data.Numbers[c.media.Number]
	numberID := c.R.URL.Query().Get("phone_number_id")
	if n == nil || !c.token.Covers(n.Account.ID) || numberID != "" && numberID != n.ID {
		return unknownObject(c.media.ID)
	}
	return nil
}

// ServeMedia answers a download. The caller needs a token and a URL that has not expired.
func (s *Server) ServeMedia(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: wire.Request{W: w, R: r, Now: s.Now()}}
	if err := s.authenticate(c); err != nil {
		s.refuse(c, err)
		return
	}
	query := r.URL.Query()
	expires, err := strconv.ParseInt(query.Get("ext"), 10, 64)
	valid := err == nil && hmac.Equal([]byte(query.Get("hash")), []byte(s.URLHash(query.Get("mid"), query.Get("ext"))))
	s.Lock()
	found := s.Data.Files.Find(query.Get("mid"), c.Now)
	if found != nil {
		if n := s.Data.Numbers[found.Number]; n == nil || !c.token.Covers(n.Account.ID) {
			found = nil
		}
	}
	s.Unlock()
	if !valid || c.Now.Unix() >= expires || found == nil {
		http.NotFound(w, r)
		return
	}
	found.Serve(w)
}
