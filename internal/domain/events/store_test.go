package events_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/requestid"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// counter counts statements that insert events, and those that insert lane rows.
type counter struct{ events, rows atomic.Int64 }

func (c *counter) look(sql string) {
	if strings.Contains(sql, "INSERT INTO events") {
		c.events.Add(1)
	}
	if strings.Contains(sql, "INSERT INTO lane_rows") {
		c.rows.Add(1)
	}
}

type fixture struct {
	*factory.World

	org          orgs.ID
	subscription webhooks.Subscription
	counter      *counter
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	counter := &counter{}
	f := &fixture{World: factory.On(t, pgtest.Connect(t, pgtest.URL(t), pgtest.Each(counter.look))), counter: counter}
	f.org, _ = f.Org(t)
	var err error
	f.subscription, err = f.Webhooks.Create(t.Context(), f.org, audit.Operator(), webhooks.Draft{
		URL: "https://127.0.0.1/", Events: []events.Type{events.ContactUpdated, events.MessageSent},
	})
	require.NoError(t, err)
	return f
}

func (f *fixture) record(ctx context.Context, t *testing.T, drafts ...events.Draft) {
	t.Helper()
	_, err := postgres.InTx(ctx, f.DB, f.org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, f.Events.RecordTx(ctx, tx, drafts...)
	})
	require.NoError(t, err)
}

func (f *fixture) count(t *testing.T, sql string) int {
	t.Helper()
	count, err := postgres.One[int](t.Context(), f.DB.Of(f.org), sql, nil)
	require.NoError(t, err)
	return count
}

// links are the columns that other readers find an event by.
type links struct {
	Type                                                   events.Type
	SubjectID, ContactID, MessageID, ResourceID, RequestID ids.Any
}

func (f *fixture) newID() ids.Any { return ids.NewOrg(f.Clock.Now()).Any() }

// A single event and several events are written by different statements.
func TestRecord_LinksAreStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	full := events.Draft{
		Type: events.MessageSent, Subject: f.newID(), Contact: f.newID(), Message: f.newID(), Resource: f.newID(), Data: 1,
	}
	request := f.newID()
	ctx := requestid.With(t.Context(), request)
	f.record(ctx, t, full)
	f.record(ctx, t, full, events.Draft{Type: events.ContactCreated, Data: 1})
	f.record(t.Context(), t, full)
	f.record(t.Context(), t)

	stored, err := postgres.Many[links](t.Context(), f.DB.Of(f.org), `
SELECT type, subject_id, contact_id, message_id, resource_id, request_id FROM events WHERE org_id = @org_id ORDER BY id`, nil)
	require.NoError(t, err)
	want := links{full.Type, full.Subject, full.Contact, full.Message, full.Resource, request}
	outside := want
	outside.RequestID = ids.Any{}
	require.Equal(t, []links{want, want, {Type: events.ContactCreated, RequestID: request}, outside}, stored)
}

// Labelling 1,000 contacts records 1,000 events.
func TestRecord_ManyEvents_OneStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	drafts := make([]events.Draft, 1000)
	for i := range drafts {
		drafts[i] = events.Draft{Type: events.ContactUpdated, Contact: f.newID(), Data: i}
	}
	f.counter.events.Store(0)
	f.counter.rows.Store(0)
	f.record(t.Context(), t, drafts...)
	require.EqualValues(t, 1, f.counter.events.Load())
	require.EqualValues(t, 1, f.counter.rows.Load())
	require.Equal(t, 1000, f.count(t, `SELECT count(*) FROM events WHERE org_id = @org_id`))
	require.Equal(t, 1000, f.count(t, `
SELECT count(*)
FROM webhook_deliveries d
JOIN lane_rows r ON r.lane_id = d.subscription_id AND r.id = d.id AND r.due_at = d.next_attempt_at
WHERE d.org_id = @org_id`))
}

// An event for one subscription is delivered there whatever the subscription names, and
// nowhere else.
func TestRecordFor_OnlyThatSubscription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Webhooks.Create(t.Context(), f.org, audit.Operator(), webhooks.Draft{URL: "https://127.0.0.1/", Events: events.Catalogue()})
	require.NoError(t, err)
	made, err := postgres.InTx(t.Context(), f.DB, f.org, func(tx *postgres.Tx) (ids.Any, error) {
		return f.Events.RecordForTx(t.Context(), tx, f.subscription.ID.Any(), events.Draft{Type: events.CustomerCreated, Data: 1})
	})
	require.NoError(t, err)
	delivered, err := postgres.Many[ids.Any](t.Context(), f.DB.Of(f.org), `
SELECT id FROM webhook_deliveries WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.Equal(t, []ids.Any{made}, delivered)
	require.Equal(t, 1, f.count(t, `SELECT count(*) FROM events WHERE org_id = @org_id AND audience = 'internal'`))
}

// Erasing a contact, timelines and the dashboard read events by these columns.
func TestEvents_FoundByIndex(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, column := range []string{"contact_id", "message_id", "resource_id", "request_id"} {
		plan := pgtest.Plan(t, url, `SELECT id FROM events WHERE org_id = @org_id AND `+column+` = @wanted ORDER BY id`,
			`SET LOCAL enable_seqscan = off`, `SET LOCAL enable_bitmapscan = off`)
		require.Contains(t, plan, "AND ("+column+" = ", plan)
		require.NotContains(t, plan, "Sort", plan)
	}
}
