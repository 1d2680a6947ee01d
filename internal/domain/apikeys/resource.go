package apikeys

import "github.com/parley-chat/parley/internal/platform/clock"

// Resource is the JSON of a key; the key itself is never part of it.
type Resource struct {
	Object    string       `json:"object"`
	ID        ID           `json:"id"`
	Name      string       `json:"name"`
	Last4     string       `json:"last4"`
	CreatedAt clock.Stamp  `json:"created_at"`
	ExpiresAt *clock.Stamp `json:"expires_at"`
}

// Resource prints the key.
func (k Key) Resource() Resource {
	return Resource{
		Object:    "api_key",
		ID:        k.ID,
		Name:      k.Name,
		Last4:     k.Last4,
		CreatedAt: clock.Stamp(k.ID.CreatedAt()),
		ExpiresAt: clock.StampOrNil(k.ExpiresAt),
	}
}
