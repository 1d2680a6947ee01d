package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
)

func TestStatuses_EveryCode_HasARow(t *testing.T) {
	t.Parallel()
	require.Len(t, statuses, len(fault.Codes()))
	for _, code := range fault.Codes() {
		require.Contains(t, statuses, code)
	}
}
