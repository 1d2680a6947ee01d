package safehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// Fetched is a file that is being read. The caller closes Body.
type Fetched struct {
	Body io.ReadCloser
	// Size is the Content-Length. Body returns io.ErrUnexpectedEOF if fewer bytes arrive; further ones are not read.
	Size int64
}

// NoLength is the code of a Failure for an answer without Content-Length, and Status for one that is not 200.
const (
	NoLength = "no_length"
	Status   = "status"
)

// Fetch opens the file at a URL of a tenant, with the same guard as Post. It follows no redirects. A file of unknown size, or of
// more than most bytes, is refused before it is read. ctx bounds the whole reading.
func (c *Client) Fetch(ctx context.Context, target string, most int64) (Fetched, error) {
	u, err := c.parse(target)
	if err != nil {
		return Fetched{}, &Failure{Code: BlockedAddress}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "", http.NoBody)
	if err != nil {
		return Fetched{}, err
	}
	request.URL = u
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return Fetched{}, ctx.Err()
		}
		return Fetched{}, failureOf(err)
	}
	code := ""
	switch {
	case response.StatusCode != http.StatusOK:
		code = Status
	case response.ContentLength < 0:
		code = NoLength
	case response.ContentLength > most:
		code = ResponseTooLarge
	}
	if code != "" {
		_ = response.Body.Close()
		return Fetched{}, &Failure{Code: code}
	}
	return Fetched{Body: response.Body, Size: response.ContentLength}, nil
}
