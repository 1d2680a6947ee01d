package timeline

import "github.com/parley-chat/parley/internal/platform/clock"

// Resource is the JSON of an entry.
type Resource struct {
	Object string      `json:"object"`
	ID     string      `json:"id"`
	At     clock.Stamp `json:"at"`
	Kind   Kind        `json:"kind"`
	Detail Detail      `json:"detail"`
}

// Resource prints the entry.
func (e Entry) Resource() Resource {
	return Resource{Object: "timeline_entry", ID: e.ID, At: clock.Stamp(e.At), Kind: e.Kind, Detail: e.Detail}
}
