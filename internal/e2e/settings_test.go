package e2e_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/app"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

func dropDatabase(t *testing.T, serverURL, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, serverURL)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `DROP DATABASE IF EXISTS "`+name+`" WITH (FORCE)`)
	require.NoError(t, err)
}

// failedChecks are the lines of the doctor's output that start with FAIL.
func failedChecks(diagnosis proc.Result) (lines []string) {
	for line := range strings.Lines(diagnosis.Stdout) {
		if strings.HasPrefix(line, "FAIL") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestDoctor_GoodSettings_AllChecksPass(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store := proc.NewRedis(t)
	diagnosis := proc.Run(t, f.settings().With(proc.Settings{"PARLEY_REDIS_URL": store.URL()}), "doctor")
	require.Equal(t, 0, diagnosis.Code, diagnosis.Stdout)
	require.Empty(t, failedChecks(diagnosis))
	for _, checked := range []string{"settings", "postgres", "schema", "partitions", "redis"} {
		require.Contains(t, diagnosis.Stdout, "ok   "+checked+":")
	}
	require.Contains(t, diagnosis.Stdout, "WARN provider: no app is configured", "a warning does not change the exit code")
	require.Contains(t, diagnosis.Stdout, "WARN durability: fsync, full_page_writes, synchronous_commit off", "the server of the tests never waits for the disk")
	for _, checked := range []string{"standby: none attached", "pooler: none between"} {
		require.Contains(t, diagnosis.Stdout, "ok   "+checked)
	}
}

const password = "canary-password"

// Each wrong setting gives one line, which names the setting and says what to do.
func TestDoctor_BadSetting_IsNamedWithAFix(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	empty := f.missingDatabase(t)
	for name, broken := range map[string]struct {
		setting, value string
	}{
		"no master key":              {"PARLEY_MASTER_KEY", ""},
		"a short master key":         {"PARLEY_MASTER_KEY", base64.StdEncoding.EncodeToString([]byte("short"))},
		"the published master key":   {"PARLEY_MASTER_KEY", app.DevMasterKey()},
		"an address without a port":  {"PARLEY_LISTEN", "localhost"},
		"an operator without one":    {"PARLEY_OPERATOR_LISTEN", "localhost"},
		"an unknown level":           {"PARLEY_LOG_LEVEL", "loud"},
		"an unknown format":          {"PARLEY_LOG_FORMAT", "xml"},
		"too few connections":        {"PARLEY_DATABASE_CONNS", "1"},
		"connections in words":       {"PARLEY_DATABASE_CONNS", "many"},
		"a proxy that is no range":   {"PARLEY_TRUSTED_PROXIES", "nearby"},
		"a public URL of no web":     {"PARLEY_PUBLIC_URL", "ftp://example.com"},
		"a misspelt name":            {"PARLEY_REDIS_UR", "redis://127.0.0.1:1"},
		"a database that is away":    {"PARLEY_DATABASE_URL", "postgres://parley:" + password + "@" + proc.FreeAddress(t) + "/parley"},
		"a database of no kind":      {"PARLEY_DATABASE_URL", "mysql://parley:" + password + "@127.0.0.1/parley"},
		"a database that is missing": {"PARLEY_DATABASE_URL", empty},
		"a Redis that is away":       {"PARLEY_REDIS_URL", "redis://:" + password + "@" + proc.FreeAddress(t)},
		"a Redis of no kind":         {"PARLEY_REDIS_URL", "http://:" + password + "@127.0.0.1:1"},
		"a provider in the clear":    {"PARLEY_PROVIDER_BASE_URL", "http://" + "provider.example.com"},
		"a provider of no web":       {"PARLEY_PROVIDER_BASE_URL", "ftp://:" + password + "@provider.example.com"},
		"no version of the provider": {"PARLEY_PROVIDER_VERSION", "latest"},
		"negative connections":       {"PARLEY_DATABASE_CONNS", "-4"},
		"a rate in words":            {"PARLEY_WEBHOOK_HOST_RATE", "fast"},
		"a wait without a unit":      {"PARLEY_SEND_ECHO_WAIT", "120"},
		"a wait that is too long":    {"PARLEY_SEND_ECHO_WAIT", "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diagnosis := proc.Run(t, f.settings().With(proc.Settings{broken.setting: broken.value}), "doctor")
			require.Equal(t, 1, diagnosis.Code, diagnosis.Stdout)
			lines := failedChecks(diagnosis)
			require.Len(t, lines, 1, diagnosis.Stdout)
			require.Contains(t, lines[0], broken.setting, "the setting is named")
			_, fix, found := strings.Cut(lines[0], "→")
			require.NotContains(t, diagnosis.Stdout+diagnosis.Stderr, password)
			require.True(t, found && strings.TrimSpace(fix) != "", "the line says how to mend it: %s", lines[0])
		})
	}
}

// A setting that cannot be read hides no other mistake, and is reported once.
func TestServe_UnreadableSettings_HideNoOthers(t *testing.T) {
	t.Parallel()
	refused := proc.Run(t, proc.Settings{
		"PARLEY_MASTER_KEY": canary.Master, "PARLEY_TRUSTED_PROXIES": "nearby", "PARLEY_DATABASE_CONNS": "-4",
		"PARLEY_WEBHOOK_HOST_RATE": "fast", "PARLEY_SEND_ECHO_WAIT": "120",
	}, "serve")
	require.Equal(t, 1, refused.Code)
	require.ElementsMatch(t, []string{
		"PARLEY_TRUSTED_PROXIES: not a valid list of networks like 10.0.0.0/8,192.168.0.0/16",
		"PARLEY_WEBHOOK_HOST_RATE: not a valid number",
		"PARLEY_SEND_ECHO_WAIT: not a valid duration like 120s or 2m",
		"PARLEY_DATABASE_CONNS: -4 is too few, use at least 2",
	}, strings.Split(strings.TrimSuffix(strings.TrimPrefix(refused.Stderr, "parley: "), "\n"), "\n"))
}

func TestDoctor_SeveralMistakes_OneLineEach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	broken := proc.Settings{"PARLEY_LOG_LEVEL": "loud", "PARLEY_LISTEN": "localhost", "PARLEY_DATABASE_CONNS": "many"}
	diagnosis := proc.Run(t, f.settings().With(broken), "doctor")
	require.Equal(t, 1, diagnosis.Code)
	lines := failedChecks(diagnosis)
	for name := range broken {
		require.Contains(t, strings.Join(lines, "\n"), name)
	}
	require.Len(t, lines, len(broken), diagnosis.Stdout)
}

