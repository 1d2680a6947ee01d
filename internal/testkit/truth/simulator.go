package truth

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// SimulatorSends reads the log of a simulator at a URL.
func SimulatorSends(t testing.TB, url string) []Send {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/sim/sent", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var body struct {
		Data []struct {
			ID      string
			Number  string `json:"phone_number_id"`
			Opaque  string
			At      time.Time `json:"accepted_at"`
			Dropped bool      `json:"callbacks_dropped"`
		}
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&body))
	sends := make([]Send, 0, len(body.Data))
	for _, one := range body.Data {
		sends = append(sends, Send{ID: one.ID, NumberID: one.Number, Reference: one.Opaque, At: one.At, Silent: one.Dropped})
	}
	return sends
}
