package contacts

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// keyRow is a row of contact_keys.
type keyRow struct {
	Key       string
	ContactID ID
	Since     time.Time
	RetiredAt *time.Time
}

// What do the owners of these keys go by, now and before? One look-up for each: a plan made
// for the average organization would read all keys of a large one instead.
const sqlKeysAround = `
SELECT k.key, k.contact_id, k.since, k.retired_at
FROM (
    SELECT DISTINCT o.contact_id
    FROM unnest(@keys::text[]) AS wanted (key)
    JOIN LATERAL (
        SELECT contact_id FROM contact_keys WHERE org_id = @org_id AND account_id = @account_id AND key = wanted.key OFFSET 0
    ) AS o ON true
) AS owners
JOIN LATERAL (
    SELECT key, contact_id, since, retired_at FROM contact_keys WHERE org_id = @org_id AND contact_id = owners.contact_id OFFSET 0
) AS k ON true`

func keysAround(ctx context.Context, tx *postgres.Tx, of accounts.ID, keys []string) ([]keyRow, error) {
	return postgres.Many[keyRow](ctx, tx, sqlKeysAround, postgres.Args{argAccount: of, "keys": keys})
}

// A key that nobody has cannot be locked as a row; all keys are locked by their text, in
// the order of their locks.
const sqlLockKeys = `
SELECT pg_advisory_xact_lock(number)
FROM (SELECT DISTINCT hashtextextended(@account_id::text || key, 1) AS number FROM unnest(@keys::text[]) AS key ORDER BY number) AS numbers`

func lockKeys(ctx context.Context, tx *postgres.Tx, of accounts.ID, keys map[string]bool) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, sqlLockKeys, postgres.Args{argAccount: of.String(), "keys": slices.Collect(maps.Keys(keys))})
	return err
}

const sqlPutKeys = `
INSERT INTO contact_keys (org_id, account_id, key, contact_id, since, retired_at)
SELECT @org_id, @account_id, key, contact_id, since, retired_at
FROM unnest(@keys::text[], @contact_ids::uuid[], @sinces::timestamptz[], @retired_ats::timestamptz[])
    AS given (key, contact_id, since, retired_at)
ON CONFLICT (org_id, account_id, key) DO UPDATE
SET contact_id = EXCLUDED.contact_id,
    since = EXCLUDED.since,
    retired_at = EXCLUDED.retired_at`

func putKeys(ctx context.Context, tx *postgres.Tx, of accounts.ID, entries []*entry) error {
	if len(entries) == 0 {
		return nil
	}
	count := len(entries)
	keys, owners := make([]string, count), make([]ID, count)
	sinces, retired := make([]time.Time, count), make([]*time.Time, count)
	for i, e := range entries {
		keys[i], owners[i], sinces[i], retired[i] = e.key, e.owner.last().ID, e.since, e.retired
	}
	_, err := tx.Exec(ctx, sqlPutKeys, postgres.Args{
		argAccount: of, "keys": keys, "contact_ids": owners, "sinces": sinces, "retired_ats": retired,
	})
	return err
}
