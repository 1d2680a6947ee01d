package conversations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// Many conversations of one organization on two numbers: most are open and read, few are
// anything else.
const sqlFill = `
WITH organization AS (
    INSERT INTO organizations (org_id, name, plan, subscription_status, stop_keywords, updated_at) VALUES (@here, 'Here', 'platform', 'active', '{}', @now)
), team AS (
    INSERT INTO teams (org_id, id, name) VALUES (@here, @here, 'Here')
), person AS (
    INSERT INTO users (org_id, id, email) VALUES (@here, @here, 'a@b.example')
), label AS (
    INSERT INTO labels (org_id, id, team_id, name, name_key, color, updated_at) VALUES (@here, @here, @here, 'L', 'l', 'gray', @now)
), account AS (
    INSERT INTO accounts (org_id, id, team_id, business_account_id, status, subscribed, checked_at, token, generation, due_at, updated_at)
    SELECT @here::uuid, id, @here, '1', 'connected', true, @now, '', 1, @now, @now FROM unnest(ARRAY [@here::uuid, @there::uuid]) AS id
), people AS (
    SELECT ulid(@now::timestamptz + n * interval '1 second') AS id, CASE WHEN n % 2 = 0 THEN @here::uuid ELSE @there END AS account_id, n,
           @now::timestamptz + n * interval '1 second' AS at
    FROM generate_series(1, 12000) AS n
), known AS (
    INSERT INTO contacts (org_id, id, account_id, name, name_key, marketing, updated_at)
    SELECT @here, id, account_id, 'N', 'n', 'unknown', at FROM people
), said AS (
    INSERT INTO conversations (org_id, id, account_id, contact_id, status, assignee_id, unread_count, last_message_at, updated_at)
    SELECT @here, id, account_id, id, CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'open' END, CASE WHEN n % 1000 = 2 THEN @here::uuid END,
        CASE WHEN n % 1000 = 4 THEN 1 ELSE 0 END, at, at
    FROM people
)
INSERT INTO conversation_labels (org_id, conversation_id, label_id, account_id)
SELECT @here, id, @here, account_id FROM people WHERE n % 1000 = 6`

// The test checks the plan of each filter: rare values are found by an index, and the inbox is
// read in the order of its index and not sorted.
func TestListConversations_Plans_UseTheIndexOfTheFilter(t *testing.T) {
	t.Parallel()
	url, ctx, now := pgtest.URL(t), t.Context(), pgtest.Start()
	db := pgtest.Connect(t, url)
	here, there := ids.NewOrg(now), ids.NewOrg(now)
	_, err := postgres.InSystemTx(ctx, db, "test", func(tx *postgres.Tx) (int64, error) {
		if _, err := tx.Exec(ctx, sqlFill, postgres.Args{"here": here, "there": there, "now": now}); err != nil {
			return 0, err
		}
		return tx.Exec(ctx, `ANALYZE`, nil)
	})
	require.NoError(t, err)
	var account accounts.ID
	var user orgs.UserID
	require.NoError(t, account.UnmarshalText([]byte(here.String())))
	require.NoError(t, user.UnmarshalText([]byte(here.String())))
	label, contact := ids.From[labelKind](here.Any()), ids.From[contactKind](here.Any())
	var labelID labels.ID
	var contactID contacts.ID
	require.NoError(t, labelID.UnmarshalText([]byte(label.String())))
	require.NoError(t, contactID.UnmarshalText([]byte(contact.String())))
	for name, test := range map[string]struct {
		filter Filter
		uses   string
	}{
		"all":           {Filter{}, "conversations_recent"},
		"status":        {Filter{Status: Pending}, "conversations_status"},
		"contact":       {Filter{ContactID: &contactID}, "conversations_contact_unique"},
		"assignee":      {Filter{AssignedTo: &user}, "conversations_assignee"},
		"unread":        {Filter{Unread: new(true)}, "conversations_unread"},
		"read":          {Filter{Unread: new(false)}, "conversations_recent"},
		"a rare label":  {Filter{LabelID: &labelID}, "conversations_pkey"},
		"updated since": {Filter{UpdatedSince: &now}, "conversations_updated"},
	} {
		sql, err := sqlList(ctx, db.Of(here), test.filter, postgres.Args{argAccount: account})
		require.NoError(t, err)
		plan := answeredByItsOwn(t, url, name, sql)
		require.Contains(t, plan, test.uses, plan)
	}
	for name, test := range map[string]struct{ sql, uses string }{
		"one":        {sqlOne, "conversations_pkey"},
		"of contact": {sqlLockOf, "(contact_id = wanted.contact_id)"},
		"said":       {sqlUpdateSaid, "(contact_id = wanted.contact_id)"},
	} {
		plan := answeredByItsOwn(t, url, name, test.sql)
		require.Contains(t, plan, test.uses, name)
		if strings.HasPrefix(test.sql, sqlUpdateSaid) {
			require.Regexp(t, `on conversations c\n\s+Index Cond: \(\(org_id = given.org_id\) AND \((contact_)?id = given`, plan, name)
		}
	}
}

func TestConversations_FewExpected_EachIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	pgtest.RequireByKey(t, `
WITH said AS (
    INSERT INTO conversations (org_id, id, account_id, contact_id, status, unread_count, updated_at)
    SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'open', 0, now() FROM generate_series(1, 10000)
    RETURNING org_id, account_id, contact_id
)
INSERT INTO contacts (org_id, id, account_id, name, name_key, marketing, updated_at)
SELECT org_id, contact_id, account_id, 'N', 'n', 'unknown', now() FROM said`,
		map[string]string{"lock": sqlLockOf, "said": sqlUpdateSaid, "first said": sqlInsertSaid, "last inbound": sqlLastInbound})
}

// answeredByItsOwn returns the plan of a statement. It checks that the plan reads no whole table,
// and that without its index it uses no other index that starts with the account.
func answeredByItsOwn(t *testing.T, url, name, sql string) string {
	t.Helper()
	plan := pgtest.Plan(t, url, sql)
	shown := fmt.Sprintf("%s:\n%s", name, plan)
	require.NotContains(t, plan, "Seq Scan on conversations\n", shown)
	require.NotContains(t, plan, "Seq Scan on contacts", shown)
	indexes := []string{"conversations_recent", "conversations_updated", "conversations_status", "conversations_assignee", "conversations_unread"}
	for _, dropped := range indexes {
		without := pgtest.Plan(t, url, sql, `DROP INDEX `+dropped)
		for _, other := range indexes {
			if other != dropped {
				require.Equal(t, strings.Count(plan, other), strings.Count(without, other), "%s instead of %s for %s\n\n%s", other, dropped, shown, without)
			}
		}
	}
	return plan
}

type labelKind struct{}

func (labelKind) Prefix() string { return "lbl_" }

type contactKind struct{}

func (contactKind) Prefix() string { return "ctc_" }
