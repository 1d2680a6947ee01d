package safehttp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/conformance.md lists the rule that this test proves.
func TestConformance_Timeout_TenSeconds(t *testing.T) {
	t.Parallel()
	client, err := New(Config{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.Equal(t, 10*time.Second, client.timeout)
}
