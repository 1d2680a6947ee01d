package provider

import "time"

// TemplateRef names a template. Language is normalized to an underscore.
type TemplateRef struct {
	ID       string
	Name     string
	Language string
}

// TemplateStatus is a decision about a template.
type TemplateStatus struct {
	item

	Template TemplateRef
	// Status is the provider_status in which the template is now, Review what it means.
	Status string
	Review Review
	// Reason is why it was rejected, in the provider's words; empty when it gave none.
	Reason string
}

// TemplateQuality is a new quality score, as the provider prints it.
type TemplateQuality struct {
	item

	Template TemplateRef
	Score    string
}

// TemplateCategory is a template that was moved to another category, or will be.
type TemplateCategory struct {
	item

	Template TemplateRef
	Category string
	// Planned says that the move is announced and not made yet.
	Planned bool
}

// TemplateComponents is a template whose text was changed.
type TemplateComponents struct {
	item

	Template TemplateRef
}

// AccountChange is what an AccountUpdate means for sending.
type AccountChange string

// The changes.
const (
	AccountAdded        AccountChange = "added"        // a business went through the signup
	AccountConnected    AccountChange = "connected"    // again, after it was disconnected
	AccountDisconnected AccountChange = "disconnected" // we have no access any more
	AccountDisabled     AccountChange = "disabled"     // the provider disabled it
	AccountReinstated   AccountChange = "reinstated"   // it is not disabled any more
	AccountRestricted   AccountChange = "restricted"
	AccountWarned       AccountChange = "warned"
	AccountNoChange     AccountChange = "" // nothing that concerns sending
)

// AccountUpdate is about a business account as a whole, or about its number when the
// notification names one.
type AccountUpdate struct {
	item

	Change AccountChange
	// Reason is a status_reason: one lower-case word with underscores.
	Reason       string
	Restrictions []Restriction
}

// Restriction refuses messages of one kind until a time.
type Restriction struct {
	Scope     RestrictionScope
	ExpiresAt time.Time // zero: the provider named no end
}

// RestrictionScope is the kind of message that a restriction refuses.
type RestrictionScope string

// The scopes.
const (
	RestrictsInitiated RestrictionScope = "initiated" // templates: the business writes first
	RestrictsReplies   RestrictionScope = "replies"   // answers within the 24-hour window
	RestrictsUtility   RestrictionScope = "utility"   // utility templates
	RestrictsNothing   RestrictionScope = ""          // no message
)

// AccountAlert is a warning or good news for a person to read.
type AccountAlert struct {
	item

	Description string
}

// AccountReview is the decision about a business account, a lower-case word.
type AccountReview struct {
	item

	Decision string
}

// DailyLimit is how many conversations a business may begin in a day: -1 is no limit, 0 is not
// known.
type DailyLimit int

// Capability is how much a business may send.
type Capability struct {
	item

	DailyLimit DailyLimit
}

// NumberQuality is a number whose limit moved.
type NumberQuality struct {
	item

	DailyLimit DailyLimit
}

// NumberName is the decision about a display name.
type NumberName struct {
	item

	Approved bool
	Name     string
}

// NumberSecurity says that a number's two-step verification was changed.
type NumberSecurity struct{ item }

// NumberUsername is a business's own username; empty when it has none any more.
type NumberUsername struct {
	item

	Username string
}
