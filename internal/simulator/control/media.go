package control

import (
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/parley-chat/parley/internal/simulator/content"
	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// completeContent returns the content of a message as callbacks carry it. Content that was not
// given is replaced by a sample.
func (s *Server) completeContent(n *state.Number, c *request, kind string, given any) (any, error) {
	if content.IsMedia(kind) {
		of, _ := given.(object)
		return s.describeFile(n, c, kind, of)
	}
	if given == nil {
		if given = sampleContent[kind]; given == nil {
			return nil, wire.Refusal(100, "a message of type %s needs its content in the field %s", kind, kind)
		}
	}
	return given, nil
}

// sampleContent holds content for the types that may leave it out.
var sampleContent = map[string]any{
	"text":     object{"body": "Hello"},
	"location": object{"latitude": 38.7223, "longitude": -9.1393, "name": "Lisbon", "address": "Praça do Comércio"},
	wire.FieldContacts: []any{object{
		"name":   object{"formatted_name": "Grace Hopper", "first_name": "Grace", "last_name": "Hopper"},
		"phones": []any{object{"phone": "+1 555-010-0002", "type": "CELL", "wa_id": "15550100002"}},
	}},
	"interactive": object{"type": "button_reply", "button_reply": object{"id": "yes", "title": "Yes"}},
	"button":      object{"payload": "yes", "text": "Yes"},
	"order": object{"catalog_id": "700000000000001", "text": "", "product_items": []any{
		object{"product_retailer_id": "sku-1", "quantity": 1, "item_price": 9.5, "currency": "EUR"},
	}},
	"unsupported": object{"type": "unknown"},
}

// fileFields holds the fields of a file in the body of POST /sim/inbound and /sim/echo.
var fileFields = map[string]bool{
	"id": true, "data": true, "mime_type": true, "filename": true, "size": true, "seed": true, "caption": true, "voice": true,
	"animated": true, "url": true,
}

// describeFile returns the file of a message as callbacks carry it.
func (s *Server) describeFile(n *state.Number, c *request, kind string, given object) (object, error) {
	for field := range given {
		if !fileFields[field] {
			return nil, wire.Refusal(100, "%s has no field %q; it has %v", kind, field, slices.Sorted(maps.Keys(fileFields)))
		}
	}
	found, err := s.findOrAddFile(n, c, kind, given)
	if err != nil {
		return nil, err
	}
	described := object{"mime_type": found.Mime, "sha256": found.SHA256Base64(), "id": found.ID}
	if _, given := given["url"]; !given { // null leaves it out, as callbacks of older versions do
		described["url"] = s.MediaURL(s.BaseURL(c.R), found, c.Now)
	}
	if caption, _ := given["caption"].(string); caption != "" && (kind == "image" || kind == "video" || kind == wire.KindDocument) {
		described["caption"] = caption
	}
	switch kind {
	case wire.KindDocument:
		if described["filename"] = found.Filename; found.Filename == "" {
			described["filename"] = "document.pdf"
		}
	case "audio":
		described["voice"] = given["voice"] == true
	case "sticker":
		described["animated"] = given["animated"] == true
	}
	return described, nil
}

// findOrAddFile returns the file with the given id, or stores the given bytes, so many random bytes (`size`
// and `seed`) or a sample.
func (s *Server) findOrAddFile(n *state.Number, c *request, kind string, given object) (*state.File, error) {
	if id, _ := given["id"].(string); id != "" {
		if found := s.Data.Files.Find(id, c.Now); found != nil {
			return found, nil
		}
		return nil, wire.Refusal(100, "there is no media %s", id)
	}
	mime, data := content.SampleFile(kind)
	if encoded, _ := given["data"].(string); encoded != "" {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, wire.Refusal(100, "data is not base64")
		}
		data = decoded
	}
	if named, _ := given["mime_type"].(string); named != "" {
		mime = named
	}
	filename, _ := given["filename"].(string)
	if size, _ := given["size"].(float64); size > 0 {
		if size > state.MaxGenerated {
			return nil, wire.Refusal(100, "size must be at most %d", state.MaxGenerated)
		}
		seed, _ := given["seed"].(float64)
		return s.Data.AddGenerated(n.ID, mime, filename, int(size), uint64(seed), c.Now.Add(state.ReceivedLifetime), c.Now), nil
	}
	return s.Data.AddFile(n.ID, mime, filename, data, c.Now.Add(state.ReceivedLifetime), c.Now), nil
}

// serveFile answers a file to the phone page, which has no token.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, id string) {
	s.Lock()
	found := s.Data.Files.Find(id, s.Now())
	s.Unlock()
	if found == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Security-Policy", "sandbox") // an HTML file must not run in this origin
	found.Serve(w)
}

// uploadFile stores a file of the phone page: the raw body, with its type in the header.
func (s *Server) uploadFile(c *request) (any, error) {
	if err := checkNames(c.R.URL.Query(), "phone_number_id", "filename"); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, state.MaxUpload))
	if err != nil {
		return nil, wire.Refusal(100, "the file is too large")
	}
	s.Lock()
	defer s.Unlock()
	n, err := s.findNumber(c.R.URL.Query().Get("phone_number_id"))
	if err != nil {
		return nil, err
	}
	added := s.Data.AddFile(n.ID, c.R.Header.Get("Content-Type"), c.R.URL.Query().Get("filename"), data,
		c.Now.Add(state.ReceivedLifetime), c.Now)
	return object{"id": added.ID, "mime_type": added.Mime}, nil
}
