package truth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/signature"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

const patience = 3 * time.Minute

// fixture is a small run without violations: two organizations, each with a customer that was
// created and renamed, and with a subscription to each of the two events.
type fixture struct {
	truth.Run

	world    *factory.World
	receiver *receiver.Receiver
	orgs     []orgs.ID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	url := pgtest.URL(t)
	s := &fixture{world: factory.On(t, pgtest.Connect(t, url)), receiver: receiver.New(t)}
	s.Cells, s.Canaries = map[string]string{"test": url}, map[string][]string{}
	s.world.Work(t)
	for range 2 {
		org, _ := s.world.Org(t)
		_, key := s.world.Key(t, org)
		s.orgs, s.Keys = append(s.orgs, org), append(s.Keys, key)
		s.Canaries[org.String()] = []string{"canary of " + org.String()}
		s.subscribe(t, org, events.CustomerCreated)
		s.subscribe(t, org, events.CustomerUpdated)
	}
	for _, org := range s.orgs {
		s.change(t, org)
	}
	s.Requests = s.receiver.WaitCount(t, 4, patience)
	require.Eventually(t, func() bool { // a request arrives before its delivery is settled
		left, err := postgres.One[int](t.Context(), s.world.DB.System("test"), `SELECT count(*) FROM lane_rows`, nil)
		return err == nil && left == 0
	}, patience, 5*time.Millisecond)
	for i := range s.Requests {
		s.Requests[i].At = s.world.Clock.Now()
	}
	return s.copy(t)
}

// copy returns a copy of the run, with the same database, that the test may change.
func (s *fixture) copy(t *testing.T) *fixture {
	t.Helper()
	other := *s
	other.Calls, other.Requests = slices.Clone(s.Calls), slices.Clone(s.Requests)
	other.Subscriptions = slices.Clone(s.Subscriptions)
	for i := range other.Subscriptions {
		other.Subscriptions[i].Secrets = slices.Clone(s.Subscriptions[i].Secrets)
	}
	log := filepath.Join(t.TempDir(), "stderr")
	require.NoError(t, os.WriteFile(log, []byte("started\nready\n"), 0o600))
	other.Logs = []string{log}
	return &other
}

func (s *fixture) subscribe(t *testing.T, org orgs.ID, to events.Type) {
	t.Helper()
	path := fmt.Sprint("/", len(s.Subscriptions))
	made, err := s.world.Webhooks.Create(t.Context(), org, audit.Operator(), webhooks.Draft{URL: s.receiver.URL + path, Events: []events.Type{to}})
	require.NoError(t, err)
	s.Subscriptions = append(s.Subscriptions, truth.Subscription{
		Org: org.String(), ID: made.ID.String(), Path: path, Events: []string{string(to)},
		Since: s.world.Clock.Now(), Secrets: []truth.Secret{{Text: made.InitialSecret}},
	})
}

func (s *fixture) change(t *testing.T, org orgs.ID) {
	t.Helper()
	created, updated := truth.Mark(), truth.Mark()
	metadata := func(mark string) json.RawMessage {
		return fmt.Appendf(nil, `{"mark":%q,"canary":%q}`, mark, s.Canaries[org.String()][0])
	}
	customer, err := s.world.Customers.Create(t.Context(), org, customers.Draft{Name: "Acme", Metadata: metadata(created)})
	require.NoError(t, err)
	s.answered(t, org, created, events.CustomerCreated, customer)
	s.world.Clock.Move(time.Second) // so that the times of the events differ
	var patch customers.Patch
	patch.Metadata.Set, patch.Metadata.Value = true, metadata(updated)
	customer, err = s.world.Customers.Update(t.Context(), org, customer.ID, patch)
	require.NoError(t, err)
	s.answered(t, org, updated, events.CustomerUpdated, customer)
}

func (s *fixture) answered(t *testing.T, org orgs.ID, mark string, event events.Type, customer customers.Customer) {
	t.Helper()
	body, err := json.Marshal(customer.Resource())
	require.NoError(t, err)
	call := truth.Call{Org: org.String(), Key: "key of " + mark, Mark: mark, Event: string(event), Status: http.StatusCreated, Body: body}
	s.Calls = append(s.Calls, call, call) // a retry with the same response
}

