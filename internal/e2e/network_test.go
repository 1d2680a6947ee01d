package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// A database of `parley dev` is not used with a real network, whatever its master key. One of a real network is not used
// by `parley dev`.
func TestDevDatabase_RealNetwork_Refused(t *testing.T) {
	t.Parallel()
	const network = "https://graph.example.com"
	refused := func(settings proc.Settings, said string, commands ...[]string) {
		t.Helper()
		settings = settings.With(proc.Settings{"PARLEY_LISTEN": "127.0.0.1:0", "PARLEY_OPERATOR_LISTEN": "127.0.0.1:0"})
		for _, command := range commands {
			done := proc.Run(t, settings, command...)
			require.Equal(t, 1, done.Code, command)
			require.Contains(t, done.Stderr, said, command)
			require.Contains(t, done.Stderr, "PARLEY_DATABASE_URL", command)
		}
	}
	f := newFixture(t)
	serve, work, migrate := []string{"serve"}, []string{"work"}, []string{"migrate"}
	develops := func(settings proc.Settings) proc.Settings {
		settings["PARLEY_DATABASE_URL"] = f.missingDatabase(t)
		process, ready := develop(t, settings["PARLEY_DATABASE_URL"], settings)
		process.Stop()
		require.Equal(t, 0, process.ExitCode(t, stopWithin))
		require.NotEmpty(t, ready["api_key"])
		return settings.With(proc.Settings{"PARLEY_MASTER_KEY": canary.Master})
	}
	ownKey := develops(proc.Settings{"PARLEY_MASTER_KEY": canary.Master})
	refused(ownKey, "`parley dev` made it, and its numbers are simulated", serve, work, migrate)
	refused(ownKey.With(proc.Settings{"PARLEY_PROVIDER_BASE_URL": network}), "its numbers are simulated", serve, work)
	require.Contains(t, failedChecks(proc.Run(t, ownKey, "doctor"))[0], "FAIL network: ")
	simulated := proc.Settings{"PARLEY_PROVIDER_BASE_URL": "http://" + proc.FreeAddress(t)}
	server := &server{api: proc.FreeAddress(t), operator: proc.FreeAddress(t)}
	server.settings = ownKey.With(simulated).With(proc.Settings{"PARLEY_LISTEN": server.api, "PARLEY_OPERATOR_LISTEN": server.operator})
	server.start(t)
	server.waitReady(t)
	server.stop(t)
	refused(develops(proc.Settings{}), "`parley dev` made it under its published key", serve, work, migrate)

	f.serve(t, nil).stop(t)
	settings := proc.Settings{"PARLEY_DATABASE_URL": f.databaseURL, "PARLEY_MASTER_KEY": canary.Master}
	refused(settings, "`parley dev` did not make it", []string{"dev", "--addr", "127.0.0.1:0"})
	require.Zero(t, f.count(t, `SELECT count(*) FROM organizations WHERE name = 'Parley demo'`))
}
