package provider

import (
	"encoding/json"
	"time"
)

// TemplateRef names a template. Language is normalized to an underscore.
type TemplateRef struct {
	ID       string
	Name     string
	Language string
}

// TemplateStatus is a decision about a template. Event is the provider's raw value; ReviewOf
// folds it.
type TemplateStatus struct {
	item

	Template TemplateRef
	Event    string
	Category string
	// Reason is empty when the provider gave none.
	Reason string
	// Title and Description explain a pause, Recommendation a rejection.
	Title          string
	Description    string
	Recommendation string
	DisabledAt     time.Time
}

// TemplateQuality is a new score: GREEN, YELLOW, RED or UNKNOWN.
type TemplateQuality struct {
	item

	Template TemplateRef
	Previous string
	Score    string
}

// TemplateCategory is a move to another category: one that will come while Planned is set,
// else one that was made.
type TemplateCategory struct {
	item

	Template TemplateRef
	Previous string
	Category string
	Planned  string
	At       time.Time // of a planned one
}

// TemplateComponents is a template whose text was changed.
type TemplateComponents struct {
	item

	Template TemplateRef
	Body     string
	Title    string
	Footer   string
	Buttons  json.RawMessage
}

// AccountChange is what an AccountUpdate means for sending.
type AccountChange string

// The changes; other events have none.
const (
	AccountAdded        AccountChange = "added"     // a business went through the signup
	AccountConnected    AccountChange = "connected" // again, after a disconnection
	AccountDisconnected AccountChange = "disconnected"
	AccountRestricted   AccountChange = "restricted"
	AccountReinstated   AccountChange = "reinstated"
	AccountWarned       AccountChange = "warned"
	AccountNoChange     AccountChange = ""
)

// AccountUpdate is about a business account as a whole, or about its number when the
// notification names one.
type AccountUpdate struct {
	item

	Change AccountChange
	// Event is the provider's raw value, Reason its best explanation.
	Event        string
	Reason       string
	InitiatedBy  string // USER or SYSTEM, of a disconnection
	Violation    string
	BanState     string
	BanDate      string
	Restrictions []Restriction
	Country      string
}

// Restriction is something that an account may not do.
type Restriction struct {
	// Type is the provider's raw value.
	Type string
	// Covers says what is refused by it.
	Covers    RestrictionScope
	ExpiresAt time.Time // zero: not said
}

// RestrictionScope is the kind of message that a restriction refuses.
type RestrictionScope string

// The scopes.
const (
	RestrictsInitiated RestrictionScope = "initiated" // templates: the business speaks first
	RestrictsReplies   RestrictionScope = "replies"   // answers inside of the 24-hour window
	RestrictsUtility   RestrictionScope = "utility"   // utility templates
	RestrictsNothing   RestrictionScope = ""          // no message
)

// AccountAlert is a warning or good news.
type AccountAlert struct {
	item

	EntityType  string
	EntityID    string
	Severity    string
	Status      string
	Type        string
	Description string
}

// AccountReview is the decision about a business account.
type AccountReview struct {
	item

	Decision string
}

// Capability is how much a business may send.
type Capability struct {
	item

	// DailyConversations is -1 without a limit and 0 when not said.
	DailyConversations int
	NumbersPerBusiness int
	NumbersPerAccount  int
}

// NumberQuality is a number whose throughput or tier moved.
type NumberQuality struct {
	item

	Event string
	Limit string
}

// NumberName is the decision about a display name.
type NumberName struct {
	item

	Decision string
	Name     string
	Reason   string
}

// NumberSecurity is about a number's two-step verification.
type NumberSecurity struct {
	item

	Event     string
	Requester string
}

// NumberUsername is a business's own username.
type NumberUsername struct {
	item

	Username string
	Status   string
}
