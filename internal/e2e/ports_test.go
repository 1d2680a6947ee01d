package e2e_test

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

// takenAddress is an address on which another program listens until the test ends.
func takenAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// `parley dev` does not even make its database when one of its ports is taken.
func TestDev_PortTaken_DatabaseUntouched(t *testing.T) {
	t.Parallel()
	f, taken := newFixture(t), takenAddress(t)
	for words, with := range map[string]struct {
		settings proc.Settings
		args     []string
	}{
		"--addr: ":              {args: []string{"--addr", taken}},
		"the simulator: ":       {args: []string{"--addr", "127.0.0.1:0", "--simulator-addr", taken}},
		"PARLEY_MEDIA_LISTEN: ": {proc.Settings{"PARLEY_MEDIA_BUCKET": "file://" + t.TempDir(), "PARLEY_MEDIA_LISTEN": taken}, []string{"--addr", "127.0.0.1:0"}},
	} {
		database := f.missingDatabase(t)
		refused := proc.Run(t, proc.Settings{"PARLEY_DATABASE_URL": database}.With(with.settings), append([]string{"dev"}, with.args...)...)
		require.Equal(t, 1, refused.Code, words)
		require.Contains(t, refused.Stderr, "parley: "+words+"listen tcp "+taken)
		_, err := pgx.Connect(t.Context(), database)
		require.ErrorContains(t, err, "does not exist", words)
	}
}

// A process names the setting whose port is taken.
func TestServe_PortTaken_SettingIsNamed(t *testing.T) {
	t.Parallel()
	f, taken := newFixture(t), takenAddress(t)
	for _, setting := range []string{"PARLEY_LISTEN", "PARLEY_OPERATOR_LISTEN"} {
		settings := f.settings().With(proc.Settings{"PARLEY_LISTEN": "127.0.0.1:0", "PARLEY_OPERATOR_LISTEN": "127.0.0.1:0"})
		refused := proc.Run(t, settings.With(proc.Settings{setting: taken}), "serve")
		require.Equal(t, 1, refused.Code)
		require.Contains(t, refused.Stderr, "parley: "+setting+": listen tcp "+taken)
	}
}
