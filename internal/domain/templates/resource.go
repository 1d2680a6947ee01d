package templates

import (
	"encoding/json"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/clock"
)

// Resource is the JSON of a template.
type Resource struct {
	ID                 ID                `json:"id"`
	Object             string            `json:"object"`
	Name               string            `json:"name"`
	Language           string            `json:"language"`
	Status             Status            `json:"status"`
	Category           *string           `json:"category"`
	Content            string            `json:"content"`
	Variables          []string          `json:"variables"`
	Components         json.RawMessage   `json:"components"`
	ChatAccount        accounts.Embedded `json:"chat_account"`
	ProviderTemplateID *string           `json:"provider_template_id"`
	CreatedAt          clock.Stamp       `json:"created_at"`
	UpdatedAt          clock.Stamp       `json:"updated_at"`
	ProviderStatus     *string           `json:"provider_status"`
	RejectionReason    *string           `json:"rejection_reason"`
	Quality            *string           `json:"quality"`
}

// Resource prints the template of an account.
func (t Template) Resource(of accounts.Account) Resource {
	return Resource{
		ID:                 t.ID,
		Object:             "template",
		Name:               t.Name,
		Language:           t.Language,
		Status:             t.Status,
		Category:           t.Category,
		Content:            t.Content,
		Variables:          t.Variables,
		Components:         t.Components,
		ChatAccount:        of.Embedded(),
		ProviderTemplateID: t.ProviderTemplateID,
		CreatedAt:          clock.Stamp(t.ID.CreatedAt()),
		UpdatedAt:          clock.Stamp(t.UpdatedAt),
		ProviderStatus:     t.ProviderStatus,
		RejectionReason:    t.RejectionReason,
		Quality:            t.Quality,
	}
}
