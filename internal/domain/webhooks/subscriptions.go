// Package webhooks pushes events to the endpoints of an organization: subscriptions and
// their secrets, and the sending, retrying and replaying of deliveries. Package events writes
// the deliveries, in the transaction that records the event.
package webhooks

import (
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/patch"
)

// SubscriptionID names a subscription. It is also the id of its lane.
type SubscriptionID = ids.Public[subscriptionKind]

type subscriptionKind struct{}

func (subscriptionKind) Prefix() string { return "wbs_" }

// Status says whether events are sent to a subscription.
type Status string

const (
	// Active subscriptions are sent to.
	Active Status = "active"
	// Paused subscriptions keep their deliveries until they are resumed.
	Paused Status = "paused"
	// Disabled is like Paused, but set by the service because the endpoint failed.
	Disabled Status = "disabled"
)

// Reasons for which the service disables a subscription.
const (
	ReasonGone     = "endpoint_gone"
	ReasonFailures = "consecutive_failures"
)

const (
	maxSubscriptions = 50
	maxSecrets       = 5
)

// Subscription is an endpoint and the types of events that it gets.
type Subscription struct {
	ID             SubscriptionID
	URL            string
	Description    *string
	Events         []events.Type
	PhoneNumberIDs []string
	Status         Status
	DisabledReason *string
	BacklogFrom    DeliveryID
	Version        int
	UpdatedAt      time.Time
	health

	Secrets []Secret `db:"-"`
	// InitialSecret is the plaintext of the first secret; set only by Create.
	InitialSecret string `db:"-"`
}

// Draft creates a subscription.
type Draft struct {
	URL            string        `json:"url"`
	Events         []events.Type `json:"events"`
	Description    *string       `json:"description"`
	PhoneNumberIDs []string      `json:"phone_number_ids"`
}

// Patch changes a subscription, pauses it or resumes it.
type Patch struct {
	URL            patch.Field[string]        `json:"url"`
	Events         patch.Field[[]events.Type] `json:"events"`
	Description    patch.Field[string]        `json:"description"`
	PhoneNumberIDs patch.Field[[]string]      `json:"phone_number_ids"`
	Status         patch.Field[Status]        `json:"status"`
	Backlog        patch.Field[Backlog]       `json:"backlog"`
}

// Backlog says what happens to the deliveries that waited while a subscription was not active.
type Backlog string

// Deliver is the default.
const (
	Deliver Backlog = "deliver"
	Discard Backlog = "discard"
)

// resumes reports whether the patch makes the subscription active.
func (p Patch) resumes() bool { return p.Status.Set && p.Status.Value == Active }

// apply changes the subscription and reports whether anything changed.
func (s *Subscription) apply(p Patch) (changed bool) {
	if p.URL.Set && p.URL.Value != s.URL {
		s.URL, changed = p.URL.Value, true
		s.health = health{} // the new endpoint has not failed yet
	}
	if p.Events.Set {
		if wanted := distinct(p.Events.Value); !slices.Equal(wanted, s.Events) {
			s.Events, changed = wanted, true
		}
	}
	if p.Description.Set {
		given := &p.Description.Value
		if p.Description.Null {
			given = nil
		}
		if (given == nil) != (s.Description == nil) || given != nil && *given != *s.Description {
			s.Description, changed = given, true
		}
	}
	if p.PhoneNumberIDs.Set {
		if wanted := distinct(p.PhoneNumberIDs.Value); !slices.Equal(wanted, s.PhoneNumberIDs) {
			s.PhoneNumberIDs, changed = wanted, true
		}
	}
	if p.Status.Set && p.Status.Value != s.Status {
		s.Status, s.DisabledReason, changed = p.Status.Value, nil, true
		if s.Status == Active {
			s.health = health{}
		}
	}
	return changed
}

// distinct keeps the first of equal values. An empty slice gives nil.
func distinct[T comparable](values []T) (kept []T) {
	for _, value := range values {
		if !slices.Contains(kept, value) {
			kept = append(kept, value)
		}
	}
	return kept
}
