package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// Statements on empty tables.
const (
	lockFence        = `SELECT blocked_until FROM lanes WHERE org_id = @org_id AND token = 1 FOR UPDATE`
	lockArming       = "-- locks: lanes to arm\nUPDATE lanes SET armed = true WHERE org_id = @org_id"
	lockLabel        = `SELECT id FROM labels WHERE org_id = @org_id FOR KEY SHARE`
	lockContact      = `SELECT id FROM contacts WHERE org_id = @org_id FOR NO KEY UPDATE`
	lockConversation = `UPDATE conversations SET updated_at = now() WHERE org_id = @org_id`
	lockDeliveries   = `DELETE FROM webhook_deliveries WHERE org_id = @org_id`
	lockKeyHashes    = "\n-- locks: contact_keys by hash\nSELECT pg_advisory_xact_lock(1) WHERE @org_id::uuid IS NOT NULL"
	lockOfAlias      = `
SELECT c.id
FROM conversations c
JOIN contacts k ON k.org_id = c.org_id AND k.id = c.contact_id
WHERE c.org_id = @org_id
FOR UPDATE OF c`
	lockInSubquery = `
SELECT l.id FROM labels l WHERE l.org_id = @org_id AND EXISTS (SELECT FROM contacts c WHERE c.org_id = @org_id FOR UPDATE)`
	lockSkipping = `SELECT id FROM contacts WHERE org_id = @org_id FOR SHARE SKIP LOCKED`
	lockUpsert   = `
INSERT INTO template_syncs (org_id, account_id, due_at)
SELECT org_id, id, now() FROM accounts WHERE org_id = @org_id
ON CONFLICT (org_id, account_id) DO UPDATE SET due_at = now()`
	insertLabels = `
INSERT INTO contact_labels (org_id, contact_id, label_id, account_id)
SELECT org_id, id, id, id FROM contacts WHERE org_id = @org_id
ON CONFLICT DO NOTHING`
	readContact       = `SELECT id FROM contacts WHERE org_id = @org_id`
	lockTwo           = `WITH gone AS (DELETE FROM webhook_deliveries WHERE org_id = @org_id) DELETE FROM events WHERE org_id = @org_id`
	lockTwoDeclared   = "-- locks: events, webhook_deliveries\n" + lockTwo
	lockTwoInverted   = "-- locks: webhook_deliveries, events\n" + lockTwo
	lockTwoIncomplete = "-- locks: events\n" + lockTwo
	lockUnknown       = "-- locks: parcels\n" + lockLabel
	lockOwnRows       = "-- locks: own rows\n" + lockLabel
)

func TestLocks(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	org, _ := factory.On(t, pgtest.Connect(t, url)).Org(t)
	for name, test := range map[string]struct {
		statements []string
		fault      string
	}{
		"the right order":              {[]string{lockLabel, lockContact, lockConversation, lockDeliveries}, ""},
		"an inversion":                 {[]string{lockContact, lockLabel}, "locks labels after contacts"},
		"an inversion over a third":    {[]string{lockLabel, lockDeliveries, lockContact}, "locks contacts after webhook_deliveries"},
		"a table again":                {[]string{lockLabel, lockContact, lockConversation, lockContact}, ""},
		"a read":                       {[]string{lockConversation, readContact}, ""},
		"a lock that does not wait":    {[]string{lockConversation, lockSkipping}, ""},
		"a plain insert":               {[]string{lockConversation, insertLabels}, ""},
		"an upsert":                    {[]string{lockDeliveries, lockUpsert}, "locks template_syncs after webhook_deliveries"},
		"only the table of the alias":  {[]string{lockOfAlias}, ""},
		"the table of the alias":       {[]string{lockDeliveries, lockOfAlias}, "locks conversations after webhook_deliveries"},
		"a lock in a subquery":         {[]string{lockConversation, lockInSubquery}, "locks contacts after conversations"},
		"a declared advisory lock":     {[]string{lockContact, lockKeyHashes}, "locks contact_keys by hash after contacts"},
		"the fence first, arming last": {[]string{lockFence, lockContact, lockDeliveries, lockArming}, ""},
		"the fence late":               {[]string{lockContact, lockFence}, "locks lanes after contacts"},
		"arming early":                 {[]string{lockFence, lockArming, lockContact}, "locks contacts after lanes to arm"},
		"several tables":               {[]string{lockTwo}, "locks [events webhook_deliveries] and must begin with their order"},
		"several tables, declared":     {[]string{lockContact, lockTwoDeclared}, ""},
		"several tables, inverted":     {[]string{lockTwoInverted}, "locks events after webhook_deliveries"},
		"several tables, one declared": {[]string{lockTwoIncomplete}, "locks [webhook_deliveries] and does not declare it"},
		"rows of the transaction":      {[]string{lockContact, lockOwnRows}, ""},
		"an unknown name":              {[]string{lockUnknown}, `declares "parcels"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := locksOf(t, url, org, test.statements)
			if test.fault == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], test.fault)
		})
	}
}

// locksOf runs statements in one transaction, the last one with its commit, and returns the faults.
// A single statement and a transaction before it, on the same connection, take the last lock of the
// order, which must not count for it.
func locksOf(t *testing.T, url string, org ids.Org, statements []string) (faults []string) {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Patient(t, url), MaxConns: 1, Tracers: []pgx.QueryTracer{
		postgres.NewLocks(schema.LockOrder(), func(fault string) { faults = append(faults, fault) }),
	}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = postgres.Many[int](t.Context(), db.Of(org), lockArming, nil)
	require.NoError(t, err)
	for _, transaction := range [][]string{{lockArming}, statements} {
		_, err = postgres.InTx(t.Context(), db, org, func(tx *postgres.Tx) (_ int64, err error) {
			last := len(transaction) - 1
			for _, sql := range transaction[:last] {
				if _, err := tx.Exec(t.Context(), sql, nil); err != nil {
					return 0, err
				}
			}
			tx.Last(transaction[last], nil, func(rows pgx.Rows) error {
				rows.Close()
				return rows.Err()
			})
			return 0, nil
		})
		require.NoError(t, err)
	}
	return faults
}
