package jsonout_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/jsonout"
)

func TestMarshal_HTMLCharacters_NotEscaped(t *testing.T) {
	t.Parallel()
	value := map[string]any{"text": "a < b && b > c", "raw": json.RawMessage(`"\u003c <"`)}
	encoded, err := jsonout.Marshal(value)
	require.NoError(t, err)
	require.Equal(t, `{"raw":"\u003c <","text":"a < b && b > c"}`, string(encoded)) //nolint:testifylint // its bytes count
	line, err := jsonout.Line(value)
	require.NoError(t, err)
	require.Equal(t, string(encoded)+"\n", string(line))
}

func TestMarshal_ValueWithoutJSONForm_Error(t *testing.T) {
	t.Parallel()
	encoded, err := jsonout.Marshal(math.Inf(1))
	require.Error(t, err)
	require.Nil(t, encoded)
}