// serve reports all mistakes together, so that an operator can fix them in one step.
func TestServe_SeveralMistakes_AllAreReported(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]proc.Settings{
		"that cannot work": {
			"PARLEY_LISTEN": "localhost", "PARLEY_MASTER_KEY": "short", "PARLEY_DATABASE_URL": "mysql://x", "PARLEY_DATABASE_CONNS": "1",
			"PARLEY_REDIS_URL": "http://x", "PARLEY_PUBLIC_URL": "ftp://x", "PARLEY_OPERATOR_LISTEN": "9090",
		},
		"half an app":             {"PARLEY_PROVIDER_APP_SECRET": password, "PARLEY_MASTER_KEY": "short"},
		"of the log too":          {"PARLEY_LISTEN": "localhost", "PARLEY_LOG_LEVEL": "loud", "PARLEY_LOG_FORMAT": "xml", "PARLEY_MASTER_KEY": "short"},
		"that cannot be read too": {"PARLEY_LISTEN": "localhost", "PARLEY_DATABASE_CONNS": "many", "PARLEY_TRUSTED_PROXIES": "nearby", "PARLEY_MASTER_KEY": "short"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, command := range []string{"serve", "work"} {
				refused := proc.Run(t, broken, command)
				require.Equal(t, 1, refused.Code)
				for setting := range broken {
					require.Contains(t, refused.Stderr, setting, "%s names every mistake", command)
				}
				require.NotContains(t, refused.Stderr, "goroutine")
				require.NotContains(t, refused.Stderr, password)
			}
		})
	}
}
