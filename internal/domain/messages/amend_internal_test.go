package messages

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
)

// TestAmended_EditTwice_AppliedOnce applies an edit that another transaction has applied while this one waited for the lock.
func TestAmended_EditTwice_AppliedOnce(t *testing.T) {
	t.Parallel()
	message := &amended{Said: Said{Type: provider.TypeText, Content: json.RawMessage(`{"body":"Helo"}`)}}
	edit := provider.Edit{ID: "wamid.2", Content: json.RawMessage(`{"body":"Hello"}`)}
	at := time.Unix(1_700_000_000, 0)
	data, err := message.edit(edit, at)
	require.NoError(t, err)
	require.Len(t, data["edit_history"], 1)
	history := string(message.EditHistory)
	data, err = message.edit(edit, at.Add(time.Second))
	require.NoError(t, err)
	require.Nil(t, data)
	require.JSONEq(t, history, string(message.EditHistory))
}
