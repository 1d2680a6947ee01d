package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
)

// Client posts to URLs that tenants gave.
type Client interface {
	// CheckURL says what is wrong with a URL, as the end of a sentence.
	CheckURL(url string) error
	Post(ctx context.Context, url string, header http.Header, body []byte) (safehttp.Answer, error)
}

// Service is the webhooks of one cell.
type Service struct {
	db *postgres.DB
	// work is the connection pool of background work.
	work     *postgres.DB
	clock    clock.Clock
	lanes    *lanes.Lanes
	jobs     *jobs.Queue
	audit    *audit.Log
	accounts *accounts.Service
	events   *events.Log
	box      *sealed.Box
	client   Client
	hosts    *hosts
	logger   *slog.Logger
}

// Deps are what the service needs.
type Deps struct {
	DB, Work *postgres.DB
	Clock    clock.Clock
	Lanes    *lanes.Lanes
	Jobs     *jobs.Queue
	Events   *events.Log
	Audit    *audit.Log
	Accounts *accounts.Service
	// Ring seals and opens the secrets; nil for commands that neither mint nor sign.
	Ring   *sealed.Keyring
	Client Client
	// HostRate is how many posts a second an organization makes to one host; 0 is DefaultHostRate.
	HostRate int
	Logger   *slog.Logger
}

// laneKind is the kind of the subscriptions' lanes.
const laneKind = events.LaneKind

// New builds the service and registers its kind of lane.
func New(deps Deps) (*Service, error) {
	s := &Service{
		db: deps.DB, work: deps.Work, clock: deps.Clock, lanes: deps.Lanes, jobs: deps.Jobs, audit: deps.Audit, accounts: deps.Accounts,
		events: deps.Events, client: deps.Client, hosts: newHosts(deps.HostRate), logger: deps.Logger,
	}
	if deps.Ring != nil {
		var err error
		if s.box, err = deps.Ring.Box("webhook secrets"); err != nil {
			return nil, err
		}
	}
	lanes.Register(deps.Lanes, s.kind())
	return s, nil
}

// Create subscribes an endpoint and gives it its first secret.
func (s *Service) Create(ctx context.Context, org orgs.ID, by audit.Principal, draft Draft) (Subscription, error) {
	if err := s.checkURL(draft.URL); err != nil {
		return Subscription{}, err
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Subscription, error) {
		if err := checkRoom(ctx, tx); err != nil {
			return Subscription{}, err
		}
		if err := s.checkNumbersTx(ctx, tx, draft.PhoneNumberIDs); err != nil {
			return Subscription{}, err
		}
		now := s.clock.Now()
		subscription := Subscription{
			ID: ids.New[subscriptionKind](now), URL: draft.URL, Description: draft.Description, Events: distinct(draft.Events),
			PhoneNumberIDs: distinct(draft.PhoneNumberIDs), Status: Active, UpdatedAt: now,
		}
		secret, err := s.newSecret(org, subscription.ID, now)
		if err != nil {
			return Subscription{}, err
		}
		subscription.Secrets, subscription.InitialSecret = []Secret{secret}, secret.Plaintext
		if err := insertSubscription(ctx, tx, subscription); err != nil {
			return Subscription{}, err
		}
		if err := insertSecret(ctx, tx, secret); err != nil {
			return Subscription{}, err
		}
		if err := s.audit.RecordTx(ctx, tx, by, "webhook_secret.issued", secret.ID.String(), nil); err != nil {
			return Subscription{}, err
		}
		return subscription, s.lanes.OpenTx(ctx, tx, laneKind, subscription.ID.Any())
	})
}

func (s *Service) checkURL(url string) error {
	if err := s.client.CheckURL(url); err != nil {
		return fault.New(fault.InvalidWebhookURL, "The field `url` %s.", err.Error()).At("url")
	}
	return nil
}

// checkNumbersTx refuses numbers that are not the organization's. A number that is
// disconnected later stays in the filter: removing the last one would make it match all.
func (s *Service) checkNumbersTx(ctx context.Context, tx *postgres.Tx, numbers []string) error {
	unknown, err := s.accounts.UnknownTx(ctx, tx, numbers)
	if err != nil || unknown < 0 {
		return err
	}
	return fault.Invalid(fmt.Sprintf("phone_number_ids[%d]", unknown), "is not a number of this organization")
}

func checkRoom(ctx context.Context, tx *postgres.Tx) error {
	count, err := countSubscriptions(ctx, tx)
	if err == nil && count >= maxSubscriptions {
		return fault.New(fault.LimitReached, "The organization has %d subscriptions, the most there may be: delete one first.", count)
	}
	return err
}

// Get returns one subscription.
func (s *Service) Get(ctx context.Context, org orgs.ID, id SubscriptionID) (Subscription, error) {
	subscription, err := subscriptionByID(ctx, s.db.Of(org), id)
	if err != nil {
		return Subscription{}, notFound(err)
	}
	return s.withSecrets(ctx, s.db.Of(org), subscription)
}

