// Package requestid carries the id of an API request in the context, from the edge to the
// rows that the request writes.
package requestid

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/ids"
)

type key struct{}

// With returns a context that carries the request's id.
func With(ctx context.Context, id ids.Any) context.Context { return context.WithValue(ctx, key{}, id) }

// From returns the id that ctx carries; it is zero outside of a request.
func From(ctx context.Context) ids.Any {
	id, _ := ctx.Value(key{}).(ids.Any)
	return id
}
