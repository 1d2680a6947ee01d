package templates

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
)

// docs/conformance.md lists the rule that this test proves.
func TestConformance_Carousel_AtMostTenCards(t *testing.T) {
	t.Parallel()
	check := func(cards int) error {
		return lint{category: "MARKETING"}.check(json.RawMessage(carousel(slices.Repeat([]string{card}, cards)...)))
	}
	require.NoError(t, check(10))
	require.Equal(t, "components[1].cards", fault.As(check(11)).Param)
}
