package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// keysFixture has an organization with a connected number and a subscription, whose token and secret are
// sealed under the master key of the tests.
type keysFixture struct {
	*fixture
	simulatorControl

	server *server
	number string
	key    string
}

func newKeysFixture(t *testing.T) *keysFixture {
	t.Helper()
	f := &keysFixture{fixture: newFixture(t), simulatorControl: newSimulatorControl(t)}
	f.server = &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t), flags: []string{"--work"}}
	f.server.settings = f.settings().With(proc.Settings{
		"PARLEY_CELLS": "main", "PARLEY_LISTEN": f.server.api, "PARLEY_OPERATOR_LISTEN": f.server.operator,
		"PARLEY_PROVIDER_BASE_URL": f.simulator, "PARLEY_PROVIDER_APP_ID": "200000000000001",
		"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
	})
	f.startSimulator(t, f.server.settings, "http://"+f.server.api+"/provider/callbacks")
	f.set(t, "settings", map[string]any{"window": "off"})
	f.serve(t, canary.Master)
	org := f.org(t, unlimited)
	_, f.key = f.fixture.key(t, org)
	f.number = f.connect(t, f.server.settings, org.String(), 0)[0]
	made, err := f.server.client(f.key).do(t.Context(), call{
		method: http.MethodPost, path: "/webhook_subscriptions", body: `{"url":"https://example.com/hooks","events":["message.sent"]}`,
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	f.server.stop(t)
	return f
}

func (f *keysFixture) serve(t *testing.T, keys string) {
	t.Helper()
	f.server.settings = f.server.settings.With(proc.Settings{"PARLEY_MASTER_KEY": keys})
	f.server.start(t)
	f.server.waitReady(t)
}

// run runs a command with master keys.
func (f *keysFixture) run(t *testing.T, keys string, command ...string) proc.Result {
	t.Helper()
	return proc.Run(t, f.server.settings.With(proc.Settings{"PARLEY_MASTER_KEY": keys}), command...)
}

// requireRefused checks that no command runs with keys that do not open what is stored.
func (f *keysFixture) requireRefused(t *testing.T, keys string) {
	t.Helper()
	for _, command := range []string{"serve", "work", "migrate"} {
		done := f.run(t, keys, command)
		require.NotZero(t, done.Code, command)
		require.Contains(t, done.Stderr, "PARLEY_MASTER_KEY does not open what is stored", command)
	}
	require.Contains(t, f.run(t, keys, "doctor").Stdout, "FAIL master key: does not open what is stored")
}

// reseal returns how many values the command sealed again.
func (f *keysFixture) reseal(t *testing.T, keys string) int {
	t.Helper()
	done := f.run(t, keys, "admin", "--json", "reseal")
	require.Zero(t, done.Code, done.Stderr)
	var cells []struct {
		Cell     string
		Resealed int
	}
	require.NoError(t, json.Unmarshal([]byte(done.Stdout), &cells))
	for _, one := range cells {
		if one.Cell == "main" {
			return one.Resealed
		}
	}
	require.Fail(t, "no cell main", done.Stdout)
	return 0
}

// TestMasterKey_Resealed_OldKeyCanBeDropped rotates the master key while a process serves. Without the
// command, a process without the old key refuses to start.
func TestMasterKey_Resealed_OldKeyCanBeDropped(t *testing.T) {
	t.Parallel()
	f := newKeysFixture(t)
	older, newer := canary.Master, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	f.requireRefused(t, newer)

	f.serve(t, newer+","+older)
	require.Equal(t, numbersPerOrg+1, f.reseal(t, newer+","+older), "a token of each number, and a secret")
	require.Zero(t, f.reseal(t, newer+","+older), "a second run finds nothing to do")
	f.server.stop(t)

	f.requireRefused(t, older)
	f.serve(t, newer)
	require.Contains(t, f.run(t, newer, "doctor").Stdout, "ok   master key: opens what is stored")
	caller := f.server.client(f.key)
	sent, err := caller.do(t.Context(), call{
		method: http.MethodPost, path: "/" + f.number + "/messages", body: `{"messaging_product":"chat","to":"+351910000001","type":"text","text":{"body":"Hello"}}`,
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, sent.status, "%s", sent.body)
	proc.Eventually(t, proc.Patience, "the token opens: the message is sent", func() bool {
		return f.count(t, `SELECT count(*) FROM message_states WHERE provider_id IS NOT NULL`) == 1
	})
}

// TestMasterKey_ResealKilled_NextRunGoesOn kills the command after its first transaction.
func TestMasterKey_ResealKilled_NextRunGoesOn(t *testing.T) {
	t.Parallel()
	f := newKeysFixture(t)
	older, newer := canary.Master, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	release := f.hold(t, `SELECT FROM accounts FOR UPDATE`) // secrets are sealed before tokens
	command := proc.Start(t, f.server.settings.With(proc.Settings{"PARLEY_MASTER_KEY": newer + "," + older}), "admin", "reseal")
	f.waitBlocked(t, 1)
	command.Kill()
	release()
	resealed := `SELECT coalesce(sum((detail ->> 'values')::int), 0) FROM audit_log WHERE action = 'secrets.resealed'`
	require.Equal(t, 1, f.count(t, resealed), "the secret of the subscription")
	f.requireRefused(t, newer)
	require.Equal(t, numbersPerOrg, f.reseal(t, newer+","+older), "only the tokens are left")
	require.Equal(t, numbersPerOrg+1, f.count(t, resealed))
	require.Contains(t, f.run(t, newer, "doctor").Stdout, "ok   master key: opens what is stored")
}
