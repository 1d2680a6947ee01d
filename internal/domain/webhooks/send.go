package webhooks

import (
	"context"
	"errors"
	"net/http"
	"slices"
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

// sender sends the deliveries of one subscription while its lane is drained.
type sender struct {
	s   *Service
	org orgs.ID
	id  SubscriptionID
	// subscription is as last read, with its secrets opened. mu guards it, because deliveries
	// are read while others are settled.
	mu           sync.Mutex
	subscription Subscription
	// failures counts failed calls in a row before they are settled, so that fewer calls are
	// made at once as soon as the endpoint fails.
	failures atomic.Int64
}

// outgoing is a delivery that is about to be sent, with the URL and the secrets that were valid when
// it was read: a secret that was revoked before that moment signs nothing.
type outgoing struct {
	ID           DeliveryID
	AttemptCount int
	EventID      events.ID
	EventKey     string
	EventType    events.Type
	Body         []byte
	// Version is that of the subscription; nil if the subscription is gone.
	Version *int

	url     string
	secrets []Secret
}

// outcome is how an attempt ended.
type outcome struct {
	delivery   *outgoing
	at         time.Time
	status     int
	snippet    string
	retryAfter string
	took       time.Duration
	// code is the error code; empty after success.
	code string
	// retryAt is when to try again; nil after success and when the delivery is given up.
	retryAt *time.Time
}

func (o outcome) succeeded() bool { return o.code == "" }

// load reads the subscription and opens its secrets.
func (w *sender) load(ctx context.Context) error {
	scope := w.s.work.Of(w.org)
	subscription, err := subscriptionByID(ctx, scope, w.id)
	if err != nil {
		return err
	}
	if subscription, err = w.s.withSecrets(ctx, scope, subscription); err != nil {
		return err
	}
	if subscription.Secrets, err = w.s.openSecrets(w.org, subscription.Secrets); err != nil {
		return err
	}
	w.mu.Lock()
	w.subscription = subscription
	w.mu.Unlock()
	w.failures.Store(int64(subscription.ConsecutiveFailures))
	return nil
}

func (w *sender) known() Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.subscription
}

// read finds deliveries that are about to be sent, by id. Those that are not found are gone:
// their subscription was deleted, or they have expired. Those of a discarded backlog are not sent.
func (w *sender) read(ctx context.Context, tasks []*lanes.Task[*outgoing, outcome]) error {
	rows, err := outgoingDeliveries(ctx, w.s.work.Of(w.org), w.id, lanes.RowIDs(tasks))
	if err != nil {
		return err
	}
	found := make(map[ids.Any]*outgoing, len(rows))
	if len(rows) > 0 && rows[0].Version != nil {
		if w.known().Version != *rows[0].Version {
			if err := w.load(ctx); err != nil {
				return err
			}
		}
		known := w.known()
		for i := range rows {
			if rows[i].ID.Any().Compare(known.BacklogFrom.Any()) < 0 {
				continue
			}
			rows[i].url, rows[i].secrets = known.URL, known.Secrets
			found[rows[i].ID.Any()] = &rows[i]
		}
	}
	for _, task := range tasks {
		if task.Value = found[task.Row.ID]; task.Value == nil {
			task.Answer(lanes.Answer[outcome]{})
		}
	}
	return nil
}

