package webhooks_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

const tick = 5 * time.Millisecond

// TestMain runs more tests in parallel than there are cores, because they mostly wait: River
// takes a second or two to start.
func TestMain(m *testing.M) {
	flag.Parse()
	if runtime.GOMAXPROCS(0) < atOnce {
		_ = flag.Set("test.parallel", strconv.Itoa(atOnce))
	}
	os.Exit(m.Run())
}

const atOnce = 4

// newIdleFixture runs no workers.
func newIdleFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{World: factory.New(t), receiver: receiver.New(t)}
	s.org, _ = s.World.Org(t)
	s.Subscription = s.subscribe(t, webhooks.Draft{})
	return s
}

// subscribe makes a subscription to everything, at the fixture's receiver unless said otherwise.
func (s *fixture) subscribe(t *testing.T, draft webhooks.Draft) webhooks.Subscription {
	t.Helper()
	if draft.URL == "" {
		draft.URL = s.receiver.URL
	}
	if draft.Events == nil {
		draft.Events = events.Catalogue()
	}
	made, err := s.Webhooks.Create(t.Context(), s.org, audit.Operator(), draft)
	require.NoError(t, err)
	return made
}

// patch changes the fixture's subscription.
func (s *fixture) patch(t *testing.T, change webhooks.Patch) webhooks.Subscription {
	t.Helper()
	changed, err := s.Webhooks.Update(t.Context(), s.org, s.Subscription.ID, change)
	require.NoError(t, err)
	return changed
}

func to[T any](value T) patch.Field[T] { return patch.To(value) }

func (s *fixture) subscription(t *testing.T) webhooks.Subscription {
	t.Helper()
	found, err := s.Webhooks.Get(t.Context(), s.org, s.Subscription.ID)
	require.NoError(t, err)
	return found
}

// customers makes count customers, each a millisecond after the one before.
func (s *fixture) customers(t *testing.T, count int) []customers.Customer {
	t.Helper()
	made := make([]customers.Customer, count)
	for i := range made {
		s.Clock.Move(time.Millisecond)
		made[i] = s.Customer(t, s.org)
	}
	return made
}

// rename changes a customer, which records an event.
func (s *fixture) rename(t *testing.T, customer customers.Customer, name string) {
	t.Helper()
	_, err := s.Customers.Update(t.Context(), s.org, customer.ID, customers.Patch{Name: to(name)})
	require.NoError(t, err)
}

func (s *fixture) list(t *testing.T, filter webhooks.Filter) []webhooks.Delivery {
	t.Helper()
	page, err := s.Webhooks.Deliveries(t.Context(), s.org, filter, paging.Slice[webhooks.DeliveryID]{Limit: 5000})
	require.NoError(t, err)
	return page.Items
}

// of is the newest delivery of a customer's events.
func (s *fixture) of(t *testing.T, customer customers.Customer) webhooks.Delivery {
	t.Helper()
	for _, delivery := range s.list(t, webhooks.Filter{}) {
		if delivery.SubjectID == customer.ID.Any() {
			return delivery
		}
	}
	require.Fail(t, "no delivery")
	return webhooks.Delivery{}
}

// await waits until a customer's newest delivery has a state.
func (s *fixture) await(t *testing.T, customer customers.Customer, status webhooks.DeliveryStatus, attempts int) webhooks.Delivery {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(tick) {
		found := s.of(t, customer)
		if found.Status == status && found.AttemptCount == attempts {
			return found
		}
		require.True(t, time.Now().Before(deadline), "%s should be %s after %d attempts: %+v", customer.Name, status, attempts, found)
	}
}

// awaitCount waits until count deliveries have a status, and logs the others when it gives up.
func (s *fixture) awaitCount(t *testing.T, status webhooks.DeliveryStatus, count int) {
	t.Helper()
	reached := func() bool {
		return s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status = @status`,
			postgres.Args{"status": status}) == count
	}
	for deadline := time.Now().Add(2 * patience); !reached(); time.Sleep(tick) {
		if time.Now().Before(deadline) {
			continue
		}
		for _, delivery := range s.list(t, webhooks.Filter{}) {
			if delivery.Status != status {
				detail, err := s.Webhooks.Delivery(t.Context(), s.org, delivery.ID)
				t.Logf("%+v: %v", detail, err)
			}
		}
		require.Failf(t, "too few", "%d deliveries should be %s", count, status)
	}
}

// count reads a number directly from the database.
func (s *fixture) count(t *testing.T, sql string, args postgres.Args) int {
	t.Helper()
	count, err := postgres.One[int](t.Context(), s.DB.Of(s.org), sql, args)
	require.NoError(t, err)
	return count
}

func (s *fixture) exec(t *testing.T, sql string, args postgres.Args) {
	t.Helper()
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, sql, args)
		return err
	}))
}

// barrier waits until the lane was drained up to now: it sends an event that is due after all
// others and waits until that succeeds.
func (s *fixture) barrier(t *testing.T) {
	t.Helper()
	s.Wake(t)
	delivery, err := s.Webhooks.Test(t.Context(), s.org, s.Subscription.ID, example(t))
	require.NoError(t, err)
	s.receiver.WaitDelivery(t, delivery.ID.String(), 1, patience)
	require.Eventually(t, func() bool {
		found, err := s.Webhooks.Delivery(t.Context(), s.org, delivery.ID)
		return err == nil && found.Status == webhooks.Succeeded
	}, patience, tick)
}

const exampleBody = `{"id":"evt_01M467HDJ0Z6AA85JCTNSBDAZJ","type":"contact.created","created_at":"2026-01-01T00:00:00.000Z","data":{}}`

func example(t *testing.T) events.Draft {
	t.Helper()
	draft, err := events.Example(events.ContactCreated, []byte(exampleBody), time.Now())
	require.NoError(t, err)
	return draft
}

// isBarrier reports whether a request was made by barrier.
func isBarrier(r receiver.Request) bool { return r.Event() == string(events.ContactCreated) }

// exceptBarriers answers everything but barriers.
func exceptBarriers(answer receiver.Answer) func(receiver.Request) receiver.Answer {
	return func(r receiver.Request) receiver.Answer {
		if isBarrier(r) {
			return receiver.Answer{}
		}
		return answer
	}
}

// customerOf reads the body of a customer event.
func customerOf(t testing.TB, r receiver.Request) (customer struct{ ID, Name, Status string }) {
	t.Helper()
	var body struct {
		Data struct {
			Customer *struct{ ID, Name, Status string } `json:"customer"`
		} `json:"data"`
	}
	body.Data.Customer = &customer
	require.NoError(t, json.Unmarshal(r.Body, &body), "%s", r.Body)
	return customer
}

// signatures are the v1 of a request.
func signatures(r receiver.Request) (v1 []string) {
	for part := range strings.SplitSeq(r.Header.Get("X-Svc-Signature"), ",") {
		if value, found := strings.CutPrefix(part, "v1="); found {
			v1 = append(v1, value)
		}
	}
	return v1
}

// inTx runs a transaction of the fixture's organization.
func (s *fixture) inTx(t *testing.T, verb func(ctx context.Context, tx *postgres.Tx) error) error {
	t.Helper()
	_, err := postgres.InTx(t.Context(), s.DB, s.org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, verb(t.Context(), tx)
	})
	return err
}

// otherOrg makes a second organization in the same cell.
func (s *fixture) otherOrg(t *testing.T) orgs.ID {
	t.Helper()
	org, _ := s.World.Org(t)
	return org
}
