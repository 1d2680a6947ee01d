package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/simulator/state"
	"github.com/parley-chat/parley/internal/simulator/wire"
)

// Bounds of resumable uploads.
const (
	maxUploads     = 100
	maxUploadBytes = 16 << 20
)

func (s *Server) beginUpload(c *call) (any, error) {
	length, err := strconv.Atoi(c.Form.Text("file_length"))
	if err != nil || length < 1 || length > maxUploadBytes {
		return nil, wire.Refusal(100, "The parameter file_length is required: 1 to %d bytes.", maxUploadBytes)
	}
	switch c.Form.Text("file_type") {
	case "application/pdf", "image/jpeg", "image/jpg", "image/png", "video/mp4":
	default:
		return nil, wire.Refusal(100, "Param file_type must be one of application/pdf, image/jpeg, image/jpg, image/png, video/mp4.")
	}
	if len(s.Data.Uploads) >= maxUploads {
		clear(s.Data.Uploads)
	}
	added := &state.Upload{ID: "upload:" + traceID(), App: c.app.ID, Mime: c.Form.Text("file_type"), Length: length}
	s.Data.Uploads[added.ID] = added
	return object{"id": added.ID}, nil
}

func (s *Server) readUpload(c *call) (any, error) {
	return object{"id": c.upload.ID, "file_offset": len(c.upload.Data)}, nil
}

// continueUpload stores a chunk. The last chunk is answered with the handle of the file.
func (s *Server) continueUpload(c *call) (any, error) {
	offset, err := strconv.Atoi(c.R.Header.Get("file_offset"))
	if err != nil {
		return nil, wire.Refusal(100, "The header file_offset is required.")
	}
	chunk, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, maxUploadBytes))
	s.Lock()
	defer s.Unlock()
	if offset != len(c.upload.Data) || offset+len(chunk) > c.upload.Length {
		return nil, wire.Refusal(100, "The chunk does not fit: the upload stands at %d of %d bytes.", len(c.upload.Data), c.upload.Length)
	}
	if c.upload.Data = append(c.upload.Data, chunk...); err != nil || len(c.upload.Data) < c.upload.Length {
		return object{"id": c.upload.ID, "file_offset": len(c.upload.Data)}, nil
	}
	return object{"h": handleOf(c.upload)}, nil
}

// handleOf returns the handle of an uploaded example. A handle cannot be sent.
func handleOf(u *state.Upload) string {
	sum := sha256.Sum256(append([]byte(u.ID), u.Data...))
	return "4::aW" + hex.EncodeToString(sum[:16]) + ":" + strings.ReplaceAll(u.Mime, "/", "_") + ":" + u.App
}
