package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// written counts events, deliveries, lane rows and customers.
func (s *fixture) written(t *testing.T) (written [4]int) {
	t.Helper()
	for i, sql := range []string{
		`SELECT count(*) FROM events WHERE org_id = @org_id`,
		`SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id`,
		`SELECT count(*) FROM lane_rows r JOIN lanes l USING (lane_id) WHERE l.org_id = @org_id`,
		`SELECT count(*) FROM customers WHERE org_id = @org_id`,
	} {
		written[i] = s.count(t, sql, nil)
	}
	return written
}

var errAfter = errors.New("the verb failed after it recorded")

func TestRecord_FailedTransaction_LeavesNothing(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.Customer(t, s.org)
	before := s.written(t)
	require.Equal(t, [4]int{1, 1, 1, 1}, before)
	record := func(ctx context.Context, tx *postgres.Tx, count int) {
		for i := range count {
			require.NoError(t, s.Cell.Events.RecordTx(ctx, tx, events.Draft{Type: events.ContactCreated, Data: map[string]any{"n": i}}))
		}
	}
	for name, verb := range map[string]func(context.Context, *postgres.Tx) error{
		"fails after recording": func(ctx context.Context, tx *postgres.Tx) error { record(ctx, tx, 3); return errAfter },
		"fails after everything is written": func(ctx context.Context, tx *postgres.Tx) error {
			record(ctx, tx, 3)
			tx.BeforeCommit(func(ctx context.Context) error {
				written, err := postgres.One[int](ctx, tx, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id`, nil)
				require.NoError(t, err)
				require.Equal(t, 4, written, "they are written in the transaction")
				return errAfter
			})
			return nil
		},
		"fails in the database": func(ctx context.Context, tx *postgres.Tx) error {
			record(ctx, tx, 1)
			_, err := tx.Exec(ctx, `INSERT INTO customers (org_id) VALUES (@org_id)`, nil)
			require.Error(t, err)
			return nil // the commit fails by itself
		},
		"cannot be encoded": func(ctx context.Context, tx *postgres.Tx) error {
			record(ctx, tx, 1)
			return s.Cell.Events.RecordTx(ctx, tx, events.Draft{Type: events.ContactCreated, Data: make(chan int)})
		},
	} {
		require.Error(t, s.inTx(t, verb), name)
		require.Equal(t, before, s.written(t), name)
	}
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error { record(ctx, tx, 5); return nil }))
	require.Equal(t, [4]int{6, 6, 6, 1}, s.written(t), "several events of one transaction are all written")
	s.Work(t)
	s.Wake(t)
	s.awaitCount(t, webhooks.Succeeded, 6)
}

func TestRecord_Panic_LeavesNothing(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	require.Panics(t, func() {
		_ = s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
			require.NoError(t, s.Cell.Events.RecordTx(ctx, tx, events.Draft{Type: events.ContactCreated}))
			panic("in the midst of it")
		})
	})
	require.Equal(t, [4]int{}, s.written(t))
}

func TestRecord_MatchesByTypeNumberAndOrganization(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	one, two, three := "100000000000001", "100000000000002", "100000000000003"
	for _, number := range []string{one, two, three} {
		s.Attach(t, s.org, number, nil)
	}
	subscriptions := map[string]webhooks.SubscriptionID{
		"all":               s.Subscription.ID,
		"sent and closed":   s.subscribe(t, webhooks.Draft{Events: []events.Type{events.MessageSent, events.ConversationClosed}}).ID,
		"number one":        s.subscribe(t, webhooks.Draft{PhoneNumberIDs: []string{one}}).ID,
		"one and two":       s.subscribe(t, webhooks.Draft{PhoneNumberIDs: []string{one, two}}).ID,
		"customers of two":  s.subscribe(t, webhooks.Draft{Events: []events.Type{events.CustomerCreated}, PhoneNumberIDs: []string{two}}).ID,
		"paused, number 1":  s.subscribe(t, webhooks.Draft{PhoneNumberIDs: []string{one}}).ID,
		"other number":      s.subscribe(t, webhooks.Draft{PhoneNumberIDs: []string{three}}).ID,
		"disabled, of sent": s.subscribe(t, webhooks.Draft{Events: []events.Type{events.MessageSent}}).ID,
	}
	_, err := s.Webhooks.Update(t.Context(), s.org, subscriptions["paused, number 1"], webhooks.Patch{Status: to(webhooks.Paused)})
	require.NoError(t, err)
	s.exec(t, `UPDATE webhook_subscriptions SET status = 'disabled', disabled_reason = 'x' WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": subscriptions["disabled, of sent"]})
	stranger := s.otherOrg(t)
	_, err = s.Webhooks.Create(t.Context(), stranger, audit.Operator(), webhooks.Draft{URL: s.receiver.URL, Events: events.Catalogue()})
	require.NoError(t, err)

	for _, test := range []struct {
		of     events.Type
		number string
		want   []string
	}{
		{events.MessageSent, one, []string{"all", "sent and closed", "number one", "one and two", "paused, number 1", "disabled, of sent"}},
		{events.MessageSent, two, []string{"all", "sent and closed", "one and two", "disabled, of sent"}},
		{events.MessageReceived, two, []string{"all", "one and two"}},
		{events.CustomerCreated, "", []string{"all", "number one", "one and two", "customers of two", "paused, number 1", "other number"}},
		{events.CustomerCreated, one, []string{"all", "number one", "one and two", "paused, number 1"}},
		{events.ConversationClosed, "999999", []string{"all", "sent and closed"}},
	} {
		key := fmt.Sprintf("%s of %q", test.of, test.number)
		require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
			return s.Cell.Events.RecordTx(ctx, tx, events.Draft{Type: test.of, Key: key, PhoneNumberID: test.number})
		}))
		got := map[webhooks.SubscriptionID]webhooks.DeliveryStatus{}
		for _, delivery := range s.list(t, webhooks.Filter{EventKey: &key}) {
			got[delivery.SubscriptionID] = delivery.Status
			require.Equal(t, s.Clock.Now(), delivery.NextAttemptAt.UTC())
		}
		want := map[webhooks.SubscriptionID]webhooks.DeliveryStatus{}
		for _, name := range test.want {
			want[subscriptions[name]] = webhooks.Pending
		}
		require.Equal(t, want, got, key)
	}
	page, err := s.Webhooks.Deliveries(t.Context(), stranger, webhooks.Filter{}, paging.Slice[webhooks.DeliveryID]{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page.Items)
}

// The envelope has exactly four fields and contains the key. A given body is posted unchanged.
func TestRecord_EnvelopeAndKey(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	raw := []byte("{\"b\":1,  \"a\":\"<&>\u2028\",\"n\":12345678901234567}\n")
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		return s.Cell.Events.RecordTx(ctx, tx, []events.Draft{
			{Type: events.ContactCreated, Data: map[string]any{"text": "<&>"}},
			{Type: events.MessageSent, Key: "msg_1:sent", Data: 1, At: s.Clock.Now().Add(-time.Hour)},
			{Type: events.MessageStatus, Key: "wamid.1", Body: raw, Subject: ids.New[someKind](s.Clock.Now()).Any()},
		}...)
	}))
	s.receiver.WaitCount(t, 3, patience)
	for _, request := range s.receiver.Requests() {
		key := request.Header.Get("X-Svc-Event-Id")
		switch request.Event() {
		case "message.status":
			require.Equal(t, raw, request.Body)
			require.Equal(t, "wamid.1", key)
			require.Equal(t, "provider", request.Header.Get("X-Svc-Source"))
			require.Empty(t, request.Header.Get("X-Svc-Signature-256"))
		case "message.sent":
			require.JSONEq(t, `{"id":"msg_1:sent","type":"message.sent","created_at":"2026-03-14T08:26:53.589Z","data":1}`, string(request.Body))
			require.Equal(t, "msg_1:sent", key)
			require.NotEqual(t, key, request.EventUID())
		default:
			require.Equal(t, request.EventUID(), key)
			want := `{"id":"` + key + `","type":"contact.created","created_at":"2026-03-14T09:26:53.589Z","data":{"text":"<&>"}}`
			require.Equal(t, []byte(want), request.Body)
			require.Equal(t, "svc", request.Header.Get("X-Svc-Source"))
		}
		require.Equal(t, "application/json", request.Header.Get("Content-Type"))
	}
}

type someKind struct{}

func (someKind) Prefix() string { return "some_" }

// A subscription that is deleted between the recording and the commit must not fail the
// change that recorded the event.
func TestRecord_SubscriptionDeletedMeanwhile_ChangeCommits(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		if err := s.Cell.Events.RecordTx(ctx, tx, events.Draft{Type: events.ContactCreated}); err != nil {
			return err
		}
		_, err := s.Webhooks.Delete(ctx, s.org, s.Subscription.ID)
		return err
	}))
	require.Equal(t, [4]int{1, 1, 0, 0}, s.written(t))
}
