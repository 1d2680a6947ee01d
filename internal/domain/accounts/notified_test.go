package accounts_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// said returns the notifications that the adapter parses from a callback body.
func (b fixture) said(t testing.TB, entry, field, value string, at time.Time) []provider.Notification {
	t.Helper()
	body := fmt.Sprintf(`{"object":"whatsapp_business_account","entry":[{"id":%q,"time":%d,"changes":[{"field":%q,"value":%s}]}]}`,
		entry, at.Unix(), field, value)
	all, err := b.Network.Parse([]byte(body))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// notify applies notifications in one transaction, as the ingress does.
func (b fixture) notify(t testing.TB, org orgs.ID, all ...provider.Notification) {
	t.Helper()
	ctx := t.Context()
	_, err := postgres.InTx(ctx, b.DB, org, func(tx *postgres.Tx) (bool, error) {
		for _, one := range all {
			handled, err := b.Accounts.NotifiedTx(ctx, tx, one)
			if err != nil {
				return false, err
			}
			require.True(t, handled, "%T", one.Item)
		}
		return true, nil
	})
	require.NoError(t, err)
}

func (b fixture) now(t testing.TB, of accounts.Account) accounts.Account {
	t.Helper()
	account, err := b.Accounts.Get(t.Context(), b.org, of.ID)
	require.NoError(t, err)
	return account
}

func wabaInfo(account accounts.Account) string {
	return `"waba_info":{"waba_id":"` + account.BusinessAccountID + `","owner_business_id":"300000000000009"}`
}

// TestNotified_States_EachAppliedAndUndone sends every notification that moves an account, each to an account
// that is connected, and then the one that takes it back.
func TestNotified_States_EachAppliedAndUndone(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	for _, test := range []struct {
		name, entry, value string
		status             accounts.Status
		reason             string
		back               string
	}{
		{
			"PARTNER_REMOVED", "300000000000009", `{"event":"PARTNER_REMOVED",WABA}`,
			accounts.Disconnected, "partner_removed", `{"event":"PARTNER_ADDED",WABA}`,
		},
		{
			"PARTNER_REMOVED with a reason", "300000000000009",
			`{"event":"PARTNER_REMOVED",WABA,"disconnection_info":{"reason":"COMPANION_INACTIVITY","initiated_by":"SYSTEM"}}`,
			accounts.Disconnected, "partner_removed_companion_inactivity", `{"event":"PARTNER_APP_INSTALLED",WABA}`,
		},
		{
			"PARTNER_APP_UNINSTALLED", "300000000000009", `{"event":"PARTNER_APP_UNINSTALLED",WABA}`,
			accounts.Disconnected, "partner_app_uninstalled", `{"event":"PARTNER_APP_INSTALLED",WABA}`,
		},
		{"ACCOUNT_DELETED", "", `{"event":"ACCOUNT_DELETED"}`, accounts.Disconnected, "account_deleted", ``},
		{
			"ACCOUNT_OFFBOARDED", "", `{"event":"ACCOUNT_OFFBOARDED","phone_number":"PHONE"}`,
			accounts.Disconnected, "account_offboarded", `{"event":"ACCOUNT_RECONNECTED","phone_number":"PHONE"}`,
		},
		{
			"DISABLED_UPDATE DISABLE", "", `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"DISABLE","waba_ban_date":"June 1, 2026"}}`,
			accounts.Disconnected, "account_disabled", `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"REINSTATE"}}`,
		},
		{
			"DISABLED_UPDATE SCHEDULE", "", `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"SCHEDULE_FOR_DISABLE"}}`,
			accounts.Connected, "", ``,
		},
		{"ACCOUNT_VIOLATION", "", `{"event":"ACCOUNT_VIOLATION","violation_info":{"violation_type":"SPAM"}}`, accounts.Connected, "", ``},
		{"VERIFIED_ACCOUNT", "", `{"event":"VERIFIED_ACCOUNT"}`, accounts.Connected, "", ``},
	} {
		account, other := b.Account(t, b.org), b.Account(t, b.org)
		send := func(value string) {
			entry := test.entry
			if entry == "" {
				entry = account.BusinessAccountID
			}
			b.Clock.Move(time.Minute)
			b.notify(t, b.org, b.said(t, entry, "account_update", fill(value, account), b.Clock.Now())...)
		}
		send(test.value)
		moved := b.now(t, account)
		require.Equal(t, test.status, moved.Status, test.name)
		require.Equal(t, test.reason, orNothing(moved.StatusReason), test.name)
		require.False(t, moved.DueAt.After(b.Clock.Now()), "%s: the provider is asked soon", test.name)
		require.Equal(t, accounts.Connected, b.now(t, other).Status, "%s: of another business account", test.name)
		if test.back != "" {
			send(test.back)
			require.Equal(t, accounts.Connected, b.now(t, account).Status, test.back)
			require.Nil(t, b.now(t, account).StatusReason)
		}
	}
}

func fill(value string, account accounts.Account) string {
	out := ""
	for i := 0; i < len(value); i++ {
		switch {
		case len(value)-i >= 4 && value[i:i+4] == "WABA" && (i == 0 || value[i-1] == ','):
			out, i = out+wabaInfo(account), i+3
		case len(value)-i >= 5 && value[i:i+5] == "PHONE":
			out, i = out+(*account.PhoneNumber)[1:], i+4
		default:
			out += string(value[i])
		}
	}
	return out
}

func orNothing(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func TestNotified_Restrictions_Applied(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	account := b.Account(t, b.org)
	until := b.Clock.Now().Add(24 * time.Hour).Truncate(time.Second)
	b.notify(t, b.org, b.said(t, account.BusinessAccountID, "account_update", fmt.Sprintf(`{"event":"ACCOUNT_RESTRICTION","restriction_info":[
		{"restriction_type":"RESTRICTED_BIZ_INITIATED_MESSAGING","expiration":%d},
		{"restriction_type":"RESTRICTED_ADD_PHONE_NUMBER_ACTION"}]}`, until.Unix()), b.Clock.Now())...)
	restricted := b.now(t, account)
	require.Equal(t, accounts.Connected, restricted.Status, "some messages still go")
	require.True(t, restricted.Restricts(provider.RestrictsInitiated, b.Clock.Now()))
	require.False(t, restricted.Restricts(provider.RestrictsReplies, b.Clock.Now()))
	require.False(t, restricted.Restricts(provider.RestrictsUtility, b.Clock.Now()))
	require.False(t, restricted.Restricts(provider.RestrictsNothing, b.Clock.Now()))
	require.True(t, restricted.Restricts(provider.RestrictsInitiated, until.Add(-time.Millisecond)))
	require.False(t, restricted.Restricts(provider.RestrictsInitiated, until))
	b.notify(t, b.org, b.said(t, account.BusinessAccountID, "account_update",
		`{"event":"ACCOUNT_RESTRICTION","restriction_info":[{"restriction_type":"RESTRICTED_CUSTOMER_INITIATED_MESSAGING"}]}`, b.Clock.Now())...)
	forever := b.now(t, account)
	require.True(t, forever.Restricts(provider.RestrictsReplies, b.Clock.Now().Add(10*365*24*time.Hour)), "whose end was not said")
}

func TestNotified_Numbers_Applied(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	account, other := b.Account(t, b.org), b.Account(t, b.org)
	send := func(field, value string) accounts.Account {
		b.Clock.Move(time.Minute)
		b.notify(t, b.org, b.said(t, account.BusinessAccountID, field, fill(value, account), b.Clock.Now())...)
		return b.now(t, account)
	}
	require.Equal(t, "Bay Bakery", *send("phone_number_name_update",
		`{"display_phone_number":"PHONE","decision":"APPROVED","requested_verified_name":"Bay Bakery","rejection_reason":"NONE"}`).Name)
	require.Equal(t, "Bay Bakery", *send("phone_number_name_update",
		`{"display_phone_number":"PHONE","decision":"REJECTED","requested_verified_name":"Bad Name","rejection_reason":"X"}`).Name)
	require.Equal(t, "10000", *send("business_capability_update", `{"max_daily_conversations_per_business":10000}`).MessagingLimit)
	require.Equal(t, "unlimited", *send("business_capability_update", `{"max_daily_conversations_per_business":-1}`).MessagingLimit)
	require.Equal(t, "250", *send("business_capability_update", `{"max_daily_conversations_per_business":250}`).MessagingLimit)
	for field, value := range map[string]string{
		"security":                 `{"display_phone_number":"PHONE","event":"PIN_CHANGED","requester":"1"}`,
		"account_alerts":           `{"entity_type":"PHONE_NUMBER","entity_id":"1","alert_info":{"alert_severity":"WARNING","alert_status":"ACTIVE","alert_type":"OBA_REJECTED","alert_description":"x"}}`,
		"account_review_update":    `{"decision":"APPROVED"}`,
		"business_username_update": `{"display_phone_number":"PHONE","username":"bay","status":"approved"}`,
		"phone_number_quality_update": `{"display_phone_number":"PHONE","event":"THROUGHPUT_UPGRADE","current_limit":"TIER_100K",` +
			`"max_daily_conversations_per_business":"TIER_100K"}`,
	} {
		require.Equal(t, accounts.Connected, send(field, value).Status, field)
	}
	require.Equal(t, "100000", *b.now(t, account).MessagingLimit)
	require.Equal(t, other.Resource(), b.now(t, other).Resource())
	require.Nil(t, b.now(t, other).MessagingLimit)
}

func TestNotified_OtherNotifications_LeftToOthers(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	account := b.Account(t, b.org)
	for field, value := range map[string]string{
		"message_template_status_update": `{"event":"APPROVED","message_template_id":1,"message_template_name":"a","message_template_language":"en","reason":"NONE"}`,
		"something_new":                  `{"a":1}`,
	} {
		for _, one := range b.said(t, account.BusinessAccountID, field, value, b.Clock.Now()) {
			_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (bool, error) {
				handled, err := b.Accounts.NotifiedTx(ctx, tx, one)
				require.False(t, handled, field)
				return handled, err
			})
			require.NoError(t, err)
		}
	}
}

// TestNotified_AnyOrder_SameResult shuffles and repeats what the provider says of an account.
func TestNotified_AnyOrder_SameResult(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	values := []string{
		`{"event":"PARTNER_REMOVED",WABA}`, `{"event":"PARTNER_ADDED",WABA}`, `{"event":"ACCOUNT_OFFBOARDED"}`, `{"event":"ACCOUNT_RECONNECTED"}`,
		`{"event":"ACCOUNT_DELETED"}`, `{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"DISABLE"}}`,
		`{"event":"DISABLED_UPDATE","ban_info":{"waba_ban_state":"REINSTATE"}}`,
		`{"event":"ACCOUNT_RESTRICTION","restriction_info":[{"restriction_type":"RESTRICTED_UTILITY_TEMPLATES","expiration":1893456000}]}`,
		`{"event":"ACCOUNT_RESTRICTION","restriction_info":[{"restriction_type":"RESTRICTED_UTILITY_TEMPLATES","expiration":1767225600}]}`,
	}
	start := b.Clock.Now()
	rapid.Check(t, func(r *rapid.T) {
		one, two := b.Account(t, b.org), b.Account(t, b.org)
		count := rapid.IntRange(1, 8).Draw(r, "count")
		var first, second []provider.Notification
		for i := range count {
			value, at := values[rapid.IntRange(0, len(values)-1).Draw(r, "value")], start.Add(time.Duration(rapid.IntRange(0, 4).Draw(r, "at"))*time.Second)
			first = append(first, b.said(t, one.BusinessAccountID, "account_update", fill(value, one), at)...)
			for range rapid.IntRange(1, 2).Draw(r, fmt.Sprint("times ", i)) {
				second = append(second, b.said(t, two.BusinessAccountID, "account_update", fill(value, two), at)...)
			}
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		random.Shuffle(len(second), func(i, j int) { second[i], second[j] = second[j], second[i] })
		b.notify(t, b.org, first...)
		for _, said := range second {
			b.notify(t, b.org, said)
		}
		left, right := b.now(t, one), b.now(t, two)
		delete(left.Notices, "name") // the one thing that differs
		delete(right.Notices, "name")
		require.Equal(r, asJSON(t, left.Notices), asJSON(t, right.Notices))
		require.Equal(r, left.Status, right.Status)
		require.Equal(r, left.StatusReason, right.StatusReason)
	})
}

func asJSON(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
