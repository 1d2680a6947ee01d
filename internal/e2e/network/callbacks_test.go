package network_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
)

// writes sends a message of a user to the number, and waits for its callback.
func writes(f *fixture, from string, message object) (provider.Notification, provider.Inbound) {
	f.t.Helper()
	message["from"] = from
	id := f.sim("inbound", message)["id"].(string)
	return next(f, func(inbound provider.Inbound) bool { return inbound.ID == id })
}

func TestInbound_EveryType_IsParsed(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, first := writes(f, grace, object{"type": "text"})
	for kind, content := range map[string]any{
		"text": nil, "image": nil, "video": nil, "document": nil, "audio": nil, "sticker": nil, "location": nil, "contacts": nil,
		"interactive": object{"type": "button_reply", "button_reply": object{"id": "y", "title": "Yes"}},
		"button":      object{"payload": "p", "text": "Thanks"},
		"reaction":    object{"message_id": first.ID, "emoji": "👍"},
		"order":       nil, "unsupported": nil,
	} {
		message := object{"type": kind}
		if content != nil {
			message[kind] = content
		}
		notification, inbound := writes(f, grace, message)
		require.Equal(t, kind, inbound.Type)
		require.Equal(t, grace, inbound.From.Phone)
		require.Equal(t, "Grace Hopper", inbound.From.Name)
		require.Equal(t, "grace.hopper", inbound.From.Username)
		require.NotEmpty(t, inbound.From.ID)
		require.False(t, inbound.At.IsZero())
		require.Equal(t, f.number.ID, notification.NumberID)
		require.Equal(t, "+15550199001", notification.DisplayNumber)
		require.NotEmpty(t, notification.Contact)
		if kind != "unsupported" {
			require.NotEmpty(t, inbound.Content, kind)
		}
		switch kind {
		case "image", "video", "document", "audio", "sticker":
			require.NotNil(t, inbound.Media, kind)
		case "reaction":
			require.NotNil(t, inbound.Reaction)
		case "unsupported":
			require.NotEmpty(t, inbound.Unsupported)
		}
		envelope, err := notification.Envelope()
		require.NoError(t, err)
		again, err := f.client.Parse(envelope)
		require.NoError(t, err)
		require.Equal(t, []provider.Notification{notification}, again, "a parsed envelope gives the notification again")
	}
}

func TestCallbacks_OtherKinds_AreParsed(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, original := writes(f, ada, object{"type": "text", "text": object{"body": "old"}})

	f.sim("inbound", object{"from": ada, "type": "edit", "edit": object{
		"original_message_id": original.ID, "message": object{"type": "text", "text": object{"body": "new"}},
	}})
	_, edit := next(f, func(edit provider.Edit) bool { return edit.OriginalID == original.ID })
	require.Equal(t, ada, edit.User.Phone)
	require.NotEmpty(t, edit.Content)
	f.sim("inbound", object{"from": ada, "type": "revoke", "revoke": object{"original_message_id": original.ID}})
	_, revoke := next(f, func(revoke provider.Revoke) bool { return revoke.OriginalID == original.ID })
	require.False(t, revoke.ByBusiness)

	f.sim("preferences", object{"from": ada, "value": "stop"})
	_, preference := next(f, func(provider.Preference) bool { return true })
	require.Equal(t, "stop", preference.Value)
	require.Equal(t, ada, preference.User.Phone)

	f.sim("echo", object{"to": ada, "type": "text", "text": object{"body": "from the phone"}})
	_, echo := next(f, func(provider.Echo) bool { return true })
	require.Equal(t, ada, echo.To.Phone)

	f.sim("system", object{"from": ada, "type": "user_changed_number", "new_phone": "15550100077"})
	_, change := next(f, func(provider.IdentityChange) bool { return true })
	require.Equal(t, provider.IdentityNumberChanged, change.Reason)
	require.Equal(t, ada, change.Previous.Phone)
	require.Equal(t, "+15550100077", change.Current.Phone)
	require.NotEmpty(t, change.Previous.ID)
	require.NotEmpty(t, change.Current.ID)
	require.NotEqual(t, change.Previous.ID, change.Current.ID)
	f.sim("system", object{"from": grace, "type": "user_changed_user_id"})
	_, change = next(f, func(provider.IdentityChange) bool { return true })
	require.Equal(t, provider.IdentityUserIDChanged, change.Reason)

	f.sim("account-update", object{"event": "ACCOUNT_RESTRICTION"})
	_, update := next(f, func(provider.AccountUpdate) bool { return true })
	require.Equal(t, provider.AccountRestricted, update.Change)
	require.NotEmpty(t, update.Restrictions)

	for field, wanted := range map[string]func() provider.Notification{
		"account_alerts":                     awaiting[provider.AccountAlert](f),
		"account_review_update":              awaiting[provider.AccountReview](f),
		"business_capability_update":         awaiting[provider.Capability](f),
		"phone_number_quality_update":        awaiting[provider.NumberQuality](f),
		"phone_number_name_update":           awaiting[provider.NumberName](f),
		"security":                           awaiting[provider.NumberSecurity](f),
		"business_username_update":           awaiting[provider.NumberUsername](f),
		"message_template_components_update": awaiting[provider.TemplateComponents](f),
		"message_template_quality_update":    awaiting[provider.TemplateQuality](f),
		"template_category_update":           awaiting[provider.TemplateCategory](f),
	} {
		told := object{"field": field}
		if strings.Contains(field, "template") {
			told["value"] = object{"message_template_id": 5, "message_template_name": "x", "message_template_language": "en-US"}
		}
		f.sim("notify", told)
		require.Equal(t, field, wanted().Field)
	}
}

// awaiting returns a function that waits for the next notification with such an item.
func awaiting[T provider.Item](f *fixture) func() provider.Notification {
	return func() provider.Notification {
		notification, _ := next(f, func(T) bool { return true })
		return notification
	}
}

func TestCallbacks_BatchedAndShuffled_AllAreParsed(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.sim("settings", object{"batch_size": 50, "shuffle": true, "duplicate": 0.5})
	sent := map[string]bool{}
	for range 30 {
		accepted, err := f.send(provider.Outbound{To: ada})
		require.NoError(t, err)
		sent[accepted.MessageID] = true
	}
	for id := range sent {
		next(f, func(status provider.Status) bool { return status.MessageID == id && status.Status == "read" })
	}
}