func (s *fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.Cells["test"])
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	done, err := conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	require.Equal(t, int64(1), done.RowsAffected())
}

// leak writes a secret into a row, and removes it when the test ends.
func (s *fixture) leak(t *testing.T, secret string) {
	t.Helper()
	const sqlSet = `UPDATE customers SET metadata = json_build_object('key', $2::text) WHERE org_id = $1`
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, s.Cells["test"])
	require.NoError(t, err)
	_, err = conn.Exec(ctx, sqlSet, s.orgs[0].String(), secret)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := conn.Exec(ctx, sqlSet, s.orgs[0].String(), "none")
		require.NoError(t, err)
		require.NoError(t, conn.Close(ctx))
	})
}

// tampered replaces a request by a copy that the test may change.
func (s *fixture) tampered(at int) *receiver.Request {
	one := &s.Requests[at]
	one.Body, one.Header = bytes.Clone(one.Body), one.Header.Clone()
	return one
}

// resign replaces the signatures of a request.
func (s *fixture) resign(at int, secrets ...string) {
	one := s.tampered(at)
	one.Header.Set(signature.Header, signature.Sign(one.At, one.Body, secrets...))
	one.Header.Set(signature.Header256, signature.Sign256(one.Body, secrets[len(secrets)-1]))
}

// subscriptionOf returns the subscription whose endpoint received a request.
func (s *fixture) subscriptionOf(at int) *truth.Subscription {
	return &s.Subscriptions[slices.IndexFunc(s.Subscriptions, func(one truth.Subscription) bool { return one.Path == s.Requests[at].Path })]
}

func TestCheck_GoodRun_NoViolations(t *testing.T) {
	t.Parallel()
	found := newFixture(t).check(t)
	require.Empty(t, found.Violations)
	require.Equal(t, []int{8, 4, 4, 4, 4},
		[]int{found.Calls, found.Events, found.Deliveries, found.Requests, found.Verified})
	require.Greater(t, found.Rows, 12)
	require.Greater(t, found.Tables, 15)
}

func (s *fixture) check(t *testing.T) truth.Found {
	t.Helper()
	return truth.Check(t, s.Run)
}

const sqlCopyEvent = `
INSERT INTO events (org_id, id, key, type, audience, phone_number_id, subject_id, body)
SELECT org_id, overlay(id::text PLACING 'ffffffffffff' FROM 25)::uuid, key, type, audience, phone_number_id, subject_id, body
FROM events
WHERE org_id = $1 AND type = 'customer.created'`

const sqlCopyCustomer = `
INSERT INTO customers
SELECT org_id, overlay(id::text PLACING 'ffffffffffff' FROM 25)::uuid, team_id, name, name_key, email, email_key, status,
    previous_status, metadata, archived_at, updated_at
FROM customers
WHERE org_id = $1`

const sqlCopyDelivery = `
INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
SELECT org_id, overlay(id::text PLACING 'ffffffffffff' FROM 25)::uuid, subscription_id, event_id, event_key, event_type, status
FROM webhook_deliveries
WHERE org_id = $1 AND event_type = 'customer.created'`

// planted is a fault, and a part of the violation that must be reported.
type planted struct {
	name  string
	plant func(t *testing.T, s *fixture)
	which truth.Invariant
	says  string
	// inRows is true for a fault in the database, which then needs a database of its own.
	inRows bool
}

