package webhooks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
)

// DeliveryID names a delivery.
type DeliveryID = ids.Public[deliveryKind]

type deliveryKind struct{}

func (deliveryKind) Prefix() string { return "wbd_" }

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

const (
	// Pending deliveries were not tried yet, or are being tried for the first time.
	Pending DeliveryStatus = "pending"
	// Failed deliveries were tried and wait for their retry.
	Failed DeliveryStatus = "failed"
	// Succeeded deliveries were answered with 2xx.
	Succeeded DeliveryStatus = "succeeded"
	// Dead deliveries are not tried any more; they can be replayed.
	Dead DeliveryStatus = "dead"
)

// codeInternal is the error code of a delivery that failed for a fault of the service.
const codeInternal = "internal"

// codeDiscarded is the error code of a delivery that waited when its subscription was resumed without its backlog.
const codeDiscarded = "discarded"

// Delivery is one event for one subscription.
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

// answered is how an attempt ended, in the database and in JSON.
type answered struct {
	ResponseStatus      *int    `json:"response_status"`
	ResponseBodySnippet *string `json:"response_body_snippet"`
	DurationMs          *int    `json:"duration_ms"`
	ErrorCode           *string `json:"error_code,omitempty"`
}

// Attempt is one attempt of a delivery.
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

// Filter narrows a list of deliveries. A nil field does not narrow it.
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

// Replayed counts the deliveries that a bulk replay found and will send again.
type Replayed struct {
	Matched  int `json:"matched"`
	Replayed int `json:"replayed"`
}

// Resource prints the counts.
func (r Replayed) Resource() Replayed { return r }

// deliveryStatus is the state of the delivery after the attempt.
func (o outcome) deliveryStatus() DeliveryStatus {
	switch {
	case o.succeeded():
		return Succeeded
	case o.retryAt == nil:
		return Dead
	default:
		return Failed
	}
}

// kept is how long deliveries are listed.
const kept = events.Kept

// Deliveries returns a page of deliveries, newest first.
func (s *Service) Deliveries(
	ctx context.Context, org orgs.ID, filter Filter, slice paging.Slice[DeliveryID],
) (paging.Page[Delivery, DeliveryID], error) {
	return listDeliveries(ctx, s.db.Of(org), filter, slice, s.clock.Now())
}

// Delivery returns one delivery with its payload and its attempts.
func (s *Service) Delivery(ctx context.Context, org orgs.ID, id DeliveryID) (Detail, error) {
	scope := s.db.Of(org)
	delivery, err := deliveryByID(ctx, scope, id)
	if err != nil {
		return Detail{}, err
	}
	detail := Detail{Delivery: delivery}
	if detail.Body, err = bodyOf(ctx, scope, delivery); err != nil {
		return Detail{}, err
	}
	detail.Attempts, err = attemptsOf(ctx, scope, id)
	if err == nil && len(detail.Attempts) == 0 && delivery.LastAttemptAt != nil {
		// The first attempt succeeded: it stands in the delivery only.
		only := Attempt{ID: ids.New[attemptKind](*delivery.LastAttemptAt), Attempt: delivery.AttemptCount, answered: delivery.answered}
		detail.Attempts = []Attempt{only}
	}
	return detail, err
}

// PurgeNumber deletes the events of a disconnected number, with their deliveries. If the
// organization has connected the number again, the events since then stay.
func (s *Service) PurgeNumber(ctx context.Context, org orgs.ID, account accounts.Account, from ids.Any) error {
	if account.PhoneNumberID == nil {
		return nil
	}
	before := ids.Ceiling[deliveryKind]()
	again, err := s.accounts.Find(ctx, org, *account.PhoneNumberID)
	switch {
	case err == nil:
		before = ids.Floor[deliveryKind](again.ID.CreatedAt().Add(-time.Millisecond))
	case fault.Of(err) != fault.ResourceNotFound:
		return err
	}
	return purgeNumber(ctx, s.work, org, *account.PhoneNumberID, before, from)
}
