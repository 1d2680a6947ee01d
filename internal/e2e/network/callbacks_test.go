package network_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
)

// writes lets a user write, and waits for it.
func writes(s *stage, from string, message object) (provider.Notification, provider.Inbound) {
	s.t.Helper()
	message["from"] = from
	id := s.sim("inbound", message)["id"].(string)
	return next(s, func(inbound provider.Inbound) bool { return inbound.ID == id })
}

func TestInbound_EveryType(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, first := writes(s, grace, object{"type": "text"})
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
		notification, inbound := writes(s, grace, message)
		require.Equal(t, kind, inbound.Type)
		require.Equal(t, grace, inbound.From.Phone)
		require.Equal(t, "Grace Hopper", inbound.From.Name)
		require.Equal(t, "grace.hopper", inbound.From.Username)
		require.NotEmpty(t, inbound.From.ID)
		require.False(t, inbound.At.IsZero())
		require.Equal(t, s.number.ID, notification.NumberID)
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
		again, err := s.client.Parse(envelope)
		require.NoError(t, err)
		require.Equal(t, []provider.Notification{notification}, again, "an envelope is read as what it was made of")
	}
}

func TestCallbacks_OfEveryOtherKind(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, original := writes(s, ada, object{"type": "text", "text": object{"body": "old"}})

	s.sim("inbound", object{"from": ada, "type": "edit", "edit": object{
		"original_message_id": original.ID, "message": object{"type": "text", "text": object{"body": "new"}},
	}})
	_, edit := next(s, func(edit provider.Edit) bool { return edit.OriginalID == original.ID })
	require.Equal(t, ada, edit.User.Phone)
	require.NotEmpty(t, edit.Content)
	s.sim("inbound", object{"from": ada, "type": "revoke", "revoke": object{"original_message_id": original.ID}})
	_, revoke := next(s, func(revoke provider.Revoke) bool { return revoke.OriginalID == original.ID })
	require.False(t, revoke.ByBusiness)

	s.sim("preferences", object{"from": ada, "value": "stop"})
	_, preference := next(s, func(provider.Preference) bool { return true })
	require.Equal(t, "stop", preference.Value)
	require.Equal(t, ada, preference.User.Phone)

	s.sim("echo", object{"to": ada, "type": "text", "text": object{"body": "from the phone"}})
	_, echo := next(s, func(provider.Echo) bool { return true })
	require.Equal(t, ada, echo.To.Phone)

	s.sim("system", object{"from": ada, "type": "user_changed_number", "new_phone": "15550100077"})
	_, change := next(s, func(provider.IdentityChange) bool { return true })
	require.Equal(t, provider.IdentityNumberChanged, change.Reason)
	require.Equal(t, ada, change.Previous.Phone)
	require.Equal(t, "+15550100077", change.Current.Phone)
	require.NotEmpty(t, change.Previous.ID)
	require.NotEmpty(t, change.Current.ID)
	require.NotEqual(t, change.Previous.ID, change.Current.ID)
	s.sim("system", object{"from": grace, "type": "user_changed_user_id"})
	_, change = next(s, func(provider.IdentityChange) bool { return true })
	require.Equal(t, provider.IdentityUserIDChanged, change.Reason)

	s.sim("account-update", object{"event": "ACCOUNT_RESTRICTION"})
	_, update := next(s, func(provider.AccountUpdate) bool { return true })
	require.Equal(t, provider.AccountRestricted, update.Change)
	require.NotEmpty(t, update.Restrictions)

	for field, wanted := range map[string]func() provider.Notification{
		"account_alerts":                     heard[provider.AccountAlert](s),
		"account_review_update":              heard[provider.AccountReview](s),
		"business_capability_update":         heard[provider.Capability](s),
		"phone_number_quality_update":        heard[provider.NumberQuality](s),
		"phone_number_name_update":           heard[provider.NumberName](s),
		"security":                           heard[provider.NumberSecurity](s),
		"business_username_update":           heard[provider.NumberUsername](s),
		"message_template_components_update": heard[provider.TemplateComponents](s),
		"message_template_quality_update":    heard[provider.TemplateQuality](s),
		"template_category_update":           heard[provider.TemplateCategory](s),
	} {
		told := object{"field": field}
		if strings.Contains(field, "template") {
			told["value"] = object{"message_template_id": 5, "message_template_name": "x", "message_template_language": "en-US"}
		}
		s.sim("notify", told)
		require.Equal(t, field, wanted().Field)
	}
}

func heard[T provider.Item](s *stage) func() provider.Notification {
	return func() provider.Notification {
		notification, _ := next(s, func(T) bool { return true })
		return notification
	}
}

func TestCallbacks_InBatches(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.sim("settings", object{"batch_size": 50, "shuffle": true, "duplicate": 0.5})
	sent := map[string]bool{}
	for range 30 {
		accepted, err := s.send(provider.Outbound{To: ada})
		require.NoError(t, err)
		sent[accepted.MessageID] = true
	}
	for id := range sent {
		next(s, func(status provider.Status) bool { return status.MessageID == id && status.Status == "read" })
	}
}
