package provider

import "encoding/json"

// TemplateQuery narrows a list; empty fields narrow nothing.
type TemplateQuery struct {
	Name  string
	After string
	Limit int // the provider's own default when 0
}

// TemplatePage is a part of a list.
type TemplatePage struct {
	Templates []Template
	Next      string // empty at the end
}

// Template is a template as the provider has it. Status, Category and Quality are printed by the
// public API as the provider spells them.
type Template struct {
	ID              string
	Name            string
	Language        string // with an underscore, as in en_US
	Status          string
	Review          Review
	Category        string
	ParameterFormat string // POSITIONAL, NAMED or empty
	Components      json.RawMessage
	Quality         string
	RejectedReason  string
	// CorrectCategory is where the provider will move the template.
	CorrectCategory string
	Raw             json.RawMessage
}

// Review is the specification's state of a template.
type Review string

// The three states.
const (
	ReviewPending  Review = "pending"
	ReviewApproved Review = "approved"
	ReviewRejected Review = "rejected"
)

// TemplateStatusPending is the provider's status of a template under review.
const TemplateStatusPending = "PENDING"

// The provider's statuses of a template that it refuses to send with a code of its own.
const (
	TemplateStatusPaused   = "PAUSED"
	TemplateStatusDisabled = "DISABLED"
)

// TemplateDraft is a new template.
type TemplateDraft struct {
	Name            string
	Language        string
	Category        string
	ParameterFormat string // optional
	Components      json.RawMessage
}

// TemplateCreated is the new template; the provider may have changed its category.
type TemplateCreated struct {
	ID       string
	Status   string
	Category string
}

// TemplateEdit changes a template; empty fields stay as they are.
type TemplateEdit struct {
	Category   string
	Components json.RawMessage
}
