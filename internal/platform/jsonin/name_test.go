package jsonin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

func TestName_NotOneVisibleLine_Refused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a\tb", "a\nb", "a\r\nb", "a\x1b[31mb", "a\x7f", "\x01a", "a\u0080b", "a\u0085b", "a\u009b", "a\u2028b", "a\u2029b", "a\n",
		"", " ", "\u00a0", "\u3000", "\u200b\u200d", "\u202e\u202c", "\u2800", "\u115f\u3164",
	} {
		refusal := fault.As(jsonin.Name("nick", name))
		require.NotNil(t, refusal, "%q", name)
		require.Equal(t, fault.InvalidFieldValue, refusal.Code)
		require.Equal(t, "nick", refusal.Param)
	}
	for _, name := range []string{"a", "Ana Reis", "\u0645\u0631\u062d\u0628\u0627", "\u202eevil\u202c", "\U0001f468\u200d\U0001f469", "\u0301", "\ufffd", "\ufeffx"} {
		require.NoError(t, jsonin.Name("nick", name), "%q", name)
	}
}
