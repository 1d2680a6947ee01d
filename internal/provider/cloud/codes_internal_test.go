package cloud

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/provider"
)

func TestCodes_EachHasItsPayload(t *testing.T) {
	t.Parallel()
	for code, row := range codes {
		_, err := os.Stat(fmt.Sprintf("testdata/errors/%d.json", code))
		require.NoError(t, err)
		require.NotEmpty(t, row.class)
		require.Contains(t, slices.Concat(fault.Codes(), provider.Codes()), row.code)
	}
	for _, row := range codeRanges {
		_, err := os.Stat(fmt.Sprintf("testdata/errors/%d.json", row.from))
		require.NoError(t, err)
	}
	for subcode := range templateFaults {
		_, err := os.Stat(fmt.Sprintf("testdata/errors/subcode_%d.json", subcode))
		require.NoError(t, err)
	}
}

// FuzzAnswer lets the network answer anything: it is never taken for a success with an
// error in it, and what the network did not refuse in its own words may have been executed.
func FuzzAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/errors/*.json")
	require.NoError(f, err)
	for i, file := range files {
		body, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add([]int{200, 400, 404, 429, 500, 503}[i%6], body)
	}
	f.Add(200, []byte(`{"messages":[{"id":"w"}]}`))
	client, err := New(Config{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		failed := client.judge(request{}, answer{status: status, header: http.Header{}, body: body})
		if failed == nil {
			require.True(t, status >= 200 && status < 300)
			return
		}
		require.NotEmpty(t, failed.Class)
		require.NotEmpty(t, failed.Code)
		require.NotContains(t, failed.Error(), "\n")
		refused := failed.ProviderCode != nil || status >= 400 && status < 500
		require.Equal(t, refused, failed.Delivery == provider.NotSent)
	})
}

func TestReviewOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, provider.ReviewApproved, reviewOf("APPROVED"))
	require.Equal(t, provider.ReviewPending, reviewOf("IN_APPEAL"))
	require.Equal(t, provider.ReviewRejected, reviewOf("PAUSED"))
	require.Equal(t, provider.ReviewRejected, reviewOf("SOMETHING_NEW"))
}

func TestDaily(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]provider.DailyLimit{
		"": 0, "x": 0, "250": 250, "-1": -1, "TIER_250": 250, "TIER_2K": 2000, "tier_100k": 100_000, "TIER_UNLIMITED": -1, "TIER_NEW": 0,
	} {
		require.Equal(t, want, daily(given), given)
	}
}
