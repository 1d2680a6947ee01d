package apikeys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func TestService_Issue_KeyAuthenticates(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	key, plaintext, err := w.Keys.Issue(t.Context(), org, audit.Operator(), apikeys.Draft{Name: "Production"})
	require.NoError(t, err)
	require.Regexp(t, `^svc_live_[A-Za-z0-9_-]{24}$`, plaintext)
	require.Equal(t, plaintext[len(plaintext)-4:], key.Last4)

	hash, err := apikeys.Hash(plaintext)
	require.NoError(t, err)
	caller, err := w.Keys.Authenticate(t.Context(), org, directory.FirstEpoch, hash)
	require.NoError(t, err)
	require.Equal(t, org, caller.OrgID)
	require.Equal(t, key.ID, caller.KeyID)
	require.Equal(t, 500, caller.RatePerSecond)

	dump, err := postgres.Many[string](t.Context(), w.DB.Of(org), `SELECT row_to_json(k)::text FROM api_keys k WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.NotContains(t, dump[0], plaintext[9:33])
}

func TestService_Issue_BadDraft_Refused(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	now := w.Clock.Now()
	issue := func(org ids.Org, draft apikeys.Draft) error {
		_, _, err := w.Keys.Issue(t.Context(), org, audit.Operator(), draft)
		return err
	}
	require.Equal(t, fault.Missing("name"), issue(org, apikeys.Draft{Name: " "}))
	require.Equal(t, fault.InvalidFieldValue, fault.Of(issue(org, apikeys.Draft{Name: "a\nb"})))
	require.Equal(t, fault.Invalid("expires_at", "must be in the future"), issue(org, apikeys.Draft{Name: "x", ExpiresAt: &now}))
	require.Equal(t, fault.ServiceUnavailable, fault.Of(issue(ids.NewOrg(now), apikeys.Draft{Name: "x"})), "nobody lives here by that id")
}

func TestService_Revoke_KeyRefused(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	org, _ := w.Org(t)
	stranger, _ := w.Org(t)
	id, plaintext := w.Key(t, org)

	_, err := w.Keys.Revoke(t.Context(), stranger, audit.Operator(), id)
	require.Equal(t, fault.NotFound("API key"), err, "another organization's key does not exist")
	first, err := w.Keys.Revoke(t.Context(), org, audit.Operator(), id)
	require.NoError(t, err)
	w.Clock.Move(time.Hour)
	again, err := w.Keys.Revoke(t.Context(), org, audit.Operator(), id)
	require.NoError(t, err)
	require.Equal(t, first, again)

	hash, err := apikeys.Hash(plaintext)
	require.NoError(t, err)
	caller, err := w.Keys.Authenticate(t.Context(), org, directory.FirstEpoch, hash)
	require.Equal(t, fault.RevokedAPIKey, fault.Of(err))
	require.Equal(t, org, caller.OrgID, "a refused key still tells whose it is, for the log")
}
