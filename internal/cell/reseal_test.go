package cell_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// withKeys is the cell as a process with these master keys sees it.
func withKeys(t *testing.T, w *factory.World, keys ...string) *cell.Cell {
	t.Helper()
	ring, err := sealed.NewKeyring(keys)
	require.NoError(t, err)
	made, err := cell.New(cell.Deps{
		Name: w.Name, DB: w.DB, Clock: w.Clock, Directory: w.Directory, Ring: ring, Provider: w.Network, Logger: canary.Logger(t),
	})
	require.NoError(t, err)
	return made
}

func another[K any](ids.Plain[K]) ids.Plain[K] { return ids.NewPlain[K](time.Now()) }

// copies adds accounts like one that exists, each with a token of its own.
func copies(t *testing.T, w *factory.World, org orgs.ID, like accounts.Account, count int) {
	t.Helper()
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	box, err := ring.Box("provider tokens")
	require.NoError(t, err)
	made, tokens := make([]accounts.ID, count), make([][]byte, count)
	for i := range made {
		made[i] = another(like.ID)
		tokens[i], err = box.Seal([]byte(canary.Token), []byte("accounts "+org.String()+" "+made[i].String()))
		require.NoError(t, err)
	}
	_, err = postgres.Many[string](t.Context(), w.DB.System("test"), `
INSERT INTO accounts
SELECT (jsonb_populate_record(a, jsonb_build_object('id', given.id, 'phone_number_id', NULL, 'token', '\x' || encode(given.token, 'hex')))).*
FROM accounts a, unnest(@ids::uuid[], @tokens::bytea[]) AS given (id, token)
WHERE a.org_id = @org AND a.id = @like`, postgres.Args{"org": org, "ids": made, "tokens": tokens, "like": like.ID})
	require.NoError(t, err)
}

// TestReseal_Interrupted_GoesOnWhereItWas seals tokens again, is stopped on the way, and goes on. A proof has
// a million of them.
func TestReseal_Interrupted_GoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	organizations, each := proof.Sized(3, 1_000), proof.Sized(700, 1_000)
	var last orgs.ID
	var account accounts.Account
	for range organizations {
		last, _ = w.Org(t)
		account = w.Account(t, last)
		copies(t, w, last, account, each-1)
	}
	newer := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", sealed.KeyBytes)))
	both, began := withKeys(t, w, newer, canary.Master), time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first, err := both.Reseal(ctx, audit.Operator(), func(so cell.Resealed) {
		if so.Values >= organizations*each/2 {
			stop()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.GreaterOrEqual(t, first.Values, organizations*each/2)
	second, err := both.Reseal(t.Context(), audit.Operator(), func(cell.Resealed) {})
	require.NoError(t, err)
	require.Equal(t, cell.Resealed{Values: organizations*each - first.Values}, second)
	t.Logf("%d values in %s", organizations*each, time.Since(began).Round(time.Millisecond))

	audited, err := postgres.One[int](t.Context(), w.DB.System("test"),
		`SELECT sum((detail ->> 'values')::int) FROM audit_log WHERE action = 'secrets.resealed' AND actor_id = 'parley admin'`, nil)
	require.NoError(t, err)
	require.Equal(t, organizations*each, audited)

	after := withKeys(t, w, newer)
	stored, err := after.Accounts.Get(t.Context(), last, account.ID)
	require.NoError(t, err)
	number, err := after.Accounts.Number(last, stored)
	require.NoError(t, err)
	require.Equal(t, canary.Token, number.Token.Reveal())
	_, err = withKeys(t, w, canary.Master).Accounts.Number(last, stored)
	require.Error(t, err)
}
