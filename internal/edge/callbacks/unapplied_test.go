package callbacks_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// bodyRow is where the row of the only body is: an update would move it.
func (s *fixture) bodyRow(t *testing.T) string {
	t.Helper()
	row, err := postgres.One[string](t.Context(), s.DB.System("test"), `SELECT ctid::text || ' ' || xmin::text FROM callbacks`, nil)
	require.NoError(t, err)
	return row
}

func TestApply_BodyRowIsWrittenOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org, _ := s.Org(t)
	account := s.Account(t, org)
	require.Equal(t, http.StatusOK, s.push(t, body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, "wamid.1", "wamid.2"))).Code)
	require.Equal(t, 1, s.kept(t, "lane_rows"))
	before := s.bodyRow(t)
	s.Work(t)
	s.await(t, "it is applied", func() bool { return s.kept(t, "lane_rows") == 0 })
	s.awaitApplied(t, org, "wamid.1")
	s.awaitApplied(t, org, "wamid.2")
	require.Equal(t, before, s.bodyRow(t))
	require.Len(t, s.from, 2)
	for _, item := range s.from {
		require.Equal(t, account.Generation, item.Generation, "the consumer learns the generation")
		require.Equal(t, s.from[0].Callback, item.Callback, "and the callback")
		require.False(t, item.Callback.IsZero())
	}
}

// TestRestore_UnappliedCallbacks rebuilds the lanes, as a move does.
func TestRestore_UnappliedCallbacks(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org, _ := s.Org(t)
	account := s.Account(t, org)
	push := func(entry any) { require.Equal(t, http.StatusOK, s.push(t, body(t, entry)).Code) }
	push(statuses(account.BusinessAccountID, *account.PhoneNumberID, "wamid.1"))
	push(change(account.BusinessAccountID, "account_update", map[string]any{"event": "VERIFIED_ACCOUNT"}))
	require.Equal(t, 2, s.kept(t, "lane_rows"))
	s.RebuildLanes(t, org)
	require.Equal(t, 2, s.kept(t, "lane_rows"))
	s.Work(t)
	s.await(t, "both are applied", func() bool { return s.kept(t, "lane_rows_moving")+s.kept(t, "lane_rows") == 0 })
	s.awaitApplied(t, org, "wamid.1")
}

// TestApply_BodyGone_RowLeaves deletes a body as the expiry of old partitions does.
func TestApply_BodyGone_RowLeaves(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org, _ := s.Org(t)
	account := s.Account(t, org)
	require.Equal(t, http.StatusOK, s.push(t, body(t, statuses(account.BusinessAccountID, *account.PhoneNumberID, "wamid.1"))).Code)
	_, err := postgres.InTx(t.Context(), s.DB, org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `DELETE FROM callbacks WHERE org_id = @org_id`, nil)
	})
	require.NoError(t, err)
	s.Work(t)
	s.await(t, "nothing waits", func() bool { return s.kept(t, "lane_rows_moving")+s.kept(t, "lane_rows") == 0 })
	require.Zero(t, s.count(org, "wamid.1"))
}

func TestPurge_WaitingRowsFindNoBody(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org, _ := s.Org(t)
	account, other := s.Account(t, org), s.Account(t, org)
	for _, one := range []string{*account.PhoneNumberID, *other.PhoneNumberID} {
		require.Equal(t, http.StatusOK, s.push(t, body(t, statuses(account.BusinessAccountID, one, "wamid.1"))).Code)
	}
	require.NoError(t, s.Callbacks.PurgeStored(t.Context(), org, account, ids.Any{}))
	require.Equal(t, 1, s.kept(t, "callbacks"), "of the other number")
	s.Work(t)
	s.await(t, "nothing waits", func() bool { return s.kept(t, "lane_rows") == 0 })
	s.awaitApplied(t, org, "wamid.1")
}
