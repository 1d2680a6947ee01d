package accounts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// fillEvents records events of two numbers in turn over the last day, and a delivery of each tenth.
func (b fixture) fillEvents(t *testing.T, count int) {
	t.Helper()
	const portion = 100_000
	for from := 0; from < count; from += portion {
		_, err := postgres.InTx(t.Context(), b.DB, b.org, func(tx *postgres.Tx) (int64, error) {
			return tx.Exec(t.Context(), `-- locks: events, webhook_deliveries
WITH made AS (
    INSERT INTO events (org_id, id, key, type, audience, phone_number_id, body)
    SELECT @org_id, one.id, one.id::text, 'message.status', 'public', CASE WHEN n % 2 = 0 THEN @number ELSE '100000000000099' END, '{}'
    FROM (SELECT n, ulid(@now::timestamptz - interval '1 day' * n / @count::int) AS id
          FROM generate_series(@from::int + 1, least(@from::int + @portion::int, @count::int)) AS n) one
    RETURNING id, key
)
INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
SELECT @org_id, id, id, id, key, 'message.status', 'succeeded'
FROM made
WHERE left(key, 1) = '0' AND right(key, 1) = '0'`,
				postgres.Args{"number": number, "now": b.Clock.Now(), "count": count, "from": from, "portion": portion})
		})
		require.NoError(t, err)
	}
}

// The events of a number are found without an index, in turns of a few seconds: the purge ends however many events
// the organization has. What people wrote and who they are goes first.
func TestPurge_MillionsOfEvents_Ends(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	account := b.connect(t, nil)
	_, err := b.Contacts.Create(ctx, b.org, account, contacts.Draft{PhoneNumber: new("+351910000073")})
	require.NoError(t, err)
	count := proof.Sized(20_000, 5_000_000)
	b.fillEvents(t, count)
	left := func(table string) int {
		rows, err := postgres.One[int](ctx, b.DB.Of(b.org), `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, nil)
		require.NoError(t, err)
		return rows
	}
	b.Work(t)
	watch := clock.StartWatch()
	_, err = b.Accounts.Disconnect(ctx, b.org, audit.Operator(), number, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return left("contacts") == 0 }, proof.Sized(20*time.Second, time.Minute), 10*time.Millisecond)
	people := watch.Elapsed()
	b.Pass(t, 2*time.Minute)
	require.Eventually(t, func() bool {
		b.Wake(t)
		return left("accounts") == 0
	}, proof.Sized(30*time.Second, 10*time.Minute), proof.Sized(50*time.Millisecond, time.Second))
	t.Logf("%d events: contacts gone after %s, everything after %s", count, people, watch.Elapsed())
	require.Equal(t, count/2, left("events"), "those of the other number stay")
	orphans, err := postgres.One[int](ctx, b.DB.Of(b.org), `
SELECT count(*)
FROM webhook_deliveries d
WHERE d.org_id = @org_id
  AND NOT EXISTS (SELECT FROM events e WHERE e.org_id = @org_id AND e.id = d.event_id)`, nil)
	require.NoError(t, err)
	require.Zero(t, orphans)
}
