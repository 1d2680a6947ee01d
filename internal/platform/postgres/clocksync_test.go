package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// slowly delays the given number of reads of the time.
type slowly struct{ left int }

func (s *slowly) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if strings.Contains(query.SQL, "clock_timestamp") && s.left > 0 {
		s.left--
		time.Sleep(110 * time.Millisecond)
	}
	return ctx
}

func (*slowly) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestSyncClock_SlowAnswers_Retried(t *testing.T) {
	t.Parallel()
	for left, works := range map[int]bool{0: true, 3: true, 100: false} {
		delayed := &slowly{}
		db, err := postgres.Open(t.Context(), postgres.Config{
			URL: pgtest.URL(t), MaxConns: 1, AcquireWait: time.Minute, Tracers: []pgx.QueryTracer{delayed},
		})
		require.NoError(t, err)
		t.Cleanup(db.Close)
		sync := func() error {
			delayed.left = left
			_, err := db.SyncClock(t.Context(), clock.NewSynced())
			return err
		}
		if works { // usually at the first call; later when the machine is slow
			require.Eventually(t, func() bool { return sync() == nil }, 3*time.Minute, time.Millisecond)
		} else {
			require.ErrorContains(t, sync(), "to tell the time")
		}
	}
}
