package contacts

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts/identity"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// around is a contact with all its keys, current and retired, as arrays of the same length.
type around struct {
	Contact

	Keys       []string
	Sinces     []time.Time
	RetiredAts []*time.Time
}

func (a around) keys() []identity.Key {
	keys := make([]identity.Key, len(a.Keys))
	for i, key := range a.Keys {
		keys[i] = identity.Key{Key: key, ContactID: a.ID, Since: a.Sinces[i], RetiredAt: a.RetiredAts[i]}
	}
	return keys
}

// The contacts that the given keys belong to, with all keys that they have. OFFSET 0 keeps one
// look-up for each: a plan made for the average organization would read all keys of a large one.
const sqlContactsAround = `
SELECT ` + columns + `, keys, sinces, retired_ats
FROM (
    SELECT DISTINCT o.contact_id
    FROM unnest(@keys::text[]) AS wanted (key)
    JOIN LATERAL (
        SELECT contact_id FROM contact_keys WHERE org_id = @org_id AND account_id = @account_id AND key = wanted.key OFFSET 0
    ) AS o ON true
) AS owners
JOIN LATERAL (
    SELECT ` + columns + ` FROM contacts WHERE org_id = @org_id AND id = owners.contact_id AND departure IS NULL OFFSET 0
) AS c ON true
JOIN LATERAL (
    SELECT array_agg(key) AS keys, array_agg(since) AS sinces, array_agg(retired_at) AS retired_ats
    FROM contact_keys
    WHERE org_id = @org_id
      AND contact_id = owners.contact_id
) AS k ON true`

func contactsAround(ctx context.Context, scope postgres.Scope, of accounts.ID, keys []string) ([]around, error) {
	return postgres.Many[around](ctx, scope, sqlContactsAround, postgres.Args{argAccount: of, "keys": keys})
}

// A key without a row cannot be locked as a row, so all keys are locked by a hash of their text,
// in the order of the hashes.
const sqlLockKeys = `-- locks: contact_keys by hash
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

func putKeys(ctx context.Context, tx *postgres.Tx, of accounts.ID, rows []identity.Key) error {
	if len(rows) == 0 {
		return nil
	}
	args := postgres.Columns(rows,
		postgres.Col("keys", func(k identity.Key) string { return k.Key }),
		postgres.Col("contact_ids", func(k identity.Key) ID { return k.ContactID }),
		postgres.Col("sinces", func(k identity.Key) time.Time { return k.Since }),
		postgres.Col("retired_ats", func(k identity.Key) *time.Time { return k.RetiredAt }))
	args[argAccount] = of
	_, err := tx.Exec(ctx, sqlPutKeys, args)
	return err
}
