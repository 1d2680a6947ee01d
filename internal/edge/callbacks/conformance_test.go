package callbacks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/conformance.md lists the rule that this test proves.
func TestConformance_Quarantine_ThirtyDays(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	require.Equal(t, 200, s.push(t, body(t, statuses("29", "19", "wamid.unknown"))).Code)
	require.Len(t, s.quarantined(t), 1)
	s.Clock.Move(30*24*time.Hour - time.Millisecond)
	require.NoError(t, s.Directory.ExpireQuarantine(t.Context()))
	require.Len(t, s.quarantined(t), 1)
	s.Clock.Move(2 * time.Millisecond)
	require.NoError(t, s.Directory.ExpireQuarantine(t.Context()))
	require.Empty(t, s.quarantined(t))
}
