package e2e_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// beforeFold gives a migrated database the version table of before the migrations were folded into
// one per noun.
func beforeFold(t *testing.T, databaseURL string, schemas ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	for _, schema := range schemas {
		_, err = conn.Exec(t.Context(), `ALTER TABLE `+schema+`.schema_migrations RENAME TO goose_db_version`)
		require.NoError(t, err)
	}
}

func TestDatabaseBeforeFold_EveryCommandFails(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]func(*testing.T, *fixture) (settings proc.Settings, databaseURL string){
		"cell and directory in one database": func(t *testing.T, f *fixture) (proc.Settings, string) {
			t.Helper()
			beforeFold(t, f.databaseURL, "public", "directory")
			return nil, f.databaseURL
		},
		"second cell": func(t *testing.T, f *fixture) (proc.Settings, string) {
			t.Helper()
			beforeFold(t, f.secondURL, "public")
			return nil, f.secondURL
		},
		"directory alone": func(t *testing.T, _ *fixture) (proc.Settings, string) {
			t.Helper()
			directoryURL := pgtest.URL(t)
			beforeFold(t, directoryURL, "directory")
			return proc.Settings{"PARLEY_DIRECTORY_DATABASE_URL": directoryURL}, directoryURL
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			more, databaseURL := old(t, f)
			address, err := url.Parse(databaseURL)
			require.NoError(t, err)
			database := strings.TrimPrefix(address.Path, "/")
			found := fmt.Sprintf("the database %q was made before the migrations were folded into one per noun, and cannot be brought forward", database)
			fix := fmt.Sprintf("nothing was released then, so make a new one: `dropdb %[1]s && createdb %[1]s && parley migrate`", database)
			settings := f.settings().With(more)
			for _, command := range [][]string{{"migrate"}, {"serve"}, {"work"}, {"dev", "--addr", "127.0.0.1:0"}, {"admin", "org", "list"}} {
				refused := proc.Run(t, settings, command...)
				require.Equal(t, 1, refused.Code, command)
				require.Equal(t, "parley: "+found+"; "+fix+"\n", refused.Stderr, command)
				require.Empty(t, refused.Stdout, command)
			}
			diagnosis := proc.Run(t, settings, "doctor")
			require.Equal(t, 1, diagnosis.Code)
			lines := failedChecks(diagnosis)
			require.Len(t, lines, 1, diagnosis.Stdout)
			require.Contains(t, lines[0], found+" → "+fix)
		})
	}
}
