package wire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/simulator/wire"
)

func TestMessageID_Decoded_GivesDigitsAndDirection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		digits := rapid.StringMatching(`[1-9][0-9]{6,14}`).Draw(r, "digits")
		direction := rapid.SampledFrom([]byte{wire.ToUser, wire.FromUser}).Draw(r, "direction")
		id := wire.MessageID(digits, direction)
		read, way, ok := wire.ReadMessageID(id)
		require.True(r, ok)
		require.Equal(r, digits, read)
		require.Equal(r, direction, way)
		require.NotEqual(r, id, wire.MessageID(digits, direction))
	})
	require.Regexp(t, `^wamid\.HBgLMTU1NTAxMDAwMDEVAgARGB`, wire.MessageID("15550100001", wire.ToUser), "the prefix of the network's own ids")
	for _, other := range []string{"", "wamid.", "wamid.x", "wamid.HBgL", "HBgLMTU1NTAxMDAwMDEVAgARGB"} {
		_, _, ok := wire.ReadMessageID(other)
		require.False(t, ok, other)
	}
}

func TestUserID_OtherPortfolioOrGeneration_IsNotDecoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		digits := rapid.StringMatching(`[1-9][0-9]{6,14}`).Draw(r, "digits")
		portfolio := rapid.StringMatching(`[0-9]{15}`).Draw(r, "portfolio")
		generation := rapid.IntRange(0, 15).Draw(r, "generation")
		id := wire.UserID(digits, portfolio, generation)
		require.Regexp(r, `^[A-Z]{2}[.][0-9]{1,20}$`, id)
		read, ok := wire.ReadUserID(id, portfolio, generation)
		require.True(r, ok)
		require.Equal(r, digits, read)
		parent, ok := wire.ReadUserID(wire.ParentUserID(digits, portfolio, generation), portfolio, generation)
		require.True(r, ok)
		require.Equal(r, digits, parent)
		for name, other := range map[string]string{
			"another portfolio's":  wire.UserID(digits, portfolio+"1", generation),
			"another generation's": wire.UserID(digits, portfolio, generation+1),
			"an altered":           "ZZ" + id[2:],
		} {
			if read, ok := wire.ReadUserID(other, portfolio, generation); ok {
				require.NotEqual(r, digits, read, "%s id is not this user's", name)
			}
		}
	})
}

func TestDigits_WrittenNumbers_AreNormalized(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"+1 (555) 010-0001": "15550100001", "15550100001": "15550100001", "+351 912.345.678": "351912345678"} {
		digits, ok := wire.Digits(given)
		require.True(t, ok)
		require.Equal(t, want, digits)
	}
	for given, want := range map[string]string{
		"+55 11 91234-5678": "5511912345678", "+55 41 91234-5678": "554112345678", "+52 55 1234 5678": "5215512345678",
		"+52 1 55 1234 5678": "5215512345678", "+1 555 010 0001": "15550100001",
	} {
		digits, ok := wire.UserDigits(given)
		require.True(t, ok)
		require.Equal(t, want, digits)
	}
	for _, given := range []string{"", "+", "123456", "1234567890123456", "1555010000a", "US.1"} {
		_, ok := wire.Digits(given)
		require.False(t, ok, given)
	}
}

func TestRefusal_EveryCode_HasTitleAndStatus(t *testing.T) {
	t.Parallel()
	for _, code := range wire.Known() {
		refusal := wire.Refusal(code, "details %d", code)
		require.NotEmpty(t, refusal.Title)
		require.GreaterOrEqual(t, refusal.HTTP, 400)
		require.Contains(t, refusal.Error(), fmt.Sprint(code))
	}
	require.Equal(t, 400, wire.Refusal(999_999, "unknown").HTTP)
	require.Equal(t, 403, wire.Refusal(250, "a permission").HTTP)
}
