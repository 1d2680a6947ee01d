package webhooks

import (
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// DeliveryID names a delivery.
type DeliveryID = ids.Public[deliveryKind]

type deliveryKind struct{}

func (deliveryKind) Prefix() string { return "wbd_" }

// DeliveryStatus is how far a delivery came.
type DeliveryStatus string

// The states: not yet tried, tried and waiting, arrived, given up.
const (
	Pending   DeliveryStatus = "pending"
	Failed    DeliveryStatus = "failed"
	Succeeded DeliveryStatus = "succeeded"
	Dead      DeliveryStatus = "dead"
)

// Delivery is one event on its way to one subscription.
type Delivery struct {
	ID             DeliveryID
	SubscriptionID SubscriptionID
	EventID        events.ID
	EventKey       string
	EventType      events.Type
	SubjectID      ids.Any
	Status         DeliveryStatus
	AttemptCount   int
	LastAttemptAt  *time.Time
	NextAttemptAt  *time.Time
	answered
	ReplayedFrom *DeliveryID
}

// answered is what an attempt ended with.
type answered struct {
	ResponseStatus      *int
	ResponseBodySnippet *string
	DurationMs          *int
	ErrorCode           *string
}

// Attempt is one try of a delivery.
type Attempt struct {
	ID      ids.Public[attemptKind]
	Attempt int
	answered
}

type attemptKind struct{}

func (attemptKind) Prefix() string { return "" }

// Detail is a delivery with the bytes that are posted and every attempt.
type Detail struct {
	Delivery

	Body     []byte
	Attempts []Attempt
}

// Filter narrows a list of deliveries; what is nil does not.
type Filter struct {
	SubscriptionID *SubscriptionID
	Status         *DeliveryStatus
	EventType      *events.Type
	EventKey       *string
	CreatedAfter   *time.Time
	CreatedBefore  *time.Time
}

// ReplayDraft replays dead deliveries in bulk.
type ReplayDraft struct {
	SubscriptionID *SubscriptionID `json:"subscription_id"`
	EventType      *events.Type    `json:"event_type"`
	CreatedAfter   *time.Time      `json:"created_after"`
	CreatedBefore  *time.Time      `json:"created_before"`
	DryRun         bool            `json:"dry_run"`
}

// Replayed tells how many deliveries a bulk replay found and sends again.
type Replayed struct {
	Matched  int
	Replayed int
}
