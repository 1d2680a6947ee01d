package postgres_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

func TestAcquire_Fails_ErrorNamesTheCause(t *testing.T) {
	t.Parallel()
	open := func(config postgres.Config) *postgres.DB {
		config.MaxConns, config.AcquireWait = 1, 50*time.Millisecond
		db, err := postgres.Open(t.Context(), config)
		require.NoError(t, err)
		return db
	}
	refused := func(db *postgres.DB, org ids.Org) string {
		scope := db.System("test")
		if !org.IsZero() {
			scope = db.Of(org)
		}
		_, err := postgres.One[int](t.Context(), scope, `SELECT 1 WHERE @org_id::text IS NOT NULL OR true`, nil)
		require.Equal(t, fault.ServiceUnavailable, fault.Of(err))
		return err.Error()
	}
	// hold keeps the only connection until release is called.
	hold := func(db *postgres.DB, org ids.Org) (release func()) {
		held, free, done := make(chan struct{}), make(chan struct{}), make(chan error)
		work := func(*postgres.Tx) (int, error) {
			close(held)
			<-free
			return 0, nil
		}
		go func() {
			_, err := postgres.InTx(t.Context(), db, org, work)
			for fault.Of(err) == fault.ServiceUnavailable { // a slow machine connects later
				_, err = postgres.InTx(t.Context(), db, org, work)
			}
			done <- err
		}()
		<-held
		return func() {
			close(free)
			require.NoError(t, <-done)
			db.Close()
		}
	}
	url, org := pgtest.URL(t), ids.NewOrg(time.Now())
	plain := open(postgres.Config{URL: url})
	release := hold(plain, org)
	require.Contains(t, refused(plain, ids.Org{}), "acquire connection: all 1 connections were in use for 50ms")
	release()
	shared := open(postgres.Config{URL: url, Shared: true})
	release = hold(shared, org)
	require.Contains(t, refused(shared, org), "acquire connection: the requests of the organization, or all together, held their connections for 100ms")
	release()

	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	away := open(postgres.Config{URL: "postgres://" + silent.Addr().String() + "/x?sslmode=disable"})
	require.Contains(t, refused(away, ids.Org{}), "acquire connection: the database did not answer")
	require.NoError(t, silent.Close())
	require.Contains(t, refused(away, ids.Org{}), "acquire connection: the database did not answer")
}
