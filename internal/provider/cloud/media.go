package cloud

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/provider"
)

// slowest is the upload speed below which a file is given up.
const slowest = 128 << 10 // bytes a second

func (c *Client) timeoutOf(size int64) time.Duration {
	return c.config.Timeout + time.Duration(size/slowest)*time.Second
}

// named is an answer that is an id.
type named struct {
	ID text `json:"id"`
}

func (n *named) complete() bool { return n.ID != "" }

// UploadMedia posts a file as a form.
func (c *Client) UploadMedia(ctx context.Context, by provider.Number, file provider.File) (string, error) {
	const operation = "upload_media"
	if err := c.node(operation, by.ID, decimal); err != nil {
		return "", err
	}
	r := request{operation: operation, method: http.MethodPost, path: by.ID + "/media", token: by.Token, timeout: c.timeoutOf(file.Size)}
	if file.Open == nil || file.Size <= 0 {
		return "", c.impossible(r, "the file is empty")
	}
	r.stream = form(file)
	var uploaded named
	err := c.call(ctx, r, &uploaded)
	return string(uploaded.ID), err
}

// form is a multipart body whose length is known before the file is read.
func form(file provider.File) *stream {
	var frame bytes.Buffer
	writer := multipart.NewWriter(&frame)
	_ = writer.WriteField("messaging_product", product) // writing to a buffer cannot fail
	_ = writer.WriteField("type", file.MIMEType)
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", `form-data; name="file"; filename="`+quoted(file.Name)+`"`)
	header.Set("Content-Type", strings.Map(printable, file.MIMEType))
	_, _ = writer.CreatePart(header)
	head := bytes.Clone(frame.Bytes())
	_ = writer.Close()
	tail := bytes.Clone(frame.Bytes()[len(head):])
	return &stream{
		contentType: writer.FormDataContentType(),
		length:      int64(len(head)) + file.Size + int64(len(tail)),
		open: func() (io.ReadCloser, error) {
			content, err := file.Open()
			if err != nil {
				return nil, err
			}
			return readCloser{io.MultiReader(bytes.NewReader(head), io.LimitReader(content, file.Size), bytes.NewReader(tail)), content}, nil
		},
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}

func quoted(name string) string {
	name = strings.NewReplacer(`\`, "_", `"`, "_").Replace(strings.Map(printable, name))
	if name == "" {
		return "file"
	}
	return name
}

// FindMedia asks where a file is.
func (c *Client) FindMedia(ctx context.Context, by provider.Number, mediaID string) (provider.Media, error) {
	const operation = "find_media"
	if err := c.node(operation, mediaID, opaqueID); err != nil {
		return provider.Media{}, err
	}
	var found located
	if err := c.call(ctx, request{
		operation: operation, method: http.MethodGet, path: mediaID, token: by.Token, query: guard(by),
	}, &found); err != nil {
		return provider.Media{}, err
	}
	return provider.Media{
		ID: mediaID, URL: string(found.URL), MIMEType: string(found.MIMEType), SHA256: sum(found.SHA256), Size: max(found.Size.value, 0),
	}, nil
}

// guard makes the network refuse another number's file.
func guard(by provider.Number) url.Values {
	if !decimal.MatchString(by.ID) {
		return nil
	}
	return url.Values{"phone_number_id": {by.ID}}
}

type located struct {
	URL      text  `json:"url"`
	MIMEType text  `json:"mime_type"`
	SHA256   text  `json:"sha256"`
	Size     whole `json:"file_size"`
}

func (l *located) complete() bool { return l.URL != "" }

// DeleteMedia forgets a file.
func (c *Client) DeleteMedia(ctx context.Context, by provider.Number, mediaID string) error {
	const operation = "delete_media"
	if err := c.node(operation, mediaID, opaqueID); err != nil {
		return err
	}
	return c.call(ctx, request{operation: operation, method: http.MethodDelete, path: mediaID, token: by.Token, query: guard(by)}, new(done))
}
