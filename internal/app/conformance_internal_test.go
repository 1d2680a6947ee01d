package app

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// docs/conformance.md lists the rules that these tests prove.

func TestConformance_Unready_ClockJumpedAndPartitions(t *testing.T) {
	t.Parallel()
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	c := openCell(t, CellConfig{URL: pgtest.URL(t), Ring: ring})
	require.NoError(t, c.SyncClock(t.Context()))
	require.NoError(t, (&Cells{all: map[string]*Cell{"main": c}}).awaitKeys(t.Context(), "", canary.Logger(t)))
	require.NoError(t, c.upkeepDB.EnsurePartitions(t.Context(), schema.Partitioned(), c.clock.Now()))
	require.Empty(t, c.unready(t.Context()))

	shift := func(by time.Duration) { // as if the machine's clock had been set
		c.clock.Adjust(c.clock.Now().Add(by), c.clock.Elapsed(), c.clock.Elapsed())
	}
	shift(time.Second)
	require.NoError(t, c.SyncClock(t.Context()), "a small difference")
	shift(3 * time.Second)
	require.ErrorContains(t, c.SyncClock(t.Context()), "the clock jumped by")
	require.Contains(t, c.unready(t.Context()), "the clock jumped")
	require.NoError(t, c.SyncClock(t.Context()))
	require.Empty(t, c.unready(t.Context()), "the next measurement agrees")

	newest, err := postgres.Many[string](t.Context(), c.upkeepDB.System("test"), `
SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'api_log'::regclass ORDER BY 1 DESC`, nil)
	require.NoError(t, err)
	drop := func(name string) {
		_, err := postgres.Many[string](t.Context(), c.upkeepDB.System("test"), `DROP TABLE `+name, nil)
		require.NoError(t, err)
	}
	drop(newest[0])
	drop(newest[1])
	require.Empty(t, c.unready(t.Context()), "two ahead")
	drop(newest[2])
	require.Contains(t, c.unready(t.Context()), "partitions are running out")
}

func TestConformance_Settings_AllKnown(t *testing.T) {
	t.Parallel()
	decided := `LISTEN OPERATOR_LISTEN TRUSTED_PROXIES DATABASE_URL DIRECTORY_DATABASE_URL CELL_EAST_DATABASE_URL CELLS REDIS_URL PUBLIC_URL
		MEDIA_BASE_URL MEDIA_BUCKET MASTER_KEY PROVIDER_BASE_URL PROVIDER_VERSION PROVIDER_APP_ID PROVIDER_APP_SECRET PROVIDER_VERIFY_TOKEN
		SEND_ECHO_WAIT WEBHOOK_ALLOW_NETWORKS WEBHOOK_CA_FILE WEBHOOK_HOST_RATE DATABASE_CONNS PROVIDER_SIGNUP_CONFIG_ID MEDIA_LISTEN
		LOG_LEVEL LOG_FORMAT`
	environment := map[string]string{Prefix + "NO_SUCH": "x"}
	for name := range strings.FieldsSeq(decided) {
		environment[Prefix+name] = "x"
	}
	unknown := unknownSettings(environment)
	require.Len(t, unknown, 1)
	require.Equal(t, "PARLEY_NO_SUCH is not a setting", unknown[0].Found)
	unset := ReadConfig(nil)
	require.Equal(t, []any{"postgres://127.0.0.1:5432/parley", unset.DatabaseURL, int32(16), 500, 2 * time.Minute},
		[]any{unset.DatabaseURL.Reveal(), unset.DirectoryURL, unset.DatabaseConns, unset.WebhookRate, unset.SendEchoWait})
}
