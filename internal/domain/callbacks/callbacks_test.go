package callbacks_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func TestSetAside_NeverRead_WholeBodyIsOneDeadLetter(t *testing.T) {
	t.Parallel()
	world := factory.New(t)
	org, _ := world.Org(t)
	account := world.Account(t, org)
	const body = `{"entry":[{"id":"4","changes":[]}]}`
	outcomes, err := world.Callbacks.Store(t.Context(), []callbacks.Part{
		{OrgID: org, NumberID: *account.PhoneNumberID, Generation: account.Generation, Body: []byte(body)},
		{OrgID: org, NumberID: *account.PhoneNumberID, Generation: account.Generation + 1, Body: []byte(body)},
	})
	require.NoError(t, err)
	require.Equal(t, []callbacks.Outcome{callbacks.Stored, callbacks.Absent}, outcomes, "of another generation")
	waiting := func() []callbacks.ID {
		ids, err := postgres.Many[callbacks.ID](t.Context(), world.DB.System("test"), `SELECT id FROM lane_rows`, nil)
		require.NoError(t, err)
		return ids
	}
	require.Len(t, waiting(), 1)
	_, err = postgres.InTx(t.Context(), world.DB, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, world.Callbacks.SetAsideUnreadTx(t.Context(), tx, waiting()[0], strings.Repeat("why\x00", 1000))
	})
	require.NoError(t, err)
	items, err := world.Callbacks.List(t.Context(), callbacks.Filter{OrgID: org, State: callbacks.Dead})
	require.NoError(t, err)
	require.Len(t, items, 1)
	require.True(t, bytes.Equal([]byte(body), items[0].Body), "%s", items[0].Body)
	require.Equal(t, account.Generation, *items[0].Generation)
	require.Equal(t, *account.PhoneNumberID, *items[0].PhoneNumberID)
	require.Contains(t, items[0].Reason, "why")

	again, err := world.Callbacks.Reprocess(t.Context(), audit.Operator(), callbacks.Filter{OrgID: org})
	require.NoError(t, err)
	require.Equal(t, 1, again)
	require.Len(t, waiting(), 2, "the new row, and the one that this test set aside by hand")
}
