package cloud

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/parley-chat/parley/internal/provider"
)

// uploadTries is how often an upload goes on after it broke off.
const uploadTries = 3

// UploadExample begins an upload, sends the file, and goes on from where the network stands
// when the connection breaks.
func (c *Client) UploadExample(ctx context.Context, token provider.Token, file provider.File) (string, error) {
	r := request{
		operation: "upload_example", method: http.MethodPost, path: c.config.AppID + "/uploads", token: token,
		query: url.Values{"file_name": {file.Name}, "file_length": {strconv.FormatInt(file.Size, 10)}, "file_type": {file.MIMEType}},
	}
	if err := c.needsApp(r); err != nil {
		return "", err
	}
	if file.Open == nil || file.Size <= 0 {
		return "", c.impossible(r, "the file is empty")
	}
	var begun named
	if err := c.call(ctx, r, &begun); err != nil {
		return "", err
	}
	session := string(begun.ID)
	if !strings.HasPrefix(session, "upload:") || strings.ContainsAny(session, "/\\# ") {
		return "", c.impossible(r, "the provider named no upload")
	}
	offset := int64(0)
	var failed error
	for try := range uploadTries {
		if try > 0 {
			if offset, failed = c.uploaded(ctx, token, session); failed != nil {
				continue
			}
		}
		var handle handed
		if failed = c.chunk(ctx, token, session, file, offset, &handle); failed == nil && handle.Handle != "" {
			return string(handle.Handle), nil
		}
		if refused, ok := provider.As(failed); ok && refused.Class != provider.Retryable || ctx.Err() != nil {
			break
		}
	}
	if failed == nil {
		failed = c.unreadable(r, answer{status: http.StatusOK})
	}
	return "", failed
}

// handed is a handle, or how far the upload is.
type handed struct {
	Handle text  `json:"h"`
	Offset whole `json:"file_offset"`
}

func (h *handed) complete() bool { return h.Handle != "" || h.Offset.given }

func (c *Client) chunk(ctx context.Context, token provider.Token, session string, file provider.File, offset int64, into *handed) error {
	return c.call(ctx, request{
		operation: "upload_example", method: http.MethodPost, path: session, token: token, timeout: c.timeoutOf(file.Size),
		header: map[string]string{"file_offset": strconv.FormatInt(offset, 10)},
		stream: &stream{contentType: "application/octet-stream", length: file.Size - offset, open: func() (io.ReadCloser, error) {
			content, err := file.Open()
			if err != nil {
				return nil, err
			}
			if _, err := io.CopyN(io.Discard, content, offset); err != nil {
				_ = content.Close()
				return nil, err
			}
			return readCloser{io.LimitReader(content, file.Size-offset), content}, nil
		}},
	}, into)
}

// uploaded asks how far the upload is.
func (c *Client) uploaded(ctx context.Context, token provider.Token, session string) (int64, error) {
	var stands handed
	err := c.call(ctx, request{operation: "upload_example", method: http.MethodGet, path: session, token: token}, &stands)
	return max(stands.Offset.value, 0), err
}
