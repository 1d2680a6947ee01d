package templates

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const sqlLockSync = `
INSERT INTO template_syncs AS s (org_id, account_id, due_at, synced_at)
SELECT @org_id, a.id, @next, @now
FROM accounts a
WHERE a.org_id = @org_id
  AND a.id = @account_id
  AND a.deleted_at IS NULL
ON CONFLICT (org_id, account_id) DO UPDATE
SET due_at = excluded.due_at,
    synced_at = excluded.synced_at`

// lockSync notes that the templates of a number are synced now. The row is locked until the
// transaction ends, so that a second sync of the number reads what the first wrote. A number
// that was disconnected meanwhile is not found.
func lockSync(ctx context.Context, tx *postgres.Tx, account accounts.ID, now time.Time) error {
	locked, err := tx.Exec(ctx, sqlLockSync, postgres.Args{argAccount: account, "now": now, "next": now.Add(syncEvery)})
	if err == nil && locked == 0 {
		err = postgres.NotFound(postgres.ErrNoRow, "account", "")
	}
	return err
}

// A number without a row was never synced, so that its sync is due.
const sqlHoldSync = `
INSERT INTO template_syncs AS s (org_id, account_id, due_at)
SELECT @org_id, a.id, @now
FROM accounts a
WHERE a.org_id = @org_id
  AND a.id = @account_id
  AND a.deleted_at IS NULL
ON CONFLICT (org_id, account_id) DO UPDATE
SET due_at = s.due_at`

// holdSync locks as lockSync does, for a change of one template: a sync that is due stays due.
func holdSync(ctx context.Context, tx *postgres.Tx, account accounts.ID, now time.Time) error {
	locked, err := tx.Exec(ctx, sqlHoldSync, postgres.Args{argAccount: account, "now": now})
	if err == nil && locked == 0 {
		err = postgres.NotFound(postgres.ErrNoRow, "account", "")
	}
	return err
}

const sqlInsertSyncs = `
INSERT INTO template_syncs (org_id, account_id, due_at)
SELECT a.org_id, a.id, @now
FROM accounts a
JOIN organizations o ON o.org_id = a.org_id AND o.frozen_at IS NULL
WHERE a.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM template_syncs s WHERE s.org_id = a.org_id AND s.account_id = a.id)
LIMIT @limit
ON CONFLICT DO NOTHING`

// insertSyncs has numbers that were never synced be due now.
func insertSyncs(ctx context.Context, tx *postgres.Tx, now time.Time) error {
	_, err := tx.Exec(ctx, sqlInsertSyncs, postgres.Args{"now": now, "limit": dueAtOnce})
	return err
}
