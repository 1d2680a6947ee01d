package apikeys

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

const keyColumns = `id, name, last4, expires_at, revoked_at`

const sqlInsertKey = `
INSERT INTO api_keys (org_id, id, name, hash, last4, expires_at)
VALUES (@org_id, @id, @name, @hash, @last4, @expires_at)`

func insertKey(ctx context.Context, tx *postgres.Tx, k Key, hash []byte) error {
	_, err := tx.Exec(ctx, sqlInsertKey, postgres.Args{
		"id": k.ID, "name": k.Name, "hash": hash, "last4": k.Last4, "expires_at": k.ExpiresAt,
	})
	return err
}

// One statement returns the caller and whether the key may be used: it runs on every request.
const sqlCallerByHash = `
SELECT o.org_id, k.id AS key_id, k.expires_at, k.revoked_at, o.epoch, o.frozen_at,
       o.subscription_status, o.trial_ends_at, o.suspended_at,
       p.api_access, p.customers, p.rate_per_second, p.rate_burst,
       p.messages_per_month, o.require_opt_in
FROM organizations o
JOIN plans p ON p.name = o.plan
LEFT JOIN api_keys k ON k.org_id = o.org_id AND k.hash = @hash
WHERE o.org_id = @org_id`

func callerByHash(ctx context.Context, scope postgres.Scope, hash []byte, others ...postgres.Statement) (caller Caller, err error) {
	first := postgres.IntoOne(&caller, sqlCallerByHash, postgres.Args{"hash": hash})
	err = postgres.Batch(ctx, scope, append([]postgres.Statement{first}, others...)...)
	return caller, err
}

const sqlHasKey = `
SELECT EXISTS (
  SELECT
  FROM api_keys
  WHERE org_id = @org_id
    AND hash = @hash
)`

func hasKey(ctx context.Context, scope postgres.Scope, hash []byte) (bool, error) {
	return postgres.One[bool](ctx, scope, sqlHasKey, postgres.Args{"hash": hash})
}

const sqlKeyByID = `
SELECT ` + keyColumns + `
FROM api_keys
WHERE org_id = @org_id
  AND id = @id`

func keyByID(ctx context.Context, scope postgres.Scope, id ID) (Key, error) {
	return postgres.One[Key](ctx, scope, sqlKeyByID, postgres.Args{"id": id})
}

func lockKey(ctx context.Context, tx *postgres.Tx, id ID) (Key, error) {
	return postgres.One[Key](ctx, tx, sqlKeyByID+` FOR UPDATE`, postgres.Args{"id": id})
}

const sqlListKeys = `
SELECT ` + keyColumns + `
FROM api_keys
WHERE org_id = @org_id
ORDER BY id`

func listKeys(ctx context.Context, scope postgres.Scope) ([]Key, error) {
	return postgres.Many[Key](ctx, scope, sqlListKeys, nil)
}

const sqlRevokeKey = `
UPDATE api_keys
SET revoked_at = @revoked_at
WHERE org_id = @org_id
  AND id = @id`

func revokeKey(ctx context.Context, tx *postgres.Tx, k Key) error {
	_, err := tx.Exec(ctx, sqlRevokeKey, postgres.Args{"id": k.ID, "revoked_at": k.RevokedAt})
	return err
}
