package messages

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// parkedFor is how long a status or a revocation waits for its message. firstLook is when the message
	// is looked for again the first time; that of a revocation is looked for again and again, this much later
	// each time.
	parkedFor = 15 * time.Minute
	firstLook = 20 * time.Second
)

type parkedKind struct{}

func (parkedKind) Prefix() string { return "prk_" }

// parked is a status or a revocation whose message is not known.
type parked struct {
	ProviderID string
	ID         ids.Public[parkedKind]
	Body       []byte

	// status is the status, or revokePrefix and the provider's id of the revocation.
	status string
}

// over tells that the time to wait has ended.
func (p *parked) over(now time.Time) bool { return now.Sub(p.ID.CreatedAt()) >= parkedFor }

// revokePrefix begins the column status of a revocation. No status of the provider contains a space.
const revokePrefix = "revoke "

const sqlTakeParked = `
WITH taken AS (
    DELETE FROM parked_statuses
    WHERE org_id = @org_id
      AND provider_id = ANY (@provider_ids)
      AND NOT starts_with(status, '` + revokePrefix + `')
    RETURNING provider_id, id, body
)
SELECT provider_id, id, body FROM taken ORDER BY id`

// takeParked takes the statuses that wait for provider ids.
func takeParked(ctx context.Context, tx *postgres.Tx, providerIDs []string) ([]parked, error) {
	return postgres.Many[parked](ctx, tx, sqlTakeParked, postgres.Args{"provider_ids": providerIDs})
}

const sqlOverdueNumbers = `
SELECT org_id, account_id, bool_or(starts_with(status, '` + revokePrefix + `')) AS revoked
FROM parked_statuses
WHERE due_at <= @now
GROUP BY org_id, account_id
ORDER BY min(due_at), org_id, account_id
LIMIT 100`

type number struct {
	OrgID     orgs.ID
	AccountID accounts.ID
	// Revoked tells that revocations are among what is overdue.
	Revoked bool
}

func overdueNumbers(ctx context.Context, db *postgres.DB, now time.Time) ([]number, error) {
	return postgres.Many[number](ctx, db.System("parked statuses"), sqlOverdueNumbers, postgres.Args{"now": now})
}

const sqlOverdueOf = `
SELECT provider_id, id, body
FROM parked_statuses
WHERE org_id = @org_id
  AND account_id = @account_id
  AND due_at <= @now
  AND starts_with(status, '` + revokePrefix + `') = @revoked
ORDER BY due_at, id
LIMIT 500`

// overdueOf returns the overdue revocations of a number, or its overdue statuses.
func overdueOf(ctx context.Context, tx *postgres.Tx, of accounts.ID, revoked bool, now time.Time) ([]parked, error) {
	return postgres.Many[parked](ctx, tx, sqlOverdueOf, postgres.Args{argAccount: of, "revoked": revoked, "now": now})
}

// ended is a parked row that was looked at, and whether it waits no more.
type ended struct {
	row  parked
	over bool
	// due is when the row is looked at again, if it is not over.
	due time.Time
}

const sqlTakeOverdue = `
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(@provider_ids::text[], @ids::uuid[], @over::boolean[], @due::timestamptz[])
        AS given (provider_id, id, over, due_at)
), later AS (
    UPDATE parked_statuses p
    SET due_at = g.due_at
    FROM given g
    WHERE p.org_id = @org_id AND p.provider_id = g.provider_id AND p.id = g.id AND NOT g.over
)
DELETE FROM parked_statuses p
USING given g
WHERE p.org_id = @org_id AND p.provider_id = g.provider_id AND p.id = g.id AND g.over
RETURNING p.id`

// takeOverdue takes the rows that are over. One that another transaction has taken is not returned.
func takeOverdue(ctx context.Context, tx *postgres.Tx, all []ended) (map[ids.Public[parkedKind]]bool, error) {
	taken, err := postgres.Many[ids.Public[parkedKind]](ctx, tx, sqlTakeOverdue, postgres.Columns(all,
		postgres.Col("provider_ids", func(e ended) string { return e.row.ProviderID }),
		postgres.Col("ids", func(e ended) ids.Public[parkedKind] { return e.row.ID }),
		postgres.Col("over", func(e ended) bool { return e.over }),
		postgres.Col("due", func(e ended) time.Time { return e.due })))
	found := make(map[ids.Public[parkedKind]]bool, len(taken))
	for _, id := range taken {
		found[id] = true
	}
	return found, err
}