// List returns a page of subscriptions, newest first.
func (s *Service) List(
	ctx context.Context, org orgs.ID, slice paging.Slice[SubscriptionID],
) (paging.Page[Subscription, SubscriptionID], error) {
	rows, err := listSubscriptions(ctx, s.db.Of(org), slice)
	page := paging.Cut(rows, slice.Limit, func(s Subscription) SubscriptionID { return s.ID })
	if err != nil || len(page.Items) == 0 {
		return page, err
	}
	page.Items, err = s.withSecretsAll(ctx, s.db.Of(org), page.Items)
	return page, err
}

func (s *Service) withSecrets(ctx context.Context, scope postgres.Scope, one Subscription) (Subscription, error) {
	all, err := s.withSecretsAll(ctx, scope, []Subscription{one})
	return all[0], err
}

// withSecretsAll adds the active secrets, without their plaintext.
func (s *Service) withSecretsAll(ctx context.Context, scope postgres.Scope, all []Subscription) ([]Subscription, error) {
	secrets, err := secretsOf(ctx, scope, all, s.clock.Now())
	for i := range all {
		all[i].Secrets = secrets[all[i].ID]
	}
	return all, err
}

// lockTx locks the lane, then the subscription: the order in which settling locks them.
func (s *Service) lockTx(ctx context.Context, tx *postgres.Tx, id SubscriptionID) (Subscription, error) {
	if err := s.lanes.LockTx(ctx, tx, id.Any()); err != nil {
		return Subscription{}, err
	}
	subscription, err := lockSubscription(ctx, tx, id)
	if err != nil {
		return Subscription{}, notFound(err)
	}
	return s.withSecrets(ctx, tx, subscription)
}

// Update changes a subscription, pauses it or resumes it. A disabled subscription can only be
// resumed, with or without other changes.
func (s *Service) Update(ctx context.Context, org orgs.ID, id SubscriptionID, change Patch) (Subscription, error) {
	if change.URL.Set {
		if err := s.checkURL(change.URL.Value); err != nil {
			return Subscription{}, err
		}
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Subscription, error) {
		subscription, err := s.lockTx(ctx, tx, id)
		if err != nil {
			return Subscription{}, err
		}
		if subscription.Status == Disabled && !change.resumes() {
			return Subscription{}, disabled(subscription)
		}
		if change.Backlog.Set && !change.resumes() {
			return Subscription{}, fault.Invalid("backlog", "says what becomes of waiting events on resuming: send it with status: active")
		}
		if err := s.checkNumbersTx(ctx, tx, change.PhoneNumberIDs.Value); err != nil {
			return Subscription{}, err
		}
		before := subscription
		changed := subscription.apply(change)
		discards := change.resumes() && change.Backlog.Value == Discard
		if !changed && !discards {
			return subscription, nil
		}
		now := s.clock.Now()
		if discards {
			subscription.BacklogFrom = ids.Floor[deliveryKind](now)
		}
		subscription.UpdatedAt = now
		subscription.Version++
		if err := updateSubscription(ctx, tx, subscription); err != nil {
			return Subscription{}, err
		}
		return subscription, s.updateLaneTx(ctx, tx, before, subscription, discards)
	})
}

// updateLaneTx blocks the lane of a paused subscription. Resuming and a new URL unblock it and
// make waiting retries due.
func (s *Service) updateLaneTx(ctx context.Context, tx *postgres.Tx, before, after Subscription, discards bool) error {
	lane := after.ID.Any()
	if discards {
		if err := s.forgetTx(ctx, tx, forgetArgs{Subscription: after.ID, Before: after.BacklogFrom, Discard: true}); err != nil {
			return err
		}
	}
	switch {
	case after.Status == Paused:
		return s.lanes.BlockTx(ctx, tx, lane, lanes.Forever())
	case before.Status != Active || before.URL != after.URL:
		if err := s.lanes.HurryTx(ctx, tx, laneKind, lane); err != nil {
			return err
		}
		return s.lanes.UnblockTx(ctx, tx, laneKind, lane)
	default:
		return nil
	}
}

// Delete removes a subscription with its lane. A job deletes the deliveries that waited, and a sweep of the lanes
// their rows: there may be millions.
func (s *Service) Delete(ctx context.Context, org orgs.ID, id SubscriptionID) (Subscription, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Subscription, error) {
		if err := s.lanes.LockTx(ctx, tx, id.Any()); err != nil {
			return Subscription{}, err
		}
		subscription, err := deleteSubscription(ctx, tx, id)
		if err != nil {
			return Subscription{}, notFound(err)
		}
		if err := s.lanes.CloseTx(ctx, tx, id.Any()); err != nil {
			return Subscription{}, err
		}
		return subscription, s.forgetTx(ctx, tx, forgetArgs{Subscription: id, Before: ids.Ceiling[deliveryKind]()})
	})
}

func notFound(err error) error {
	if errors.Is(err, postgres.ErrNoRow) {
		return fault.NotFound("webhook subscription")
	}
	return err
}

func disabled(subscription Subscription) error {
	reason := "it failed for too long"
	if subscription.DisabledReason != nil && *subscription.DisabledReason == ReasonGone {
		reason = "the endpoint answered 410"
	}
	return fault.New(fault.WebhookSubscriptionDisabled,
		"The subscription was disabled because %s. Resume it with PATCH `status: active`, with a new `url` if need be.", reason)
}
