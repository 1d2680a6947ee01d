package callbacks

import (
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// sqlStore stores the parts whose number the organization has, in that generation. The check is
// part of the statement because the directory's cache may be stale.
const sqlStore = `
WITH given AS MATERIALIZED (
    SELECT *
    FROM unnest(@orgs::uuid[], @ids::uuid[], @lanes::uuid[], @numbers::text[], @generations::bigint[], @accounts::text[], @befores::uuid[],
                @bodies::bytea[])
        WITH ORDINALITY AS given (org_id, id, lane_id, phone_number_id, generation, business_account_id, connected_before, body, place)
), judged AS MATERIALIZED (
    SELECT g.place, o.frozen_at IS NOT NULL AS frozen,
        CASE WHEN g.phone_number_id IS NOT NULL
            THEN EXISTS (
                SELECT FROM accounts a
                WHERE a.org_id = g.org_id AND a.phone_number_id = g.phone_number_id AND a.generation = g.generation
                  AND a.deleted_at IS NULL AND (g.connected_before IS NULL OR a.id < g.connected_before))
            ELSE EXISTS (
                SELECT FROM accounts a
                WHERE a.org_id = g.org_id AND a.business_account_id = g.business_account_id AND a.deleted_at IS NULL
                  AND (g.connected_before IS NULL OR a.id < g.connected_before))
        END AS owned,
        EXISTS (SELECT FROM lanes l WHERE l.lane_id = g.lane_id) AS open
    FROM given g
    JOIN organizations o ON o.org_id = g.org_id
), kept AS (
    INSERT INTO callbacks (org_id, id, phone_number_id, generation, business_account_id, body)
    SELECT g.org_id, g.id, g.phone_number_id, g.generation, g.business_account_id, g.body
    FROM judged j
    JOIN given g USING (place)
    WHERE j.owned AND NOT j.frozen
)
SELECT place, frozen, owned, open FROM judged`

// judgement is what sqlStore found of one part. Place counts from 1.
type judgement struct {
	Place  int
	Frozen bool
	Owned  bool // the organization has the number or business account
	Open   bool // its lane exists
}

// columnsOf are the arrays of sqlStore.
func columnsOf(parts []Part, stored []ID) postgres.Args {
	args := postgres.Columns(parts,
		postgres.Col("orgs", func(p Part) orgs.ID { return p.OrgID }),
		postgres.Col("lanes", Part.lane),
		postgres.Col("numbers", func(p Part) *string { return orNil(p.NumberID) }),
		postgres.Col("generations", func(p Part) int64 { return p.Generation }),
		postgres.Col("accounts", func(p Part) *string { return orNil(p.BusinessAccountID) }),
		postgres.Col("befores", Part.connectedBefore),
		postgres.Col("bodies", func(p Part) []byte { return p.Body }))
	args["ids"] = stored
	return args
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// stored is a callback as it is stored.
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
	if s.PhoneNumberID != nil && s.Generation != nil {
		part.Generation = *s.Generation
	}
	if s.BusinessAccountID != nil {
		part.BusinessAccountID = *s.BusinessAccountID
	}
	return part
}

const (
	// Each is looked up alone. With = ANY (@ids) the planner reads all callbacks between the least and the greatest id.
	sqlBodies = `
SELECT found.id, found.phone_number_id, found.generation, found.business_account_id, found.body
FROM unnest(@ids::uuid[]) AS wanted (id)
JOIN LATERAL (
    SELECT id, phone_number_id, generation, business_account_id, body
    FROM callbacks
    WHERE org_id = @org_id AND id = wanted.id AND id BETWEEN @least AND @greatest
    LIMIT 1
) AS found ON true`

	sqlInsert = `
INSERT INTO callbacks (org_id, id, phone_number_id, generation, business_account_id, body)
VALUES (@org_id, @id, @phone_number_id, @generation, @business_account_id, @body)`

	// Drops items whose number was disconnected meanwhile: the purge of the number may have ended, and
	// nothing would delete them later.
	sqlKeepItems = `
INSERT INTO callback_items (org_id, id, state, reason, field, phone_number_id, generation, business_account_id, body)
SELECT @org_id, g.id, @state, @reason, g.field, g.phone_number_id, nullif(g.generation, 0), g.business_account_id, g.body
FROM unnest(@ids::uuid[], @fields::text[], @generations::bigint[], @numbers::text[], @accounts::text[], @bodies::bytea[])
    AS g (id, field, generation, phone_number_id, business_account_id, body)
LEFT JOIN accounts a
    ON a.org_id = @org_id AND a.phone_number_id = g.phone_number_id AND a.generation = g.generation AND a.deleted_at IS NULL
WHERE g.phone_number_id IS NULL OR a.id IS NOT NULL`

	sqlKeepBody = `
INSERT INTO callback_items (org_id, id, state, reason, field, phone_number_id, generation, business_account_id, body)
SELECT org_id, @new_id, @state, @reason, '', phone_number_id, generation, business_account_id, body
FROM callbacks
WHERE org_id = @org_id
  AND id = @id`

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

	// No index serves the number: each portion reads the next rows of the organization.
	sqlForgetStored = `
WITH walked AS MATERIALIZED (
    SELECT id, phone_number_id = @phone_number_id AND generation = @generation AS doomed
    FROM callbacks
    WHERE org_id = @org_id
      AND id > @after
    ORDER BY id
    LIMIT 10 * @limit
), gone AS (
    DELETE FROM callbacks
    WHERE org_id = @org_id
      AND id = ANY (ARRAY (SELECT id FROM walked WHERE doomed))
)
SELECT id FROM walked ORDER BY id DESC LIMIT 1`

	sqlForgetItems = `
WITH walked AS MATERIALIZED (
    SELECT id, phone_number_id = @phone_number_id AND generation = @generation AS doomed
    FROM callback_items
    WHERE org_id = @org_id
      AND id > @after
    ORDER BY id
    LIMIT 10 * @limit
), gone AS (
    DELETE FROM callback_items
    WHERE org_id = @org_id
      AND id = ANY (ARRAY (SELECT id FROM walked WHERE doomed))
)
SELECT id FROM walked ORDER BY id DESC LIMIT 1`
)

// mostItems is the longest list.
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
