package webhooks

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/signature"
)

const (
	// How many endpoints a process posts to at once, and how much to one of them.
	couriers, slowCouriers  = 64, 32
	leastAtOnce, mostAtOnce = 8, 32
	postTimeout             = 10 * time.Second
	gather                  = 200 * time.Millisecond
	live, again             = 0, 1 // priorities: what just happened goes before what is replayed
	againPerSecond          = 500
)

// kind is the lanes of the subscriptions: one each, so that an endpoint that is dead or
// slow delays nobody else. A customer's events wait for the one that failed.
func (s *Service) kind() lanes.Kind {
	return lanes.Kind{
		Name: laneKind, Open: s.open, Restore: s.restoreTx, Priorities: again + 1, LaterPerSecond: againPerSecond, Retries: lanes.Hold,
		Least: leastAtOnce, Most: mostAtOnce, Timeout: postTimeout + 2*time.Second, Gather: gather,
		Workers: couriers, SlowWorkers: slowCouriers,
	}
}

// courier carries the deliveries of one subscription. The drain of its lane uses it.
type courier struct {
	s   *Service
	org orgs.ID
	id  SubscriptionID
	// subscription is as it was when it was last read; secrets are open. Deliveries are read
	// while others are settled.
	mu           sync.Mutex
	subscription Subscription
	// failures in a row, as they happen: the breaker must open before more attempts are made.
	failures atomic.Int64
}

// parcel is what a delivery needs: who gets it is known at the moment it is read, so that
// a secret that was revoked before signs nothing after.
type parcel struct {
	ID           DeliveryID
	AttemptCount int
	EventID      events.ID
	EventKey     string
	EventType    events.Type
	Body         []byte
	Version      int

	url     string
	secrets []Secret
}

// outcome is how an attempt ended.
type outcome struct {
	parcel     *parcel
	at         time.Time
	status     int
	snippet    string
	retryAfter string
	took       time.Duration
	code       string
}

func (o outcome) succeeded() bool { return o.code == "" }

// open begins the work on a subscription's lane. One that is gone has no work left.
func (s *Service) open(ctx context.Context, lane lanes.Lane) (lanes.Work, error) {
	c := &courier{s: s, org: lane.Org, id: ids.From[subscriptionKind](lane.ID)}
	err := c.meet(ctx)
	if errors.Is(err, postgres.ErrNoRow) {
		return lanes.Work{}, nil
	}
	return lanes.Work{Read: c.read, Do: c.carry, Settle: c.settle}, err
}

// meet reads the subscription and opens its secrets.
func (c *courier) meet(ctx context.Context) error {
	scope := c.s.work.Of(c.org)
	subscription, err := subscriptionByID(ctx, scope, c.id)
	if err != nil {
		return err
	}
	if subscription, err = c.s.withSecrets(ctx, scope, subscription); err != nil {
		return err
	}
	if subscription.Secrets, err = c.s.openSecrets(c.org, subscription.Secrets); err == nil {
		c.mu.Lock()
		c.subscription = subscription
		c.mu.Unlock()
		c.failures.Store(int64(subscription.ConsecutiveFailures))
	}
	return err
}

func (c *courier) known() Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subscription
}

// Each by its key: joined as sets, events would be read whole as soon as the statistics are old.
const sqlParcels = `
SELECT d.id, d.attempt_count, d.event_id, d.event_key, d.event_type, e.body, s.version
FROM unnest(@ids::uuid[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT d.id, d.attempt_count, d.event_id, d.event_key, d.event_type
    FROM webhook_deliveries d
    WHERE d.org_id = @org_id AND d.id = asked.id
    LIMIT 1
) d
CROSS JOIN LATERAL (
    SELECT e.body
    FROM events e
    WHERE e.org_id = @org_id AND e.id = d.event_id
    LIMIT 1
) e
JOIN webhook_subscriptions s ON s.org_id = @org_id AND s.id = @subscription_id`

// read finds the deliveries of rows that are about to start. What is not found is gone,
// with its subscription or with its time.
func (c *courier) read(ctx context.Context, rows []lanes.Row) error {
	asked, _, _ := lanes.Span(rows)
	parcels, err := postgres.Many[parcel](ctx, c.s.work.Of(c.org), sqlParcels, postgres.Args{"ids": asked, "subscription_id": c.id})
	if err != nil {
		return err
	}
	found := make(map[ids.Any]*parcel, len(parcels))
	for i := range parcels {
		known := c.known()
		if parcels[i].Version != known.Version {
			if err := c.meet(ctx); err != nil {
				return err
			}
			known = c.known()
		}
		parcels[i].url, parcels[i].secrets = known.URL, known.Secrets
		found[parcels[i].ID.Any()] = &parcels[i]
	}
	for i := range rows {
		if one, there := found[rows[i].ID]; there {
			rows[i].Value = one
		}
	}
	return nil
}

// carry makes one attempt.
func (c *courier) carry(ctx context.Context, row lanes.Row) lanes.Result {
	one, there := row.Value.(*parcel)
	if !there {
		return lanes.Result{}
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	now := c.s.clock.Now()
	answer, err := c.s.client.Post(ctx, one.url, one.header(now), one.Body)
	if errors.Is(err, context.Canceled) {
		return lanes.Result{RetryAt: now} // the courier was called off: no fault of the endpoint
	}
	made := outcome{
		parcel: one, at: now, status: answer.Status, snippet: answer.Snippet, retryAfter: answer.RetryAfter,
		took: answer.Took, code: errorCode(answer, err),
	}
	result := lanes.Result{Value: made}
	if made.succeeded() {
		c.failures.Store(0)
	} else {
		if at := next(one.ID.CreatedAt(), one.AttemptCount+1, made, c.s.clock.Now()); at != nil {
			result.RetryAt = *at
		}
		result.Overloaded = c.failures.Add(1) >= breakerAt || answer.Status == http.StatusTooManyRequests ||
			answer.Status >= http.StatusInternalServerError || made.code == safehttp.Timeout || made.code == safehttp.Connect
	}
	return result
}

func errorCode(answer safehttp.Answer, err error) string {
	failure, known := errors.AsType[*safehttp.Failure](err)
	switch {
	case known:
		return failure.Code
	case err != nil:
		return safehttp.Connect
	case answer.Status >= 200 && answer.Status < 300:
		return ""
	case answer.Status >= 300 && answer.Status < 400:
		return "redirect"
	default:
		return "status"
	}
}

// header is what a delivery says about itself: signed anew for each attempt, by every
// secret that is active now.
func (p *parcel) header(now time.Time) http.Header {
	var active []string
	for _, secret := range p.secrets {
		if secret.active(now) {
			active = append(active, secret.Plaintext)
		}
	}
	header := http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {"Parley-Webhooks/1.0"},
		"X-Svc-Source":      {p.EventType.Source()},
		"X-Svc-Event":       {string(p.EventType)},
		"X-Svc-Event-Id":    {p.EventKey},
		"X-Svc-Event-Uid":   {p.EventID.String()},
		"X-Svc-Delivery-Id": {p.ID.String()},
		"X-Svc-Attempt":     {strconv.Itoa(p.AttemptCount + 1)},
		signature.Header:    {signature.Sign(now, p.Body, active...)},
	}
	if strings.HasPrefix(string(p.EventType), "customer.") && len(active) > 0 {
		header[signature.Header256] = []string{signature.Sign256(p.Body, active[len(active)-1])}
	}
	return header
}
