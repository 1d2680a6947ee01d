package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/schema"
)

// copyFixture has an organization with labels in one cell, and copies it to the other.
type copyFixture struct {
	*tenant

	from, to *postgres.DB
}

func newCopyFixture(t *testing.T) *copyFixture {
	t.Helper()
	f := &copyFixture{tenant: newFixture(t).tenant(t)}
	require.NoError(t, f.cells.Each(func(cell *app.Cell) error {
		if cell.Name == f.cell {
			f.from = cell.DB
		} else {
			f.to = cell.DB
		}
		return nil
	}))
	f.fill(t, 50)
	return f
}

func (f *copyFixture) begin(t *testing.T) *postgres.OrgCopy {
	t.Helper()
	begun, err := postgres.BeginCopy(t.Context(), f.from, f.to, f.id, schema.Tenant())
	require.NoError(t, err)
	t.Cleanup(func() { begun.Close(t.Context()) })
	return begun
}

// label sends a request to the label that has a name.
func (f *copyFixture) label(t *testing.T, method, name, body string) {
	t.Helper()
	page := f.askUntilServed(t, http.MethodGet, "/labels?limit=100", "")
	require.Equal(t, http.StatusOK, page.status, "%v", page.body)
	for _, item := range page.body["data"].([]any) {
		if label := item.(map[string]any); label["name"] == name {
			answered := f.askUntilServed(t, method, "/labels/"+label["id"].(string), body)
			require.Equal(t, http.StatusOK, answered.status, "%v", answered.body)
			return
		}
	}
	t.Fatalf("there is no label %q", name)
}

func (f *copyFixture) create(t *testing.T, name string) {
	t.Helper()
	require.Equal(t, http.StatusCreated, f.askUntilServed(t, http.MethodPost, "/labels", `{"name":"`+name+`"}`).status)
}

// rows returns each table's rows of the organization as sorted JSON.
func (f *copyFixture) rows(t *testing.T, db *postgres.DB) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range schema.Tenant() {
		sql := `SELECT to_jsonb(r) FROM ` + table + ` r WHERE org_id = @org`
		found, err := postgres.Many[json.RawMessage](t.Context(), db.System("test"), sql, postgres.Args{"org": f.id})
		require.NoError(t, err)
		for _, row := range found {
			all[table] = append(all[table], string(row))
		}
		slices.Sort(all[table])
	}
	return all
}

func TestCopy_ChangesWhileCopying_TargetIsEqual(t *testing.T) {
	t.Parallel()
	f := newCopyFixture(t)
	begun := f.begin(t)
	f.create(t, "new")
	f.label(t, http.MethodPatch, "Label 1", `{"name":"renamed"}`)
	f.label(t, http.MethodDelete, "Label 2", "")
	f.create(t, "Label 2") // the name of a deleted label
	f.label(t, http.MethodPatch, "Label 3", `{"color":"red"}`)
	f.label(t, http.MethodPatch, "Label 3", `{"color":"gray"}`)
	f.sql(t, f.cell, `VACUUM FREEZE labels`)
	copied, err := begun.Finish(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 51, copied.Rows["labels"])
	require.Positive(t, copied.Late)
	require.Equal(t, f.rows(t, f.from), f.rows(t, f.to))
}

// Rows that swap a unique value cannot be written one after the other.
func TestCopy_NamesSwapped_FailsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newCopyFixture(t)
	begun := f.begin(t)
	f.label(t, http.MethodPatch, "Label 1", `{"name":"free"}`)
	f.label(t, http.MethodPatch, "Label 2", `{"name":"Label 1"}`)
	f.label(t, http.MethodPatch, "free", `{"name":"Label 2"}`)
	_, err := begun.Finish(t.Context())
	require.ErrorContains(t, err, "write to labels")
	begun.Close(t.Context())
	for table, rows := range f.rows(t, f.to) {
		require.Empty(t, rows, table)
	}
	_, err = f.begin(t).Finish(t.Context())
	require.NoError(t, err)
	require.Equal(t, f.rows(t, f.from), f.rows(t, f.to))
}

func TestCopy_RowChangedAtTheTarget_Fails(t *testing.T) {
	t.Parallel()
	f := newCopyFixture(t)
	f.sql(t, f.elsewhere(), `
		CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.color := 'red'; RETURN NEW; END $$;
		CREATE TRIGGER spoil BEFORE INSERT OR UPDATE ON labels FOR EACH ROW WHEN (NEW.name = 'renamed') EXECUTE FUNCTION spoil()`)
	begun := f.begin(t)
	f.label(t, http.MethodPatch, "Label 1", `{"name":"renamed"}`)
	_, err := begun.Finish(t.Context())
	require.ErrorContains(t, err, "compare labels")
}

// The statistics of a table may say that it is empty, as after an earlier move of its only organization. A nested loop over one
// expected row would compare each late row with each row of the table: more than three minutes for these.
func TestCopy_TableBelievedEmpty_LateRowsAreCompared(t *testing.T) {
	t.Parallel()
	f := newCopyFixture(t)
	f.sql(t, f.elsewhere(), `UPDATE pg_class SET relpages = 1, reltuples = 0 WHERE relname = 'labels'`)
	begun := f.begin(t)
	f.sql(t, f.cell, `DELETE FROM labels WHERE org_id = $1`, f.id.String())
	f.fill(t, 80_000)
	ctx, cancel := context.WithTimeout(t.Context(), proc.Patience)
	defer cancel()
	copied, err := begun.Finish(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 80_000, copied.Rows["labels"])
}
