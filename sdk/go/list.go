package parley

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
)

// List is a list of the API with items of type T in pages of type P.
type List[T, P any] struct {
	client *Client
	path   []string
	query  url.Values
}

// All yields all items; pages are fetched as they are needed. It ends with the first error.
func (l *List[T, P]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(l.query)
		for {
			var page struct {
				Data       []T     `json:"data"`
				HasMore    bool    `json:"has_more"`
				NextCursor *string `json:"next_cursor"`
			}
			err := l.client.Request(ctx, http.MethodGet, l.path, query, nil, &page)
			for _, item := range page.Data {
				if !yield(item, nil) {
					return
				}
			}
			if err == nil && !page.HasMore {
				return
			}
			if err == nil && (page.NextCursor == nil || *page.NextCursor == "" || *page.NextCursor == query.Get("cursor")) {
				err = &APIError{
					Status: http.StatusOK, Type: ErrorTypeAPIError, Message: "has_more is true, but next_cursor leads nowhere.",
				}
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			query.Set("cursor", *page.NextCursor)
		}
	}
}

// Page fetches the page at Cursor, or the first one.
func (l *List[T, P]) Page(ctx context.Context) (*P, error) {
	return request[P](ctx, l.client, http.MethodGet, l.path, l.query, nil, nil)
}