func plantedLosses() []planted {
	return []planted{
		{"a lost delivery", func(_ *testing.T, s *fixture) { s.Requests = s.Requests[1:] }, truth.Delivered, "never arrived at wbs_", false},
		{"a lost event", func(t *testing.T, s *fixture) {
			s.exec(t, `DELETE FROM events WHERE org_id = $1 AND type = 'customer.created'`, s.orgs[0].String())
		}, truth.Delivered, "was acknowledged and has no event", true},
		{"an event of another type", func(t *testing.T, s *fixture) {
			s.exec(t, `UPDATE events SET type = 'customer.archived' WHERE org_id = $1 AND type = 'customer.created'`, s.orgs[0].String())
		}, truth.Delivered, "should be a customer.created", true},
		{"a changed byte", func(_ *testing.T, s *fixture) {
			s.tampered(1).Body[9] ^= 1
			s.resign(1, s.subscriptionOf(1).Secrets[0].Text)
		}, truth.Delivered, "differs from the event's at byte 9", false},
		{"another id", func(_ *testing.T, s *fixture) { s.tampered(2).Header.Set("X-Svc-Event-Id", "evt_other") }, truth.Delivered, `as customer.`, false},
		{"an unknown uid", func(_ *testing.T, s *fixture) { s.tampered(2).Header.Set("X-Svc-Event-Uid", "evt_no") }, truth.Delivered, "which is no event", false},
		{"a request to who did not ask", func(_ *testing.T, s *fixture) {
			s.subscriptionOf(0).Events = []string{"message.received"}
		}, truth.Delivered, "that it did not ask for", false},
		{"a delivery of another subscription", func(_ *testing.T, s *fixture) {
			s.tampered(0).Header.Set("X-Svc-Delivery-Id", s.Requests[1].DeliveryID())
		}, truth.Delivered, "which is not of them", false},
	}
}

func plantedDoubles() []planted {
	return []planted{
		{"an event row twice", func(t *testing.T, s *fixture) { s.exec(t, sqlCopyEvent, s.orgs[0].String()) }, truth.Delivered, "has 2 events: evt_", true},
		{"two effects of a key", func(t *testing.T, s *fixture) { s.exec(t, sqlCopyCustomer, s.orgs[0].String()) }, truth.Once, "2 rows of customers", true},
		{"two deliveries", func(t *testing.T, s *fixture) { s.exec(t, sqlCopyDelivery, s.orgs[0].String()) }, truth.Delivered, "has two deliveries to wbs_", true},
		{"two bodies of a key", func(_ *testing.T, s *fixture) { s.Calls[1].Body = []byte(`{}`) }, truth.Once, "two bodies that differ at byte 1", false},
		{"two statuses of a key", func(_ *testing.T, s *fixture) { s.Calls[1].Status = http.StatusOK }, truth.Once, "was answered 201 and 200", false},
		{"an event that nobody asked for", func(_ *testing.T, s *fixture) { s.Calls = s.Calls[2:] }, truth.Delivered, "belongs to no change", false},
	}
}

func plantedLeaks() []planted {
	return []planted{
		{"a canary in another's endpoint", func(_ *testing.T, s *fixture) {
			other := s.orgs[0].String()
			if s.subscriptionOf(0).Org == other {
				other = s.orgs[1].String()
			}
			s.tampered(0).Header.Set("X-Svc-Note", s.Canaries[other][0])
		}, truth.Separate, "arrived at wbs_", false},
		{"a canary in another's answer", func(_ *testing.T, s *fixture) {
			s.Calls = append(s.Calls, truth.Call{Org: s.orgs[0].String(), Status: http.StatusOK, Body: []byte(s.Canaries[s.orgs[1].String()][0])})
		}, truth.Separate, "was answered to", false},
		{"a canary in another's row", func(t *testing.T, s *fixture) {
			s.exec(t, `UPDATE customers SET name = $2 WHERE org_id = $1`, s.orgs[0].String(), s.Canaries[s.orgs[1].String()][0])
		}, truth.Separate, "stands in customers", true},
		{"a secret in a log", func(t *testing.T, s *fixture) {
			require.NoError(t, os.WriteFile(s.Logs[0], []byte("started\nsigning with "+s.Subscriptions[0].Secrets[0].Text+"\n"), 0o600))
		}, truth.Secrecy, "stands in line 2 of ", false},
		{"an API key in a log", func(t *testing.T, s *fixture) {
			require.NoError(t, os.WriteFile(s.Logs[0], []byte("Bearer "+s.Keys[1]), 0o600))
		}, truth.Secrecy, "API key 2, ending in ", false},
		{"a secret in a table", func(t *testing.T, s *fixture) {
			secret := s.Subscriptions[0].Secrets[0].Text
			s.exec(t, `UPDATE webhook_secrets SET sealed = convert_to($2, 'UTF8') WHERE subscription_id =
(SELECT id FROM webhook_subscriptions WHERE org_id = $1 AND events = '{customer.created}')`, s.orgs[0].String(), secret)
		}, truth.Secrecy, "stands in webhook_secrets", true},
		{"a secret in JSON", func(t *testing.T, s *fixture) { s.leak(t, s.Keys[0]) }, truth.Secrecy, "API key 1, ending in ", true},
		{"a token in a table", func(t *testing.T, s *fixture) { s.leak(t, canary.Token) }, truth.Secrecy, "a planted secret stands in customers", true},
		{"a token in a log", func(t *testing.T, s *fixture) {
			require.NoError(t, os.WriteFile(s.Logs[0], []byte("started\nBearer "+canary.Token), 0o600))
		}, truth.Secrecy, "a planted secret stands in line 2 of ", false},
		{"a PIN in a webhook", func(_ *testing.T, s *fixture) { s.tampered(0).Header.Set("X-Pin", canary.PIN) }, truth.Secrecy, "a PIN arrived at wbs_", false},
		{"a PIN in an answer", func(_ *testing.T, s *fixture) {
			s.Calls = append(s.Calls, truth.Call{Org: s.orgs[0].String(), Status: http.StatusOK, Body: []byte(`{"pin":"` + canary.PIN + `"}`)})
		}, truth.Secrecy, "a PIN was answered to", false},
	}
}

