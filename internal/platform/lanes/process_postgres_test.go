package lanes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/schema"
)

// newServer is a PostgreSQL of the test's own with our tables, which it may crash.
func newServer(t *testing.T) *proc.Postgres {
	t.Helper()
	p := proc.NewPostgres(t, "max_connections = 60")
	_, err := postgres.Migrate(t.Context(), p.URL("postgres"), schema.Migrations())
	require.NoError(t, err)
	_, err = jobs.Migrate(t.Context(), connect(t, "migrate", p.URL("postgres")))
	require.NoError(t, err)
	return p
}
