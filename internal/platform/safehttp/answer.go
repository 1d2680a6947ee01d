package safehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxHeaderBytes    = 64 << 10
	maxReadBytes      = 64 << 10
	maxAnnouncedBytes = 1 << 20
	maxSnippetBytes   = 1 << 10
	maxRetryAfter     = 64
)

// Answer is the response of an endpoint.
type Answer struct {
	Status     int
	Snippet    string        // at most 1 KiB of the body's start: UTF-8 without NUL
	RetryAfter string        // the header as it came, or nothing if absurdly long
	Took       time.Duration // also of a Post that failed
}

var buffers = sync.Pool{New: func() any { return new([2 * maxSnippetBytes]byte) }}

func read(ctx context.Context, response *http.Response) (Answer, error) {
	if response.ContentLength > maxAnnouncedBytes {
		return Answer{}, &Failure{Code: ResponseTooLarge}
	}
	answer := Answer{Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After")}
	if len(answer.RetryAfter) > maxRetryAfter {
		answer.RetryAfter = ""
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return answer, nil // the body of a 101 has no end and no deadline
	}
	buffer := buffers.Get().(*[2 * maxSnippetBytes]byte) //nolint:forcetypeassert // nothing else is put there
	defer buffers.Put(buffer)
	n, err := io.ReadFull(response.Body, buffer[:])
	if err == nil {
		// Read to the end if it is near, so that the connection can be reused.
		_, err = io.CopyN(io.Discard, response.Body, maxReadBytes-int64(n))
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() != nil {
		return Answer{}, ctx.Err()
	}
	answer.Snippet = clean(buffer[:n])
	return answer, nil
}

// clean turns any bytes into a text that PostgreSQL and JSON can store.
func clean(raw []byte) string {
	text := strings.ToValidUTF8(string(raw), "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) <= maxSnippetBytes {
		return text
	}
	end := maxSnippetBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
