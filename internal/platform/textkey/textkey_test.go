package textkey_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/textkey"
)

func TestFold_CaseOnly_SameKey(t *testing.T) {
	t.Parallel()
	require.Equal(t, textkey.Fold("Straße"), textkey.Fold("STRASSE"))
	require.NotEqual(t, textkey.Fold("a"), textkey.Fold("b"))
	rapid.Check(t, func(r *rapid.T) {
		start, rest := rapid.String().Draw(r, "start"), rapid.String().Draw(r, "rest")
		require.True(r, strings.HasPrefix(textkey.Fold(start+rest), textkey.Fold(start)), "the key of a prefix is a prefix of the key")
	})
}

func TestAfter_AnyText_IsTheEndOfThePrefixRange(t *testing.T) {
	t.Parallel()
	require.Equal(t, "b", textkey.After("a"))
	require.Equal(t, "ab", textkey.After("aa"))
	require.Equal(t, "\ue000", textkey.After("\ud7ff"), "surrogates are skipped")
	require.Equal(t, "b", textkey.After("a\U0010ffff\U0010ffff"), "the last code point has no successor")
	edges := []rune{0, 'a', 'b', 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff}
	characters := rapid.OneOf(rapid.Rune(), rapid.SampledFrom(edges))
	texts := rapid.StringOfN(characters, 0, 4, -1)
	rapid.Check(t, func(r *rapid.T) {
		prefix := rapid.StringOfN(characters, 1, 4, -1).Draw(r, "prefix")
		text := rapid.OneOf(texts, rapid.Map(texts, func(rest string) string { return prefix + rest })).Draw(r, "text")
		within := text >= prefix && text < textkey.After(prefix)
		require.Equal(r, strings.HasPrefix(text, prefix), within)
	})
}
