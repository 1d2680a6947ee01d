package contacts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// An organization with a label and two numbers, and another with a number.
const sqlPlaces = `
WITH people AS (
    INSERT INTO organizations (org_id, name, plan, subscription_status, stop_keywords, updated_at)
    VALUES (@here, 'Here', 'platform', 'active', '{}', @now), (@there, 'There', 'platform', 'active', '{}', @now)
), team AS (
    INSERT INTO teams (org_id, id, name) VALUES (@here, @here, 'Here'), (@there, @there, 'There')
), label AS (
    INSERT INTO labels (org_id, id, team_id, name, name_key, color, updated_at) VALUES (@here, @label, @here, 'L', 'l', 'gray', @now)
)
INSERT INTO accounts (org_id, id, team_id, business_account_id, status, subscribed, checked_at, token, generation, due_at, updated_at)
VALUES (@here, @here, @here, '1', 'connected', true, @now, '', 1, @now, @now), (@here, @there, @here, '1', 'connected', true, @now, '', 1, @now, @now),
       (@there, @there, @there, '1', 'connected', true, @now, '', 1, @now, @now)`

// Many contacts of the first organization, and a few of the other, whose names start with letters
// that no contact of the first has.
const sqlFill = `
WITH people AS (
    SELECT @here::uuid AS org_id, CASE WHEN n % 2 = 0 THEN @here::uuid ELSE @there END AS account_id, ulid(@now::timestamptz + n * interval '1 second') AS id, md5(n::text) AS word, n,
           @now::timestamptz + n * interval '1 second' AS at
    FROM generate_series(1, 12000) AS n
    UNION ALL
    SELECT @there::uuid, @there, ulid(@now), 'zeta' || n, n, @now FROM generate_series(1, 500) AS n
), made AS (
    INSERT INTO contacts (org_id, id, account_id, phone_number, bsuid, username, username_key, name, name_key, email, email_key, marketing, updated_at)
    SELECT org_id, id, account_id, '+351' || 900000000 + n, 'PT.' || n, word, word, word, word, word || '@x', word || '@x', 'unknown', at FROM people
), keys AS (
    INSERT INTO contact_keys (org_id, account_id, key, contact_id, since)
    SELECT org_id, account_id, 'n351' || 900000000 + n, id, at FROM people UNION ALL SELECT org_id, account_id, 'bPT.' || n, id, at FROM people
)
INSERT INTO contact_labels (org_id, contact_id, label_id, account_id)
SELECT org_id, id, @label, account_id FROM people WHERE org_id = @here AND n % 3 = 0`

// planFixture is a database with the organization, and the statements that are planned.
type planFixture struct {
	url     string
	db      *postgres.DB
	org     ids.Org
	account accounts.ID
	other   accounts.ID
	label   labels.ID
}

func newPlanFixture(t *testing.T, statements ...string) planFixture {
	t.Helper()
	p := planFixture{url: pgtest.URL(t), org: ids.NewOrg(pgtest.Start())}
	p.db = pgtest.Connect(t, p.url)
	there, label := ids.NewOrg(pgtest.Start()), ids.Floor[labelKind](pgtest.Start())
	require.NoError(t, p.account.UnmarshalText([]byte(p.org.String())))
	require.NoError(t, p.other.UnmarshalText([]byte(there.String())))
	require.NoError(t, p.label.UnmarshalText([]byte(label.String())))
	_, err := postgres.InSystemTx(t.Context(), p.db, "test", func(tx *postgres.Tx) (struct{}, error) {
		for _, sql := range append([]string{`SET LOCAL statement_timeout = '60s'`, sqlPlaces}, statements...) {
			_, err := tx.Exec(t.Context(), sql, postgres.Args{"here": p.org, "there": there, "label": label, "now": pgtest.Start()})
			require.NoError(t, err)
		}
		return struct{}{}, nil
	})
	require.NoError(t, err)
	return p
}

