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

// Template is a template as the provider has it. Status, Category and Quality are the
// provider's raw values.
type Template struct {
	ID              string
	Name            string
	Language        string // with an underscore, as in en_US
	Status          string
	Category        string
	ParameterFormat string // POSITIONAL, NAMED or empty
	Components      json.RawMessage
	Quality         string
	RejectedReason  string
	// CorrectCategory is where the provider will move the template.
	CorrectCategory string
	Raw             json.RawMessage
}

// Review is the specification's state of a template's raw status.
func (t Template) Review() string { return ReviewOf(t.Status) }

// The specification's three states of a template.
const (
	ReviewPending  = "pending"
	ReviewApproved = "approved"
	ReviewRejected = "rejected"
)

// ReviewOf folds a raw status, or the event of a TemplateStatus, into the specification's
// three states. What cannot be sent and is not under review counts as rejected.
func ReviewOf(status string) string {
	switch status {
	case "APPROVED", "REINSTATED", "UNARCHIVED", "FLAGGED", "LOCKED", "UNLOCKED":
		return ReviewApproved
	case "PENDING", "IN_APPEAL":
		return ReviewPending
	default:
		return ReviewRejected
	}
}

// TemplateDraft is a new template.
type TemplateDraft struct {
	Name            string
	Language        string
	Category        string
	ParameterFormat string // optional
	Components      json.RawMessage
}

// TemplateCreated is what became of a draft; the category may not be the one asked for.
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
