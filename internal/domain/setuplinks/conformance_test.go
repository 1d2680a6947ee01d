package setuplinks_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/setuplinks"
)

// docs/conformance.md lists the rules that this test proves.
func TestConformance_Consumed_TimeInLinkAndEvent(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	token, number, _ := f.grant(t, object{})
	f.Clock.Move(time.Hour)
	account, err := f.complete(t, link.ID, token, number)
	require.NoError(t, err)
	now, err := f.SetupLinks.Get(t.Context(), f.org, f.customer.ID, link.ID)
	require.NoError(t, err)
	printed, err := json.Marshal(now.Resource())
	require.NoError(t, err)
	var shown object
	require.NoError(t, json.Unmarshal(printed, &shown))
	require.Equal(t, []any{"consumed", f.Clock.Now().Format("2006-01-02T15:04:05.000Z")}, []any{shown["status"], shown["consumed_at"]})
	all := f.recorded(t)
	require.Equal(t, object{"customer_id": f.customer.ID.String(), "setup_link": shown, "account_id": account.ID.String()}, all[len(all)-1].data(t))
}
