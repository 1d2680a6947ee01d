package audit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func TestLog_NamesPrincipalAndAction_AppendOnly(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	key, _ := w.Key(t, org)
	_, err := w.Keys.Revoke(t.Context(), org, audit.Operator(), key)
	require.NoError(t, err)

	entries, err := w.Audit.List(t.Context(), org, time.Time{}, 10)
	require.NoError(t, err)
	var actions []string
	for _, entry := range entries {
		require.Equal(t, audit.Operator().Kind, entry.ActorKind)
		require.Equal(t, audit.Operator().ID, entry.ActorID)
		require.True(t, json.Valid(entry.Detail))
		actions = append(actions, entry.Action)
	}
	require.Equal(t, []string{"key.revoked", "key.issued", "org.created"}, actions)

	for _, change := range []string{
		`UPDATE audit_log SET action = 'nothing' WHERE org_id = @org_id`,
		`DELETE FROM audit_log WHERE org_id = @org_id`,
	} {
		_, err = postgres.InTx(t.Context(), w.DB, org, func(tx *postgres.Tx) (int64, error) { return tx.Exec(t.Context(), change, nil) })
		require.ErrorContains(t, err, "append-only")
	}
}