func plantedSignatures() []planted {
	return []planted{
		{"a wrong signature", func(_ *testing.T, s *fixture) { s.resign(0, signature.NewSecret()) }, truth.Signed, "does not verify: no_match", false},
		{"a signature of a revoked secret", func(_ *testing.T, s *fixture) {
			revoked := truth.Secret{Text: signature.NewSecret(), Revoked: span(s.Requests[0].At.Add(-4 * time.Second))}
			of := s.subscriptionOf(0)
			s.resign(0, revoked.Text, of.Secrets[0].Text)
			of.Secrets = append(of.Secrets, revoked)
		}, truth.Signed, "2 v1 for 1 active secrets", false},
		{"a missing signature", func(_ *testing.T, s *fixture) {
			of := s.subscriptionOf(0)
			of.Secrets = append(of.Secrets, truth.Secret{Text: signature.NewSecret(), Minted: span(s.Requests[0].At.Add(-4 * time.Second))})
		}, truth.Signed, "1 v1 for 2 active secrets", false},
		{"no signature", func(_ *testing.T, s *fixture) { s.tampered(0).Header.Del("X-Svc-Signature") }, truth.Signed, "malformed_header", false},
	}
}

func span(at time.Time) truth.Span { return truth.Span{Begin: at, End: at} }

func TestCheck_PlantedFault_Found(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	for _, one := range slices.Concat(plantedLosses(), plantedDoubles(), plantedLeaks(), plantedSignatures()) {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			var s *fixture
			if one.inRows {
				s = newFixture(t)
			} else {
				s = shared.copy(t)
			}
			one.plant(t, s)
			found := s.check(t)
			require.True(t, slices.ContainsFunc(found.Violations, func(v truth.Violation) bool {
				return v.Invariant == one.which && strings.Contains(v.Sentence, one.says)
			}), "%s: %q is not among %v", one.which, one.says, found.Violations)
		})
	}
}

// A secret that was added or revoked at that time may have signed or not.
func TestCheck_SecretJustChanged_EitherSignatureAccepted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	near := span(s.Requests[0].At.Add(time.Second))
	for at := range s.Requests {
		of := s.subscriptionOf(at)
		of.Secrets[0].Revoked = near
		of.Secrets = append(of.Secrets, truth.Secret{Text: signature.NewSecret(), Minted: near})
		switch at {
		case 0:
			s.resign(at, of.Secrets[1].Text)
		case 1:
			s.resign(at, of.Secrets[0].Text, of.Secrets[1].Text)
		}
	}
	require.Empty(t, s.check(t).Violations)
}