// Many other organizations, so that the planner estimates few contacts for each.
const sqlOthers = `
WITH others AS (
    SELECT md5(n::text)::uuid AS id FROM generate_series(1, 300) AS n
), people AS (
    INSERT INTO organizations (org_id, name, plan, subscription_status, stop_keywords, updated_at)
    SELECT id, 'Other', 'platform', 'active', '{}', @now FROM others
), team AS (
    INSERT INTO teams (org_id, id, name) SELECT id, id, 'Other' FROM others
), account AS (
    INSERT INTO accounts (org_id, id, team_id, business_account_id, status, subscribed, checked_at, token, generation, due_at, updated_at)
    SELECT id, id, id, '1', 'connected', true, @now, '', 1, @now, @now FROM others
)
INSERT INTO contacts (org_id, id, account_id, phone_number, username, username_key, name, name_key, email, email_key, marketing, updated_at)
SELECT id, ulid(@now::timestamptz + n * interval '1 second'), id, '+351' || 900000000 + n, 'u' || n, 'u' || n, 'n' || n, 'n' || n, 'e' || n, 'e' || n, 'unknown', @now
FROM others, generate_series(1, 40) AS n`

// The test checks the generic plan of each filter in a database that was never vacuumed. Each part
// of a statement uses the index of its filter and sorts nothing. Without that index the planner
// must not find another one to use.
func TestListContacts_Plans_UseTheIndexOfTheFilter(t *testing.T) {
	t.Parallel()
	p, now := newPlanFixture(t, sqlFill, sqlOthers, `ANALYZE`), pgtest.Start()
	walk, carriers := "Backward using contacts_newest", "Backward using contact_labels_label"
	texts := []string{"contacts_name", "contacts_email", "contacts_username"}
	for name, test := range map[string]struct {
		filter  Filter
		uses    []string
		gathers []string
	}{
		"all":            {filter: Filter{}, uses: []string{walk}},
		"number":         {filter: Filter{PhoneNumber: "+351900000001"}, uses: []string{"contact_keys_pkey"}},
		"bsuid":          {filter: Filter{BSUID: "PT.1"}, uses: []string{"contact_keys_pkey"}},
		"number, bsuid":  {filter: Filter{PhoneNumber: "+351900000001", BSUID: "PT.1"}, uses: []string{"contact_keys_pkey"}},
		"username":       {filter: Filter{Username: "x"}, uses: []string{"contacts_username"}},
		"email":          {filter: Filter{Email: "x"}, uses: []string{"contacts_email"}},
		"label":          {filter: Filter{LabelID: new(labels.ID)}, uses: []string{carriers}},
		"email, label":   {filter: Filter{Email: "x", LabelID: new(labels.ID)}, uses: []string{"contacts_email"}},
		"email, q":       {filter: Filter{Email: "x", Q: "zeta"}, uses: []string{"contacts_email"}},
		"q":              {filter: Filter{Q: "zeta"}, uses: []string{walk}, gathers: texts},
		"q, a number":    {filter: Filter{Q: "+3519"}, uses: []string{walk}, gathers: append([]string{"contacts_number"}, texts...)},
		"updated":        {filter: Filter{UpdatedSince: &now}, uses: []string{walk}, gathers: []string{"contacts_updated"}},
		"updated, label": {filter: Filter{UpdatedSince: &now, LabelID: new(labels.ID)}, uses: []string{carriers}, gathers: []string{"contacts_updated"}},
		"q, updated":     {filter: Filter{UpdatedSince: &now, Q: "zeta"}, uses: []string{walk}, gathers: texts},
	} {
		q := queryOf(accounts.ID{}, test.filter)
		requirePlan(t, p, name, q.sqlPage(), test.uses)
		require.Equal(t, test.gathers == nil, q.ranges == nil, name)
		if test.gathers != nil {
			requirePlan(t, p, name, q.sqlGather(), test.gathers)
			q.source = sqlOfGathered
			requirePlan(t, p, name, q.sqlPage(), nil)
		}
	}
	requirePlan(t, p, "by keys", sqlContactsAround, []string{"contact_keys_pkey", "contact_keys_contact", "contacts_pkey"})
}

func TestContacts_FewExpected_EachIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	pgtest.RequireByKey(t, `
WITH people AS (
    INSERT INTO contacts (org_id, id, account_id, marketing, updated_at)
    SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'unknown', now() FROM generate_series(1, 10000)
    RETURNING org_id, id, account_id
)
INSERT INTO contact_keys (org_id, account_id, key, contact_id, since) SELECT org_id, account_id, id::text, id, now() FROM people`,
		map[string]string{"by key": sqlContactsAround, "by id": sqlContactsByID, "lock": sqlLockContacts + string(toChange) + sqlLocked, "update": sqlUpdateContacts, "merged": sqlJoinedInto})
}