// call makes one attempt.
func (w *sender) call(ctx context.Context, _ lanes.Row, one *outgoing) lanes.Answer[outcome] {
	leave, ok := w.s.hosts.enter(ctx, w.org, one.url)
	if !ok {
		return lanes.Answer[outcome]{RetryAt: w.s.clock.Now().Add(hostAgain)} // no attempt was made
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	began := w.s.clock.Now()
	answer, err := w.s.client.Post(ctx, one.url, one.header(began), one.Body)
	made := outcome{
		delivery: one, at: began, status: answer.Status, snippet: answer.Snippet, retryAfter: answer.RetryAfter,
		took: answer.Took, code: errorCode(answer, err),
	}
	if made.succeeded() {
		w.failures.Store(0)
		return lanes.Answer[outcome]{Value: made}
	}
	made.retryAt = next(one.ID.CreatedAt(), one.AttemptCount+1, made, w.s.clock.Now())
	result := lanes.Answer[outcome]{Value: made}
	if made.retryAt != nil {
		result.RetryAt = *made.retryAt
	}
	// The endpoint should get fewer calls at once.
	result.Overloaded = w.failures.Add(1) >= breakerAt || answer.Status == http.StatusTooManyRequests ||
		answer.Status >= http.StatusInternalServerError || made.code == safehttp.Timeout || made.code == safehttp.Connect
	return result
}

// settle writes how attempts ended, in the order in which they ended, and updates the health of
// the subscription. An attempt whose end is unknown is not recorded: lanes try the delivery again, or
// set it aside after three faults.
func (w *sender) settle(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch[*outgoing, outcome]) error {
	var made []outcome
	for _, result := range batch.Results {
		if result.Outcome == lanes.Returned && result.Value.delivery != nil {
			made = append(made, result.Value)
		}
	}
	if len(made) == 0 {
		return nil
	}
	blocked, err := w.updateHealthTx(ctx, tx, made) // locks the subscription, which comes before its deliveries
	if err != nil {
		return err
	}
	if !blocked.IsZero() {
		batch.Block(blocked)
	}
	return settleDeliveries(ctx, tx, made)
}

// updateHealthTx writes to the subscription only if its health changes, so that deliveries
// that succeed lock no row of it. Attempts at a URL that was replaced meanwhile say nothing about the new one.
func (w *sender) updateHealthTx(ctx context.Context, tx *postgres.Tx, made []outcome) (blocked time.Time, err error) {
	health := w.known().health
	if health.learn(made, w.s.clock.Now()) == (verdict{}) {
		return time.Time{}, nil
	}
	subscription, err := lockSubscription(ctx, tx, w.id)
	if err != nil {
		return time.Time{}, notFound(err)
	}
	made = slices.DeleteFunc(slices.Clone(made), func(one outcome) bool { return one.delivery.url != subscription.URL })
	verdict := subscription.learn(made, w.s.clock.Now())
	if verdict.blocked != nil {
		blocked = *verdict.blocked
	}
	if verdict.disable != "" && subscription.Status != Disabled {
		subscription.Status, subscription.DisabledReason = Disabled, &verdict.disable
		subscription.Version++
		blocked = lanes.Forever()
		w.s.logger.WarnContext(ctx, "webhook.disabled", "org", w.org, "subscription", w.id, "reason", verdict.disable)
	}
	if verdict.warn > 0 {
		w.s.logger.WarnContext(ctx, "webhook.failing", "org", w.org, "subscription", w.id,
			"percent_to_disabled", verdict.warn, "consecutive_failures", subscription.ConsecutiveFailures)
	}
	tx.AfterCommit(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.subscription.health = subscription.health
	})
	return blocked, updateSubscription(ctx, tx, subscription)
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

// header is made for each attempt, signed by every secret that is active then.
func (o *outgoing) header(now time.Time) http.Header {
	var active []string
	for _, secret := range o.secrets {
		if secret.active(now) {
			active = append(active, secret.Plaintext)
		}
	}
	return Posted{
		Type: o.EventType, EventID: o.EventKey, EventUID: o.EventID.String(), DeliveryID: o.ID.String(),
		Attempt: o.AttemptCount + 1, Body: o.Body,
	}.Header(now, active...)
}

// Posted is a delivery as it is posted.
type Posted struct {
	Type                          events.Type
	EventID, EventUID, DeliveryID string
	Attempt                       int
	Body                          []byte
}

// Header is that of an attempt, signed by secrets, of which the newest is the last.
func (p Posted) Header(now time.Time, secrets ...string) http.Header {
	header := http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {"Parley-Webhooks/1.0"},
		"X-Svc-Source":      {p.Type.Source()},
		"X-Svc-Event":       {string(p.Type)},
		"X-Svc-Event-Id":    {p.EventID},
		"X-Svc-Event-Uid":   {p.EventUID},
		"X-Svc-Delivery-Id": {p.DeliveryID},
		"X-Svc-Attempt":     {strconv.Itoa(p.Attempt)},
		signature.Header:    {signature.Sign(now, p.Body, secrets...)},
	}
	if strings.HasPrefix(string(p.Type), "customer.") && len(secrets) > 0 {
		header[signature.Header256] = []string{signature.Sign256(p.Body, secrets[len(secrets)-1])}
	}
	return header
}
