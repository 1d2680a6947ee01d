package setuplinks

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const columns = `id, customer_id, token_last4, expires_at, consumed_at, revoked_at, completing_until, account_id, session_hash,
       success_redirect_url, failure_redirect_url,
       CASE WHEN consumed_at IS NOT NULL THEN 'consumed'
            WHEN revoked_at IS NOT NULL THEN 'revoked'
            WHEN expires_at <= @now THEN 'expired'
            ELSE 'active' END AS status`

const sqlInsertLink = `
INSERT INTO setup_links (org_id, id, customer_id, token_hash, token_last4, expires_at, success_redirect_url, failure_redirect_url)
VALUES (@org_id, @id, @customer_id, @token_hash, @token_last4, @expires_at, @success, @failure)`

func insertLink(ctx context.Context, tx *postgres.Tx, l Link, hash []byte) error {
	_, err := tx.Exec(ctx, sqlInsertLink, postgres.Args{
		"id": l.ID, forCustomer: l.CustomerID, "token_hash": hash, "token_last4": l.TokenLast4, "expires_at": l.ExpiresAt,
		"success": l.SuccessRedirectURL, "failure": l.FailureRedirectURL,
	})
	return err
}

const (
	sqlLinkByID = `
SELECT ` + columns + `
FROM setup_links
WHERE org_id = @org_id
  AND id = @id`
	sqlLinkOfCustomer = sqlLinkByID + `
  AND customer_id = @customer_id`
	sqlLinkByHash = `
SELECT ` + columns + `
FROM setup_links
WHERE org_id = @org_id
  AND token_hash = @token_hash`
)

func linkByID(ctx context.Context, scope postgres.Scope, id ID, now time.Time) (Link, error) {
	return postgres.One[Link](ctx, scope, sqlLinkByID, postgres.Args{"id": id, "now": now})
}

func linkOfCustomer(ctx context.Context, scope postgres.Scope, customer customers.ID, id ID, now time.Time) (Link, error) {
	return postgres.One[Link](ctx, scope, sqlLinkOfCustomer, postgres.Args{forCustomer: customer, "id": id, "now": now})
}

func linkByHash(ctx context.Context, scope postgres.Scope, hash []byte, now time.Time) (Link, error) {
	return postgres.One[Link](ctx, scope, sqlLinkByHash, postgres.Args{"token_hash": hash, "now": now})
}

func lockLinkByID(ctx context.Context, tx *postgres.Tx, id ID, now time.Time) (Link, error) {
	return postgres.One[Link](ctx, tx, sqlLinkByID+` FOR UPDATE`, postgres.Args{"id": id, "now": now})
}

func lockLink(ctx context.Context, tx *postgres.Tx, customer customers.ID, id ID, now time.Time) (Link, error) {
	return postgres.One[Link](ctx, tx, sqlLinkOfCustomer+` FOR UPDATE`, postgres.Args{forCustomer: customer, "id": id, "now": now})
}

const sqlListLinks = `
SELECT ` + columns + `
FROM setup_links
WHERE org_id = @org_id
  AND customer_id = @customer_id
  AND id < @after
ORDER BY id DESC
LIMIT @limit`

func listLinks(
	ctx context.Context, scope postgres.Scope, customer customers.ID, slice paging.Slice[ID], now time.Time,
) (paging.Page[Link, ID], error) {
	args := postgres.Args{forCustomer: customer, "now": now}
	return paging.Read(ctx, scope, sqlListLinks, args, slice, func(l Link) ID { return l.ID })
}

const sqlUpdateLink = `
UPDATE setup_links
SET success_redirect_url = @success,
    failure_redirect_url = @failure,
    revoked_at = @revoked_at
WHERE org_id = @org_id
  AND id = @id`

func updateLink(ctx context.Context, tx *postgres.Tx, l Link) error {
	_, err := tx.Exec(ctx, sqlUpdateLink, postgres.Args{
		"id": l.ID, "success": l.SuccessRedirectURL, "failure": l.FailureRedirectURL, "revoked_at": l.RevokedAt,
	})
	return err
}

const sqlRevokeAll = `
UPDATE setup_links
SET revoked_at = @now
WHERE org_id = @org_id
  AND customer_id = @customer_id
  AND consumed_at IS NULL
  AND revoked_at IS NULL
  AND expires_at > @now`

func revokeAll(ctx context.Context, tx *postgres.Tx, customer customers.ID, now time.Time) error {
	_, err := tx.Exec(ctx, sqlRevokeAll, postgres.Args{forCustomer: customer, "now": now})
	return err
}

const (
	sqlTakeLease = `
UPDATE setup_links
SET completing_until = @until
WHERE org_id = @org_id
  AND id = @id`
	// A request whose lease lapsed leaves that of the next one alone.
	sqlReleaseLease = `
UPDATE setup_links
SET completing_until = NULL
WHERE org_id = @org_id
  AND id = @id
  AND completing_until = @until`
)

func takeLease(ctx context.Context, tx *postgres.Tx, id ID, until time.Time) error {
	_, err := tx.Exec(ctx, sqlTakeLease, postgres.Args{"id": id, "until": until})
	return err
}

func releaseLease(ctx context.Context, tx *postgres.Tx, id ID, until time.Time) error {
	_, err := tx.Exec(ctx, sqlReleaseLease, postgres.Args{"id": id, "until": until})
	return err
}

// A link is consumed once: a second transaction finds no row.
const sqlConsume = `
UPDATE setup_links
SET consumed_at = @now,
    completing_until = NULL,
    account_id = @account_id,
    session_hash = @session_hash
WHERE org_id = @org_id
  AND id = @id
  AND consumed_at IS NULL
  AND revoked_at IS NULL
  AND expires_at > @now
RETURNING ` + columns

func consumeLink(ctx context.Context, tx *postgres.Tx, id ID, account accounts.ID, session []byte, now time.Time) (Link, error) {
	return postgres.One[Link](ctx, tx, sqlConsume, postgres.Args{"id": id, "account_id": account, "session_hash": session, "now": now})
}