// requirePlan checks that a plan uses the indexes, and that without one of them it uses no other.
// Contacts found by another index than contacts_newest are read by their primary key.
func requirePlan(t *testing.T, p planFixture, name, sql string, uses []string) {
	t.Helper()
	plan := pgtest.Plan(t, p.url, sql)
	shown := fmt.Sprintf("%s:\n%s", name, plan)
	require.NotContains(t, plan, "Seq Scan", shown)
	require.NotContains(t, plan, "Bitmap", shown)
	for _, index := range uses {
		require.Contains(t, plan, index, shown)
	}
	indexes := []string{"contacts_newest", "contacts_name", "contacts_number", "contacts_username", "contacts_email", "contacts_updated"}
	for _, dropped := range indexes {
		without := pgtest.Plan(t, p.url, sql, `DROP INDEX `+dropped)
		for _, other := range indexes {
			if other != dropped {
				require.Equal(t, strings.Count(plan, other), strings.Count(without, other), "%s instead of %s for %s\n\n%s", other, dropped, shown, without)
			}
		}
	}
	if strings.Contains(plan, "contacts_newest") {
		require.NotContains(t, plan, "Sort", shown)
	}
	if strings.Contains(sql, "source (contact_id)") {
		require.Regexp(t, `using contacts_pkey on contacts.*\n\s+Index Cond: \(\(org_id = \$\d+\) AND \(id = `, plan, shown)
	}
}

// TestListContacts_ManyMatches_AreAllFound follows lists of which many match and compares with
// what a plain statement finds.
func TestListContacts_ManyMatches_AreAllFound(t *testing.T) {
	t.Parallel()
	ctx, now := t.Context(), pgtest.Start()
	p := newPlanFixture(t, sqlFill, `
UPDATE contacts c
SET name_key = CASE WHEN age > 4800 THEN 'old' WHEN age BETWEEN 160 AND 1460 THEN 'middle' WHEN age < 100 OR age BETWEEN 4000 AND 4100 THEN 'apart' END || name_key
FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS age FROM contacts WHERE org_id = @here AND account_id = @here) AS aged
WHERE c.org_id = @here AND c.id = aged.id AND (age < 100 OR age BETWEEN 160 AND 1460 OR age BETWEEN 4000 AND 4100 OR age > 4800)`)
	scope, own := p.db.Of(p.org), p.label
	for name, test := range map[string]struct {
		filter Filter
		plain  string
	}{
		"all match":             {Filter{Q: "+351"}, `true`},
		"many, all of them old": {Filter{Q: "OLD"}, `name_key LIKE 'old%'`},
		"many, none very new":   {Filter{Q: "middle"}, `name_key LIKE 'middle%'`},
		"some, new and old":     {Filter{Q: "apart"}, `name_key LIKE 'apart%'`},
		"a part":                {Filter{Q: "a"}, `name_key LIKE 'a%' OR email_key LIKE 'a%' OR username_key LIKE 'a%'`},
		"half, by time":         {Filter{UpdatedSince: new(now.Add(6_000 * time.Second))}, `updated_at > '2026-03-14T11:06:53.589Z'`},
		"with a label":          {Filter{Q: "+351", LabelID: &own}, `id IN (SELECT contact_id FROM contact_labels WHERE org_id = @org_id)`},
		"a label":               {Filter{LabelID: &own}, `id IN (SELECT contact_id FROM contact_labels WHERE org_id = @org_id)`},
	} {
		want, err := postgres.Many[ID](ctx, scope, `
SELECT id FROM contacts WHERE org_id = @org_id AND account_id = @account_id AND (`+test.plain+`) ORDER BY id DESC`,
			postgres.Args{argAccount: p.account})
		require.NoError(t, err)
		require.Greater(t, len(want), 100, name)
		found, slice := []ID{}, paging.Slice[ID]{Limit: 100}
		for {
			page, err := listContacts(ctx, scope, p.account, test.filter, slice)
			require.NoError(t, err)
			found = append(found, postgres.Each(page.Items, idOf)...)
			if slice.After = page.Next; page.Next == nil {
				break
			}
		}
		require.Equal(t, want, found, name)
	}
}

type contactKind struct{}

func (contactKind) Prefix() string { return "ctc_" }

type labelKind struct{}

func (labelKind) Prefix() string { return "lbl_" }
