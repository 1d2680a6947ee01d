package customers

import (
	"encoding/json"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a customer, in answers and in events. The numbers that the
// fetch of one customer adds are not known here.
type Resource struct {
	ID         ID              `json:"id"`
	Object     string          `json:"object"`
	Name       string          `json:"name"`
	Email      *string         `json:"email"`
	Status     Status          `json:"status"`
	Metadata   json.RawMessage `json:"metadata"`
	ArchivedAt *clock.Stamp    `json:"archived_at"`
	TeamID     orgs.TeamID     `json:"team_id"`
	CreatedAt  clock.Stamp     `json:"created_at"`
	UpdatedAt  clock.Stamp     `json:"updated_at"`
}

// Resource prints the customer.
func (c Customer) Resource() Resource {
	return Resource{
		ID:         c.ID,
		Object:     "customer",
		Name:       c.Name,
		Email:      c.Email,
		Status:     c.Status,
		Metadata:   c.Metadata,
		ArchivedAt: clock.StampOrNil(c.ArchivedAt),
		TeamID:     c.TeamID,
		CreatedAt:  clock.Stamp(c.ID.CreatedAt()),
		UpdatedAt:  clock.Stamp(c.UpdatedAt),
	}
}
