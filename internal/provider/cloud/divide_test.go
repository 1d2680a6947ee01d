package cloud_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
)

type address struct{ number, account string }

func addressOf(number, account string) address {
	if number != "" {
		account = ""
	}
	return address{number, account}
}

// requireDivided holds for every body: the parts have the items of the whole, each at its
// address and in the order received.
func requireDivided(t require.TestingT, client *cloud.Client, body []byte, most int) []provider.Addressed {
	whole, err := client.Parse(slices.Clone(body))
	require.NoError(t, err)
	want, got := map[address][]string{}, map[address][]string{}
	for _, one := range whole {
		to := addressOf(one.NumberID, one.BusinessAccountID)
		want[to] = append(want[to], shown(one))
	}
	parts, err := client.Divide(body, most)
	require.NoError(t, err)
	for _, part := range parts {
		to := addressOf(part.NumberID, part.BusinessAccountID)
		require.NotContains(t, got, to, "an address comes once")
		for _, one := range part.Bodies {
			items, err := client.Parse(slices.Clone(one))
			require.NoError(t, err)
			for _, item := range items {
				require.Equal(t, to, addressOf(item.NumberID, item.BusinessAccountID))
				got[to] = append(got[to], shown(item))
			}
		}
	}
	require.Equal(t, want, got)
	return parts
}

func TestDivide_OneAddress_BodyStaysAsItIs(t *testing.T) {
	t.Parallel()
	client := parser(t)
	for name, body := range payloads(t) {
		parts := requireDivided(t, client, body, 100)
		if len(parts) == 1 {
			require.Equal(t, [][]byte{body}, parts[0].Bodies, name)
		}
	}
}

// TestDivide_SeveralAddresses joins the entries of all payloads into one body.
func TestDivide_SeveralAddresses(t *testing.T) {
	t.Parallel()
	client := parser(t)
	all := payloads(t)
	var entries []json.RawMessage
	for _, name := range sorted(all) {
		var body struct {
			Entry []json.RawMessage `json:"entry"`
		}
		_ = json.Unmarshal(all[name], &body)
		entries = append(entries, body.Entry...)
	}
	body, err := json.Marshal(map[string]any{"object": "whatsapp_business_account", "entry": entries})
	require.NoError(t, err)
	parts := requireDivided(t, client, body, 10)
	require.Greater(t, len(parts), 3)
	for _, part := range parts {
		for _, one := range part.Bodies {
			items, err := client.Parse(one)
			require.NoError(t, err)
			require.LessOrEqual(t, len(items), 10)
			require.Contains(t, string(one), `"object":"whatsapp_business_account"`)
		}
	}
}

func TestDivide_LongList_CutIntoEqualStretches(t *testing.T) {
	t.Parallel()
	client := parser(t)
	statuses := make([]string, 250)
	for i := range statuses {
		statuses[i] = fmt.Sprintf(`{"id":"wamid.%d", "status":"sent","recipient_id":"15550100001","text":"<é \u00e9>"}`, i)
	}
	body := `{"object":"o","entry":[{"id":"4","time":1763197200,"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"1"},` +
		`"contacts":[{"wa_id":"15550100001","profile":{"name":"Ada"}}],"messages":"no list","statuses":[` + strings.Join(statuses, ",") + `]}}]}]}`
	parts, err := client.Divide([]byte(body), 100)
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.Equal(t, "1", parts[0].NumberID)
	require.Equal(t, "4", parts[0].BusinessAccountID)
	var counts []int
	var items []provider.Notification
	for _, one := range parts[0].Bodies {
		some, err := client.Parse(one)
		require.NoError(t, err)
		counts, items = append(counts, len(some)), append(items, some...)
	}
	require.Equal(t, []int{1 + 84, 84, 82}, counts)
	require.IsType(t, provider.Unknown{}, items[0].Item, "what is no list is kept once")
	for i, one := range items[1:] {
		status := one.Item.(provider.Status)
		require.Equal(t, fmt.Sprintf("wamid.%d", i), status.MessageID, "in the order received")
		require.Equal(t, "Ada", status.Recipient.Name, "the profile comes with each stretch")
		require.Contains(t, string(one.Raw), `<é \u00e9>`)
		require.EqualValues(t, 1763197200, one.At.Unix())
	}
}

func TestDivide_NoObject_IsAnError(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "null", "[]", `"x"`, "1", "{", `{"entry":[}`, `{"a":1}{"b":2}`} {
		_, err := parser(t).Divide([]byte(body), 100)
		require.Error(t, err, body)
	}
}

func TestDivide_NoAddress_OnePartWithoutIDs(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"entry":null}`, `{"entry":[null]}`, `{"entry":[{"changes":[{}]}]}`} {
		parts, err := parser(t).Divide([]byte(body), 100)
		require.NoError(t, err, body)
		require.Equal(t, []provider.Addressed{{Bodies: [][]byte{[]byte(body)}}}, parts, body)
	}
}
