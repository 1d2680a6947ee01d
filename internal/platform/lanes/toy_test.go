package lanes_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// letter is what Begin finds of a row, and status what the post office answers.
type (
	letter struct{ Text string }
	status string
)

// mail is a kind of lane that sends letters: it follows "To add a kind of lane" in CONTRIBUTING.md.
type mail struct {
	clock clock.Clock
	post  func(text string) error
}

func (m *mail) kind() lanes.Kind[letter, status] {
	return lanes.Kind[letter, status]{Name: "mail", Open: m.open, SetAside: m.setAside, Least: 4, Most: 8, Workers: 2}
}

func (m *mail) open(context.Context, lanes.Lane) (lanes.Work[letter, status], error) {
	return lanes.Work[letter, status]{Begin: m.begin, Call: m.call, Settle: m.settle}, nil
}

const sqlBegin = `UPDATE letters SET attempts = attempts + 1, state = 'sending' WHERE id = @id AND state <> 'sent' RETURNING text`

func (m *mail) begin(ctx context.Context, tx *postgres.Tx, tasks []*lanes.Task[letter, status]) error {
	for _, task := range tasks {
		text, err := postgres.One[string](ctx, tx, sqlBegin, postgres.Args{"id": task.Row.ID})
		switch {
		case errors.Is(err, postgres.ErrNoRow):
			task.Answer(lanes.Answer[status]{}) // gone or sent already: nothing to call
		case err != nil:
			return err
		default:
			task.Value = letter{Text: text}
		}
	}
	return nil
}

func (m *mail) call(_ context.Context, _ lanes.Row, l letter) lanes.Answer[status] {
	if err := m.post(l.Text); err != nil {
		return lanes.Answer[status]{Value: "waiting", RetryAt: m.clock.Now().Add(time.Millisecond)}
	}
	return lanes.Answer[status]{Value: "sent"}
}

const sqlSetState = `UPDATE letters SET state = @state WHERE id = @id`

func (m *mail) settle(ctx context.Context, tx *postgres.Tx, batch *lanes.Batch[letter, status]) error {
	for i := range batch.Results {
		result := &batch.Results[i]
		switch result.Outcome {
		case lanes.Answered:
			continue
		case lanes.Postponed:
			result.Value = "waiting"
		case lanes.Unknown:
			result.Value = "unknown"
		case lanes.Returned:
		}
		if _, err := tx.Exec(ctx, sqlSetState, postgres.Args{"id": result.Row.ID, "state": result.Value}); err != nil {
			return err
		}
	}
	return nil
}

func (m *mail) setAside(ctx context.Context, tx *postgres.Tx, _ lanes.Lane, rows []lanes.Aside[letter]) error {
	for _, row := range rows {
		if _, err := tx.Exec(ctx, sqlSetState, postgres.Args{"id": row.Row.ID, "state": "failed: " + row.Reason}); err != nil {
			return err
		}
	}
	return nil
}

func TestToyKind_RetriesAndIsSettled(t *testing.T) {
	t.Parallel()
	now, ctx := clock.NewSynced(), t.Context()
	var posted atomic.Int64
	m := &mail{clock: now, post: func(string) error {
		if posted.Add(1) < 3 {
			return errors.New("closed")
		}
		return nil
	}}
	s := newSite(t, pgtest.URL(t), m.kind(), 1)
	lane, id := s.open[0], ids.NewOrg(now.Now()).Any()
	_, err := postgres.InSystemTx(ctx, s.db, "test", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `CREATE TABLE letters AS SELECT @id::uuid AS id, 'hello' AS text, 'waiting' AS state, 0 AS attempts`, postgres.Args{"id": id})
	})
	require.NoError(t, err)
	runEngine(t, s.db, s.known, now, slog.New(slog.DiscardHandler))
	_, err = postgres.InTx(ctx, s.db, lane.Org, func(tx *postgres.Tx) (int, error) {
		return 0, s.known.AddTx(ctx, tx, "mail", lane.ID, lanes.Row{ID: id})
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, err := postgres.One[string](ctx, s.db.System("test"), `SELECT state || ' ' || attempts FROM letters`, nil)
		return err == nil && state == "sent 3"
	}, 3*time.Minute, 10*time.Millisecond)
}
