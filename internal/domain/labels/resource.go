package labels

import (
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a label.
type Resource struct {
	ID        ID          `json:"id"`
	Object    string      `json:"object"`
	Name      string      `json:"name"`
	Color     string      `json:"color"`
	TeamID    orgs.TeamID `json:"team_id"`
	CreatedAt clock.Stamp `json:"created_at"`
	UpdatedAt clock.Stamp `json:"updated_at"`
}

// Resource is the label as JSON.
func (l Label) Resource() Resource {
	return Resource{
		ID:        l.ID,
		Object:    "label",
		Name:      l.Name,
		Color:     l.Color,
		TeamID:    l.TeamID,
		CreatedAt: clock.Stamp(l.ID.CreatedAt()),
		UpdatedAt: clock.Stamp(l.UpdatedAt),
	}
}

// Summary is a label inside of the contact or conversation that carries it.
type Summary struct {
	ID    ID     `json:"id"`
	Name  string `json:"name"`
	Color string `json:"color"`
}
