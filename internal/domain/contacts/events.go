package contacts

import (
	"encoding/json"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// EventResource is a contact as events carry it.
type EventResource struct {
	ID            ID              `json:"id"`
	Object        string          `json:"object"`
	PhoneNumber   *string         `json:"phone_number"`
	Name          *string         `json:"name"`
	Email         *string         `json:"email"`
	Metadata      json.RawMessage `json:"metadata"`
	PhoneNumberID *string         `json:"phone_number_id"`
	CreatedAt     clock.Stamp     `json:"created_at"`
	UpdatedAt     clock.Stamp     `json:"updated_at"`
}

func (c Contact) eventResource(of accounts.Account) EventResource {
	return EventResource{
		ID: c.ID, Object: "contact", PhoneNumber: c.PhoneNumber, Name: c.Name, Email: c.Email, Metadata: c.Metadata,
		PhoneNumberID: of.PhoneNumberID, CreatedAt: clock.Stamp(c.ID.CreatedAt()), UpdatedAt: clock.Stamp(c.UpdatedAt),
	}
}

// IdentityResource is what a contact was known by, in contact.identity_updated.
type IdentityResource struct {
	PhoneNumber *string `json:"phone_number"`
	BSUID       *string `json:"bsuid"`
	ParentBSUID *string `json:"parent_bsuid"`
	Username    *string `json:"username"`
}

type createdData struct {
	Contact EventResource `json:"contact"`
}

type updatedData struct {
	Contact       EventResource `json:"contact"`
	ChangedFields changed       `json:"changed_fields"`
}

type identityUpdatedData struct {
	Contact       EventResource    `json:"contact"`
	Previous      IdentityResource `json:"previous"`
	ChangedFields []string         `json:"changed_fields"`
	Reason        string           `json:"reason"`
}

func eventDraft(of accounts.Account, what events.Type, contact Contact, data any) events.Draft {
	draft := events.Draft{Type: what, At: contact.UpdatedAt, Contact: contact.ID.Any(), Data: data}
	if of.PhoneNumberID != nil {
		draft.PhoneNumberID = *of.PhoneNumberID
	}
	return draft
}

func createdEvent(of accounts.Account, contact Contact) events.Draft {
	return eventDraft(of, events.ContactCreated, contact, createdData{Contact: contact.eventResource(of)})
}

func updatedEvent(of accounts.Account, contact Contact, fields changed) events.Draft {
	return eventDraft(of, events.ContactUpdated, contact, updatedData{Contact: contact.eventResource(of), ChangedFields: fields})
}

func identityUpdatedEvent(of accounts.Account, contact Contact, previous Identity, reason string) events.Draft {
	return eventDraft(of, events.ContactIdentityUpdated, contact, identityUpdatedData{
		Contact: contact.eventResource(of), Previous: IdentityResource(previous), Reason: reason,
		ChangedFields: differing(previous, contact.Identity),
	})
}

// differing names the fields of two identities that differ.
func differing(a, b Identity) []string {
	fields := []string{}
	for _, field := range []struct {
		name string
		a, b *string
	}{
		{"phone_number", a.PhoneNumber, b.PhoneNumber},
		{"bsuid", a.BSUID, b.BSUID},
		{"parent_bsuid", a.ParentBSUID, b.ParentBSUID},
		{"username", a.Username, b.Username},
	} {
		if !same(field.a, field.b) {
			fields = append(fields, field.name)
		}
	}
	return fields
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
