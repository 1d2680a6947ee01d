package lanes_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// The processes work kinds whose tasks and values are text.
type (
	callKind   = lanes.Kind[string, string]
	callWork   = lanes.Work[string, string]
	callAnswer = lanes.Answer[string]
	callBatch  = lanes.Batch[string, string]
)

// site is a database whose lanes are drained by processes, and what was added to it.
type site struct {
	url, dir string
	db       *postgres.DB
	clock    clock.Clock
	known    *lanes.Lanes
	open     []lanes.Lane
	next     int
	rows     []ids.Any
}

const sqlResults = `
CREATE TABLE settled (
    id uuid PRIMARY KEY,
    times int NOT NULL,
    by text NOT NULL,
    at timestamptz NOT NULL
)`

// newSite opens so many lanes, of four organizations.
func newSite[T, R any](t *testing.T, url string, kind lanes.Kind[T, R], wanted int) *site {
	t.Helper()
	s := &site{url: url, dir: t.TempDir(), db: connect(t, "site", url), clock: clock.NewSynced()}
	quiet := slog.New(slog.DiscardHandler)
	queue, err := jobs.NewQueue(s.db, s.clock, quiet)
	require.NoError(t, err)
	s.known = lanes.New(s.db, queue, s.clock, quiet)
	lanes.Register(s.known, kind)
	ctx := t.Context()
	_, err = postgres.InSystemTx(ctx, s.db, "test", func(tx *postgres.Tx) (int64, error) { return tx.Exec(ctx, sqlResults, nil) })
	require.NoError(t, err)
	var org ids.Org
	for i := range wanted {
		if i < 4 {
			org = s.newOrg(t)
		} else {
			org = s.open[i-4].Org
		}
		lane := lanes.Lane{ID: newAny(), Org: org, Kind: kind.Name}
		_, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (int, error) { return 0, s.known.OpenTx(ctx, tx, kind.Name, lane.ID) })
		require.NoError(t, err)
		s.open = append(s.open, lane)
	}
	return s
}

func newAny() ids.Any { return ids.NewOrg(time.Now()).Any() }

func (s *site) newOrg(t *testing.T) ids.Org {
	t.Helper()
	org := ids.NewOrg(s.clock.Now())
	_, err := postgres.InFirstTx(t.Context(), s.db, org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `INSERT INTO organizations (org_id, name, plan, subscription_status, updated_at)
VALUES (@org_id, 'test', 'platform', 'active', @now)`, postgres.Args{"now": s.clock.Now()})
	})
	require.NoError(t, err)
	return org
}

// add adds rows to one lane after the other.
func (s *site) add(t *testing.T, wanted int) {
	t.Helper()
	for ; wanted > 0; wanted -= 50 {
		s.addTo(t, s.open[s.next%len(s.open)], min(wanted, 50))
		s.next++
	}
}

// addTo adds rows to a lane. A database that surely did nothing is asked again.
func (s *site) addTo(t *testing.T, lane lanes.Lane, wanted int) {
	t.Helper()
	ctx, rows := t.Context(), make([]lanes.Row, wanted)
	for i := range rows {
		rows[i].ID = newAny()
		s.rows = append(s.rows, rows[i].ID)
	}
	for {
		_, err := postgres.InTx(ctx, s.db, lane.Org, func(tx *postgres.Tx) (int, error) {
			return 0, s.known.AddTx(ctx, tx, lane.Kind, lane.ID, rows...)
		})
		if err == nil {
			return
		}
		require.True(t, postgres.Undone(err), "%v", err)
	}
}

type result struct {
	ID    ids.Any
	Times int
	By    string
	At    time.Time
}

func settleTx(ctx context.Context, tx *postgres.Tx, by string, batch *callBatch) error {
	rows := []ids.Any{}
	for _, one := range batch.Results {
		if one.Fault == nil && one.RetryAt.IsZero() {
			rows = append(rows, one.Row.ID)
		}
	}
	_, err := tx.Exec(ctx, sqlSettled, postgres.Args{"by": by, "ids": rows})
	return err
}

func (s *site) results(t *testing.T) map[ids.Any]result {
	t.Helper()
	all, err := postgres.Many[result](t.Context(), s.db.System("test"), `SELECT id, times, by, at FROM settled`, nil)
	require.NoError(t, err)
	byRow := make(map[ids.Any]result, len(all))
	for _, one := range all {
		byRow[one.ID] = one
	}
	return byRow
}

type standing struct{ Settled, Waiting int }

// standing is unknown, and so far from anything, while the database is away.
func (s *site) standing(t *testing.T) standing {
	t.Helper()
	now, err := postgres.One[standing](t.Context(), s.db.System("test"),
		`SELECT (SELECT count(*) FROM settled) AS settled, (SELECT count(*) FROM lane_rows) AS waiting`, nil)
	if err != nil {
		require.True(t, postgres.Undone(err), "%v", err)
		return standing{Waiting: len(s.rows)}
	}
	return now
}

// awaitProgress waits until so many rows are settled.
func (s *site) awaitProgress(t *testing.T, wanted int, within time.Duration) {
	t.Helper()
	s.await(t, within, func(now standing) bool { return now.Settled >= wanted })
}

// awaitEnd waits until every row is settled and none waits, and returns how long after since that was.
func (s *site) awaitEnd(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	s.await(t, settledWithin()-time.Since(since), s.ended)
	return time.Since(since)
}

func (s *site) ended(now standing) bool { return now.Settled == len(s.rows) && now.Waiting == 0 }

func (s *site) await(t *testing.T, within time.Duration, reached func(standing) bool) {
	t.Helper()
	began := time.Now()
	for now := s.standing(t); !reached(now); now = s.standing(t) {
		if time.Since(began) > within {
			require.FailNow(t, "waited in vain", "for %s: %d of %d rows are settled, %d wait\n%s",
				within, now.Settled, len(s.rows), now.Waiting, s.describe(t))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// describe shows the lanes with waiting rows, for who must find out why.
func (s *site) describe(t *testing.T) string {
	t.Helper()
	text, err := postgres.One[string](t.Context(), s.db.System("test"), `
SELECT coalesce(string_agg(to_jsonb(l)::text || ' ' || waiting.rows || ' rows, job ' || coalesce(to_jsonb(j)::text, 'none'), E'\n'), '')
FROM lanes l
JOIN (SELECT lane_id, count(*) AS rows FROM lane_rows GROUP BY 1) waiting USING (lane_id)
LEFT JOIN `+jobs.Table+` j ON j.id = l.token`, nil)
	if err != nil {
		return err.Error()
	}
	return text
}
