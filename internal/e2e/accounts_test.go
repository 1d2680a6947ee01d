package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// TestAdmin_Account_ConnectsAndDisconnects connects a number of a simulated network by command,
// checks it with the doctor, and disconnects it.
func TestAdmin_Account_ConnectsAndDisconnects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, ready := develop(t, f.missingDatabase(t)) // its simulator is the network of this test
	settings := f.settings().With(proc.Settings{
		"PARLEY_PROVIDER_BASE_URL": ready["simulator_url"], "PARLEY_PROVIDER_APP_ID": "200000000000001",
		"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
	})
	known, err := http.Post(ready["simulator_url"]+"/sim/tokens", "application/json", strings.NewReader(`{"access_token":"`+canary.Token+`"}`))
	require.NoError(t, err)
	require.NoError(t, known.Body.Close())
	o := &operator{t: t, settings: settings}
	o.org = o.object("org", "create", "--name", "Acme", "--plan", "platform")["id"].(string)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(canary.Token+"\n"), 0o600))
	connect := []string{"account", "connect", "--org", o.org, "--phone-number-id", "100000000000001", "--business-account-id", "400000000000001"}
	made := o.object(append(connect, "--token-file", token)...)
	require.Equal(t, []any{"100000000000001", "connected", "CONNECTED", nil},
		[]any{made["phone_number_id"], made["status"], made["provider_status"], made["status_reason"]})
	listed := o.list("account", "list", "--org", o.org)
	require.Len(t, listed, 1)
	require.Equal(t, made["id"], listed[0]["id"])

	diagnosis := proc.Run(t, settings, "doctor")
	require.Contains(t, diagnosis.Stdout, "provider tokens in main: 1 numbers asked, all answer")
	require.Contains(t, diagnosis.Stdout, "subscriptions in main: all numbers asked are subscribed")
	require.Contains(t, diagnosis.Stdout, "FAIL callback: does not answer the challenge", "no process serves")

	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte(canary.Token+"-of-another"), 0o600))
	said := o.refused(append(connect, "--token-file", bad)...)
	require.Contains(t, said, "does not let this token in")
	gone := o.object("account", "disconnect", "--org", o.org, "--phone-number-id", "100000000000001")
	require.Equal(t, "disconnected", gone["status"])
	require.Contains(t, o.refused("account", "disconnect", "--org", o.org, "--phone-number-id", "100000000000001"), "No such account")
	require.Empty(t, o.list("account", "list", "--org", o.org))
}
