package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

const sqlReminders = `
CREATE TABLE reminders (org_id uuid NOT NULL, number int NOT NULL, due_at timestamptz NOT NULL, PRIMARY KEY (org_id, number))`

const sqlFillReminders = `
WITH org AS (
    INSERT INTO organizations (org_id, name, plan, subscription_status, stop_keywords, updated_at, frozen_at)
    VALUES (@here, 'Here', 'platform', 'active', '{}', @now, NULL), (@moving, 'Moving', 'platform', 'active', '{}', @now, @now)
)
INSERT INTO reminders (org_id, number, due_at)
SELECT @here::uuid, n, @now::timestamptz + n * interval '1 minute' FROM generate_series(1, 5) AS n
UNION ALL
SELECT @moving, 6, @now`

func TestDue_AddTx_OneJobPerDueRow(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(pgtest.Start())
	f, ctx := newFixture(t, now), t.Context()
	system := func(verb func(tx *postgres.Tx) (int, error)) int {
		result, err := postgres.InSystemTx(ctx, f.db, "test", verb)
		require.NoError(t, err)
		return result
	}
	system(func(tx *postgres.Tx) (int, error) {
		if _, err := tx.Exec(ctx, sqlReminders, nil); err != nil {
			return 0, err
		}
		args := postgres.Args{"here": ids.NewOrg(now.Now()), "moving": ids.NewOrg(now.Now()), "now": now.Now()}
		_, err := tx.Exec(ctx, sqlFillReminders, args)
		return 0, err
	})
	type row struct {
		OrgID  ids.Org
		Number int
	}
	var taken []int
	due := jobs.Due[row]{
		Table: "reminders", Key: "number", Returning: `t.org_id, t.number`, Every: time.Hour, AtOnce: 2,
		Job: func(r row) jobs.Args {
			taken = append(taken, r.Number)
			return chore{Number: r.Number}
		},
	}
	add := func() int {
		return system(func(tx *postgres.Tx) (int, error) { return due.AddTx(ctx, tx, f.queue, now.Now()) })
	}
	require.Zero(t, add(), "nothing is due, and organizations that are being moved are skipped")
	now.Move(3 * time.Minute)
	require.Equal(t, 2, add(), "at most two at once, the oldest first")
	require.ElementsMatch(t, []int{1, 2}, taken)
	system(func(tx *postgres.Tx) (int, error) {
		if _, err := postgres.Many[int](ctx, tx, `SELECT number FROM reminders WHERE number = 3 FOR UPDATE`, nil); err != nil {
			return 0, err
		}
		require.Zero(t, add(), "a row that is locked elsewhere is skipped")
		return 0, nil
	})
	require.Equal(t, 1, add())
	require.Zero(t, add(), "rows that have a job are due again only later")
	now.Move(time.Hour)
	require.Equal(t, 2, add())
	added, err := postgres.One[int](ctx, f.db.System("test"), `SELECT count(*) FROM `+jobs.Table+` WHERE kind = 'chore'`, nil)
	require.NoError(t, err)
	require.Equal(t, 5, added, "one job for each due row")
}
