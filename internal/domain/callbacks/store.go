package callbacks

import (
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Whether the organization has the number in that generation is asked by the insert
// itself: who was asked before may be somebody else by now.
const sqlStore = `
WITH given AS MATERIALIZED (
    SELECT *
    FROM unnest(@orgs::uuid[], @ids::uuid[], @lanes::uuid[], @numbers::text[], @generations::bigint[], @accounts::text[], @bodies::bytea[])
        WITH ORDINALITY AS given (org_id, id, lane_id, phone_number_id, generation, business_account_id, body, place)
), judged AS MATERIALIZED (
    SELECT g.place, g.org_id, g.id, g.lane_id, g.phone_number_id, g.business_account_id, o.frozen_at IS NOT NULL AS frozen,
        CASE WHEN g.phone_number_id IS NOT NULL
            THEN EXISTS (
                SELECT FROM accounts a
                WHERE a.org_id = g.org_id AND a.phone_number_id = g.phone_number_id AND a.generation = g.generation
                  AND a.deleted_at IS NULL)
            ELSE EXISTS (
                SELECT FROM accounts a
                WHERE a.org_id = g.org_id AND a.business_account_id = g.business_account_id AND a.deleted_at IS NULL)
        END AS held
    FROM given g
    JOIN organizations o ON o.org_id = g.org_id
), kept AS (
    INSERT INTO callbacks (org_id, id, phone_number_id, generation, business_account_id, body)
    SELECT j.org_id, j.id, j.phone_number_id, g.generation, j.business_account_id, g.body
    FROM judged j
    JOIN given g USING (place)
    WHERE j.held AND NOT j.frozen
), opened AS (
    ` + lanes.Opening + `
    SELECT DISTINCT lane_id, org_id, '` + laneKind + `'
    FROM judged j
    WHERE held AND NOT frozen AND NOT EXISTS (SELECT FROM lanes l WHERE l.lane_id = j.lane_id)
    ORDER BY lane_id
    ON CONFLICT DO NOTHING
), waiting AS (
    ` + lanes.Adding + `
    SELECT lane_id, 0, @now, id, NULL FROM judged WHERE held AND NOT frozen
)
SELECT place, frozen, held FROM judged`

type judgement struct {
	Place  int
	Frozen bool
	Held   bool
}

// columnsOf are parts turned on their side.
func columnsOf(parts []Part, now time.Time) postgres.Args {
	count := len(parts)
	owners, all, waiting := make([]orgs.ID, count), make([]ID, count), make([]ids.Any, count)
	numbers, accounts := make([]*string, count), make([]*string, count)
	generations, bodies := make([]int64, count), make([][]byte, count)
	for i, part := range parts {
		owners[i], all[i], waiting[i] = part.OrgID, ids.New[Kind](now), part.lane()
		numbers[i], accounts[i] = orNil(part.NumberID), orNil(part.BusinessAccountID)
		generations[i], bodies[i] = part.Generation, part.Body
	}
	return postgres.Args{
		"orgs": owners, "ids": all, "lanes": waiting, "numbers": numbers, "generations": generations, "accounts": accounts,
		"bodies": bodies, "now": now,
	}
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// stored is a callback as it was kept.
type stored struct {
	ID                ID
	PhoneNumberID     *string
	Generation        *int64
	BusinessAccountID *string
	Body              []byte
}

func (s stored) part(org orgs.ID) Part {
	part := Part{OrgID: org, Body: s.Body}
	if s.PhoneNumberID != nil {
		part.NumberID = *s.PhoneNumberID
	}
	if s.BusinessAccountID != nil {
		part.BusinessAccountID = *s.BusinessAccountID
	}
	return part
}

const (
	sqlBodies = `
SELECT id, phone_number_id, generation, business_account_id, body
FROM callbacks
WHERE org_id = @org_id
  AND id = ANY (@ids)
  AND id BETWEEN @least AND @greatest`

	sqlUnapplied = `
SELECT id, phone_number_id, generation, business_account_id, ''::bytea AS body
FROM callbacks
WHERE org_id = @org_id
  AND NOT applied
ORDER BY id`

	sqlApplied = `
UPDATE callbacks
SET applied = true
WHERE org_id = @org_id
  AND id = ANY (@ids)
  AND id BETWEEN @least AND @greatest`

	sqlInsert = `
INSERT INTO callbacks (org_id, id, phone_number_id, generation, business_account_id, body)
VALUES (@org_id, @id, @phone_number_id, @generation, @business_account_id, @body)`

	// Nothing is kept of a number that was disconnected meanwhile.
	sqlSetAside = `
INSERT INTO callback_items (org_id, id, state, reason, field, phone_number_id, generation, business_account_id, body)
SELECT @org_id, g.id, @state, @reason, g.field, g.phone_number_id, a.generation, g.business_account_id, g.body
FROM unnest(@ids::uuid[], @fields::text[], @numbers::text[], @accounts::text[], @bodies::bytea[])
    AS g (id, field, phone_number_id, business_account_id, body)
LEFT JOIN accounts a ON a.org_id = @org_id AND a.phone_number_id = g.phone_number_id AND a.deleted_at IS NULL
WHERE g.phone_number_id IS NULL OR a.id IS NOT NULL`

	sqlItems = `
SELECT org_id, id, state, reason, field, phone_number_id, generation, business_account_id, body
FROM callback_items
WHERE (@of::uuid IS NULL OR org_id = @of)
  AND (@state = '' OR state = @state)
  AND (@ids::uuid[] IS NULL OR id = ANY (@ids))
ORDER BY id DESC
LIMIT @limit`

	sqlTakeItems = `
WITH taken AS (
    DELETE FROM callback_items
    WHERE org_id = @org_id
      AND id = ANY (@ids)
    RETURNING org_id, id, state, reason, field, phone_number_id, generation, business_account_id, body
)
SELECT org_id, id, state, reason, field, phone_number_id, generation, business_account_id, body FROM taken ORDER BY id`

	sqlForgetStored = `
DELETE FROM callbacks
WHERE org_id = @org_id
  AND id IN (
      SELECT id
      FROM callbacks
      WHERE org_id = @org_id AND id > @after AND phone_number_id = @phone_number_id AND generation = @generation
      ORDER BY id
      LIMIT @limit)
RETURNING id`

	sqlForgetItems = `
DELETE FROM callback_items
WHERE org_id = @org_id
  AND id IN (
      SELECT id
      FROM callback_items
      WHERE org_id = @org_id AND id > @after AND phone_number_id = @phone_number_id AND generation = @generation
      ORDER BY id
      LIMIT @limit)
RETURNING id`
)

// mostItems bounds a list.
const mostItems = 10_000

func (f Filter) args() postgres.Args {
	limit := f.Limit
	if limit <= 0 || limit > mostItems {
		limit = mostItems
	}
	var of *orgs.ID
	if !f.OrgID.IsZero() {
		of = &f.OrgID
	}
	return postgres.Args{"of": of, "state": f.State, "ids": f.IDs, "limit": limit}
}
