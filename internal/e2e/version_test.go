package e2e_test

import (
	"debug/buildinfo"
	"go/version"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
)

// Older versions have a known crash in HTTP/2.
const oldestGo = "go1.26.9"

func TestGoVersion_IsNewEnough(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, version.Compare(runtime.Version(), oldestGo), 0, "the tests run on %s", runtime.Version())

	info, err := buildinfo.ReadFile(proc.Binary(t))
	require.NoError(t, err)
	require.GreaterOrEqual(t, version.Compare(info.GoVersion, oldestGo), 0, "the program was built by %s", info.GoVersion)
	for _, setting := range info.Settings {
		if setting.Key == "CGO_ENABLED" {
			require.Equal(t, "0", setting.Value)
		}
	}
}
