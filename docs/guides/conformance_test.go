package guides_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// How long a comparison takes cannot be tested, so that the receivers must use the functions that their languages have
// for it. docs/conformance.md lists the rule that this test proves.
func TestConformance_Receivers_CompareInConstantTime(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("webhooks.md")
	require.NoError(t, err)
	for language, compares := range map[string]string{"go": "hmac.Equal(", "ts": "timingSafeEqual(", "py": "hmac.compare_digest("} {
		_, receiver, found := strings.Cut(string(guide), "<!-- run: receiver."+language)
		require.True(t, found, language)
		receiver, _, _ = strings.Cut(receiver, "\n```\n\n")
		require.Contains(t, receiver, compares, language)
	}
}
