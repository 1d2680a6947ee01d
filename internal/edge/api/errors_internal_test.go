package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/openapi"
)

func TestStatuses_EveryCode_HasARow(t *testing.T) {
	t.Parallel()
	require.Len(t, statuses, len(fault.Codes()))
	for _, code := range fault.Codes() {
		require.Contains(t, statuses, code)
	}
}

// TestErrors_Examples_StatusAndType: each error that the contract shows for an operation has the status and the type of its code.
func TestErrors_Examples_StatusAndType(t *testing.T) {
	t.Parallel()
	contract, err := openapi.Load()
	require.NoError(t, err)
	for _, operation := range contract.Operations() {
		for _, status := range operation.Statuses() {
			shown, err := operation.ResponseExamples(status)
			require.NoError(t, err)
			for _, example := range shown {
				var body errorEnvelope
				require.NoError(t, json.Unmarshal(example.Value, &body))
				if status >= http.StatusBadRequest {
					require.Equal(t, statusRow{status, body.Error.Type}, statusOf(body.Error.Code), "%s, %d: %s", operation.ID, status, example.Value)
				}
			}
		}
	}
}
