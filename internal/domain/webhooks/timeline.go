package webhooks

import (
	"context"
	"net/url"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
)

// Trail is the deliveries of some events, and what became of them.
type Trail struct {
	// Deliveries and Attempts are oldest first. A delivery that succeeded at the first attempt has no Attempts:
	// the delivery has all that is known of it.
	Deliveries []Delivery
	Attempts   []DeliveryAttempt
	Endpoints  map[SubscriptionID]Endpoint
	// Cut says that there are more deliveries or attempts, which are not read.
	Cut bool
}

// DeliveryAttempt is an attempt with its delivery.
type DeliveryAttempt struct {
	DeliveryID DeliveryID
	Attempt
}

// Endpoint is where a subscription sends to, and whether it does. A subscription that was deleted has none.
type Endpoint struct {
	// Host is the host of the URL. The rest of the URL may have a secret in it.
	Host         string
	Status       Status
	BreakerUntil *time.Time
}

const (
	// trailDeliveries is how many deliveries a trail has at most: 50 subscriptions and ten events.
	trailDeliveries = 500
	// trailAttempts is how many attempts it has at most.
	trailAttempts = 1000
)

// Trail returns the deliveries of events with the given keys since a time.
func (s *Service) Trail(ctx context.Context, org orgs.ID, keys []string, since time.Time) (Trail, error) {
	scope := s.db.SteadyOf(org)
	deliveries, err := deliveriesOfKeys(ctx, scope, keys, since, trailDeliveries+1)
	if err != nil || len(deliveries) == 0 {
		return Trail{}, err
	}
	trail := Trail{Deliveries: deliveries, Endpoints: map[SubscriptionID]Endpoint{}}
	if len(deliveries) > trailDeliveries {
		trail.Deliveries, trail.Cut = deliveries[:trailDeliveries], true
	}
	attempts, endpoints, err := attemptsAndEndpoints(ctx, scope, trail.Deliveries, since, trailAttempts+1)
	if err != nil {
		return Trail{}, err
	}
	if trail.Attempts = attempts; len(attempts) > trailAttempts {
		trail.Attempts, trail.Cut = attempts[:trailAttempts], true
	}
	for _, one := range endpoints {
		parsed, err := url.Parse(one.URL)
		if err != nil {
			return Trail{}, err // it was checked when it was stored
		}
		trail.Endpoints[one.ID] = Endpoint{Host: parsed.Host, Status: one.Status, BreakerUntil: one.BreakerUntil}
	}
	return trail, nil
}
