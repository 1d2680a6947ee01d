package contacts

import (
	"encoding/json"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a contact.
type Resource struct {
	ID          ID                `json:"id"`
	Object      string            `json:"object"`
	PhoneNumber *string           `json:"phone_number"`
	BSUID       *string           `json:"bsuid"`
	ParentBSUID *string           `json:"parent_bsuid"`
	Username    *string           `json:"username"`
	Name        *string           `json:"name"`
	Email       *string           `json:"email"`
	Metadata    json.RawMessage   `json:"metadata"`
	ChatAccount accounts.Embedded `json:"chat_account"`
	CreatedAt   clock.Stamp       `json:"created_at"`
	UpdatedAt   clock.Stamp       `json:"updated_at"`
	Marketing   MarketingResource `json:"marketing"`
	Labels      []labels.Summary  `json:"labels"`
}

// MarketingResource is the JSON of what a contact wants.
type MarketingResource struct {
	State     Marketing    `json:"state"`
	UpdatedAt *clock.Stamp `json:"updated_at"`
	Source    *string      `json:"source"`
}

// Resource prints the contact of an account.
func (c Contact) Resource(of accounts.Account) Resource {
	carried := c.Labels
	if carried == nil {
		carried = []labels.Summary{}
	}
	return Resource{
		ID:          c.ID,
		Object:      "contact",
		PhoneNumber: c.PhoneNumber,
		BSUID:       c.BSUID,
		ParentBSUID: c.ParentBSUID,
		Username:    c.Username,
		Name:        c.Name,
		Email:       c.Email,
		Metadata:    c.Metadata,
		ChatAccount: of.Embedded(),
		CreatedAt:   clock.Stamp(c.ID.CreatedAt()),
		UpdatedAt:   clock.Stamp(c.UpdatedAt),
		Marketing:   MarketingResource{State: c.Marketing, UpdatedAt: clock.StampOrNil(c.MarketingAt), Source: c.MarketingSource},
		Labels:      carried,
	}
}

// LabelResource is the JSON of a label that was attached or detached.
type LabelResource struct {
	ContactID ID        `json:"contact_id"`
	LabelID   labels.ID `json:"label_id"`
	Attached  bool      `json:"attached"`
}

// BulkResource is the JSON of what became of many. Attached or Detached is there, by the
// operation.
type BulkResource struct {
	Requested       int  `json:"requested"`
	Attached        *int `json:"attached,omitempty"`
	Detached        *int `json:"detached,omitempty"`
	Unchanged       int  `json:"unchanged"`
	SkippedCrossOrg int  `json:"skipped_cross_org"`
}

// Resource prints the counts.
func (o BulkOutcome) Resource() BulkResource {
	resource := BulkResource{Requested: o.Requested, Unchanged: o.Requested - o.Changed - o.Skipped, SkippedCrossOrg: o.Skipped}
	if o.Operation == Detach {
		resource.Detached = &o.Changed
	} else {
		resource.Attached = &o.Changed
	}
	return resource
}
