package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// missingDatabase is the address of a database that does not exist yet.
func (f *fixture) missingDatabase(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(f.databaseURL)
	require.NoError(t, err)
	name := "e2e_dev_" + ulid.Make().String()
	address.Path, address.User = "/"+name, url.User("postgres")
	t.Cleanup(func() {
		server := *address
		server.Path = "/postgres"
		dropDatabase(t, server.String(), name)
	})
	return address.String()
}

// develop starts `parley dev --json` and returns the values of its first line.
func develop(t *testing.T, databaseURL string, more ...proc.Settings) (*proc.Process, map[string]string) {
	t.Helper()
	settings := proc.Settings{
		"PARLEY_DATABASE_URL": pgtest.Patient(t, databaseURL), "PARLEY_DATABASE_CONNS": "4",
		"PARLEY_PROVIDER_APP_SECRET": canary.AppSecret, "PARLEY_PROVIDER_VERIFY_TOKEN": canary.VerifyToken,
		"XDG_CACHE_HOME": t.TempDir(), // where files of messages are stored
	}
	for _, one := range more {
		settings = settings.With(one)
	}
	start := func() *proc.Process { return proc.Start(t, settings, "dev", "--json", "--addr", "127.0.0.1:0") }
	process := start()
	line := process.FirstLine(t)
	for try := 1; line == "" && proc.Hindered(process.Log(t), try); try++ {
		process = start()
		line = process.FirstLine(t)
	}
	var ready map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &ready))
	return process, ready
}

// requireNetwork checks that the simulator in the process sends its callbacks to the API. It asks
// the simulator with the default token.
func requireNetwork(t *testing.T, simulatorURL, publicURL string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, simulatorURL+"/v24.0/app/subscriptions", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer simulator-token")
	response, err := newHTTP().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	var answer struct {
		Data []struct {
			CallbackURL string `json:"callback_url"`
		} `json:"data"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Len(t, answer.Data, 1)
	require.Equal(t, publicURL+"/provider/callbacks", answer.Data[0].CallbackURL)
}

func TestDev_EmptyDatabase_FirstRequestsWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	databaseURL := f.missingDatabase(t)
	process, ready := develop(t, databaseURL)
	require.Equal(t, []string{
		"api_key", "base_url", "organization_id", "phone_number_id", "public_url", "simulator_url", "team_id", "user_id",
	}, slices.Sorted(maps.Keys(ready)))
	require.Equal(t, ready["public_url"]+"/v1", ready["base_url"])
	requireNetwork(t, ready["simulator_url"], ready["public_url"])

	caller := &client{base: ready["base_url"], key: ready["api_key"], http: newHTTP()}
	shown, err := caller.get(t.Context(), "/me")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, shown.status, "the first line is printed when ready: %s", shown.body)
	require.Equal(t, ready["organization_id"], shown.data(t)["organization"].(map[string]any)["id"])
	team := shown.data(t)["teams"].([]any)[0].(map[string]any)
	require.Equal(t, ready["team_id"], team["id"])
	require.Equal(t, ready["user_id"], team["members"].([]any)[0].(map[string]any)["id"])
	require.Equal(t, "100000000000001", ready["phone_number_id"])
	numbers, err := caller.get(t.Context(), "/accounts")
	require.NoError(t, err)
	require.Contains(t, string(numbers.body), `"status":"connected"`)
	approved, err := caller.get(t.Context(), "/100000000000001/templates/hello_world")
	require.NoError(t, err)
	require.Equal(t, "approved", approved.data(t)["status"])
	made, err := caller.create(t.Context(), "VIP", "first")
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
	process.Stop()
	require.Equal(t, 0, process.ExitCode(t, stopWithin))

	process, again := develop(t, databaseURL)
	for _, kept := range []string{"organization_id", "team_id", "user_id"} {
		require.Equal(t, ready[kept], again[kept], kept)
	}
	require.NotEqual(t, ready["api_key"], again["api_key"], "a new key is minted")
	caller = &client{base: again["base_url"], key: again["api_key"], http: newHTTP()}
	kept, err := caller.get(t.Context(), fmt.Sprintf("/labels/%s", made.data(t)["id"]))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, kept.status, "%s", kept.body)
	replayed, err := caller.create(t.Context(), "VIP", "first")
	require.NoError(t, err)
	require.Equal(t, string(made.body), string(replayed.body), "answers that were sealed before the restart can be opened after it")
	caller = &client{base: again["base_url"], key: ready["api_key"], http: newHTTP()}
	refused, err := caller.get(t.Context(), "/me")
	require.NoError(t, err)
	require.Equal(t, "revoked_api_key", refused.code(), "the key of the run before")
	process.Stop()
	require.Equal(t, 0, process.ExitCode(t, stopWithin))
}
