package messages_test

import (
	"encoding/json"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// These tests hold what the specification says of messages and their events, where no other test asserts it field by
// field. docs/conformance.md lists them.

const stampLayout = "2006-01-02T15:04:05.000Z"

func (s *fixture) stamp() string { return s.Clock.Now().Format(stampLayout) }

// mustSend accepts a message with a content.
func (s *fixture) mustSend(t *testing.T, draft messages.Draft, kind, object string) messages.Message {
	t.Helper()
	draft.Content, draft.Source = parsedContent(t, kind, object), messages.FromAPI
	made, err := s.Messages.Send(t.Context(), s.org, s.account, messages.Terms{MonthlyLimit: 1_000_000}, draft)
	require.NoError(t, err)
	return made
}

// shown is a message as the API prints it.
func (s *fixture) shown(t *testing.T, of messages.Message) (printed fields) {
	t.Helper()
	text, err := json.Marshal(s.get(t, of).Resource(s.account))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &printed))
	return printed
}

func TestConformance_VoiceNote_PlayedOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.mustSend(t, messages.Draft{To: "+351910000001"}, "audio", `{"link":"https://harbour.example/a.ogg","voice":true}`)
	s.awaitStatus(t, made, messages.Sent)
	s.push(t, s.status(idOf(made, 1), provider.StatusDelivered, referenceOf(made, 1)))
	require.NotContains(t, s.shown(t, made), "played_at")
	s.Clock.Move(time.Minute)
	played := s.Clock.Now().Truncate(time.Second).Format(stampLayout)
	s.push(t, s.status(idOf(made, 1), provider.StatusPlayed, referenceOf(made, 1)))
	s.Clock.Move(time.Minute)
	s.push(t, s.status(idOf(made, 1), provider.StatusPlayed, referenceOf(made, 1)))
	found := s.shown(t, made)
	require.Equal(t, []any{"delivered", played}, []any{found["status"], found["played_at"]}, "the first time counts")
	require.Equal(t, []string{"delivered", "message.sent", "played"}, s.told(t, made))
}

func TestConformance_SentEvent_EveryField(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, err := s.Contacts.Create(t.Context(), s.org, s.account, contacts.Draft{PhoneNumber: new("+351910000001"), Name: new("Ana")})
	require.NoError(t, err)
	s.template(t, "sale", "UTILITY")
	digits := (*s.account.PhoneNumber)[1:]
	for _, test := range []struct {
		kind, object string
		body         any
		more         fields
	}{
		{"text", `{"body":"Hello"}`, "Hello", nil},
		{"template", `{"name":"sale","language":"en_US"}`, "Summer sale", nil},
		{"reaction", `{"message_id":"wamid.0","emoji":"x"}`, nil, nil},
		{"image", `{"link":"https://harbour.example/a.jpg","caption":"The menu"}`, "The menu", fields{
			"media_url": "https://harbour.example/a.jpg", "media_status": "ready",
			"image": fields{"link": "https://harbour.example/a.jpg", "caption": "The menu"},
		}},
	} {
		made := s.mustSend(t, messages.Draft{To: "+351910000001", ReplyTo: "wamid.0"}, test.kind, test.object)
		s.awaitStatus(t, made, messages.Sent)
		message := fields{
			"id": made.ID.String(), "provider_id": idOf(made, 1), "type": test.kind, "body": test.body, "from": *s.account.PhoneNumber,
			"to": "+351910000001", "status": "sent", "source": "api", "reply_to_provider_id": "wamid.0",
		}
		maps.Copy(message, test.more)
		require.Equal(t, fields{
			"id": made.ID.String() + ":sent", "type": "message.sent", "created_at": s.stamp(), "data": fields{
				"session": *s.account.PhoneNumberID, "direction": "outbound", "from_me": true, "timestamp": s.stamp(), "message": message,
				"conversation":  fields{"id": made.ConversationID.String(), "status": "open"},
				"contact":       fields{"id": made.ContactID.String(), "phone_number": "+351910000001", "name": "Ana"},
				"provider_meta": fields{"phone_number_id": *s.account.PhoneNumberID, "display_phone_number": digits, "provider": "cloud"},
			},
		}, s.bodyOf(t, "message.sent"), test.kind)
		s.Clock.Move(time.Second)
	}
}

func TestConformance_Broadcast_KeyAndSource(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	answers := s.acceptMany(t, messages.Terms{}, []messages.Draft{{
		To: "+351910000001", Content: text(t), Source: messages.FromBroadcast, SourceID: ids.NewOrg(s.Clock.Now()).Any(),
	}}, nil)
	require.Nil(t, answers[0].Refusal)
	made := answers[0].Message
	s.Work(t)
	sent := s.awaitStatus(t, made, messages.Sent)
	body := s.bodyOf(t, "message.sent")
	key := "broadcast_msg:" + made.ID.Any().String() + ":sent"
	require.Equal(t, []any{key, "broadcast"}, []any{body["id"], body["data"].(fields)["message"].(fields)["source"]})
	require.Equal(t, key, s.events(t)[0].Key)
	require.Contains(t, sent.EventKeys(), key, "a timeline finds it")
}

// value is the value of the only change of an event in the provider's envelope.
func (s *fixture) requireEnvelope(t *testing.T, body fields) (value fields) {
	t.Helper()
	require.Equal(t, "chat_business_account", body["object"])
	entry := body["entry"].([]any)
	require.Len(t, entry, 1)
	require.Equal(t, s.account.BusinessAccountID, entry[0].(fields)["id"])
	changes := entry[0].(fields)["changes"].([]any)
	require.Len(t, changes, 1)
	require.Equal(t, "messages", changes[0].(fields)["field"])
	value = changes[0].(fields)["value"].(fields)
	require.Equal(t, "chat", value["messaging_product"])
	require.Equal(t, fields{
		"display_phone_number": (*s.account.PhoneNumber)[1:], "phone_number_id": *s.account.PhoneNumberID,
	}, value["metadata"])
	return value
}

func TestConformance_StatusEvent_FieldsOfTheProvider(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for status, more := range map[string]fields{
		provider.StatusDelivered: {
			"conversation": fields{"id": "c1", "origin": fields{"type": "utility"}, "expiration_timestamp": "1773480413"},
			"pricing":      fields{"billable": true, "type": "regular", "category": "utility", "pricing_model": "PMP"},
		},
		provider.StatusFailed: {"errors": []any{fields{
			"code": 131026.0, "title": "Undeliverable", "message": "Undeliverable", "error_data": fields{"details": "Not on the network."},
			"fbtrace_id": "A1", "error_subcode": 2494055.0, "href": "https://provider.example/errors",
		}}},
	} {
		made := s.send(t, "+351910000001")
		s.awaitStatus(t, made, messages.Sent)
		reported := s.status(idOf(made, 1), status, referenceOf(made, 1), more)
		s.push(t, reported)
		value := s.requireEnvelope(t, s.bodyOf(t, "message.status"))
		delete(reported, "biz_opaque_callback_data")
		require.Equal(t, []any{reported}, value["statuses"], status)
		require.Equal(t, []any{"351910000001", strconv.FormatInt(s.Clock.Now().Unix(), 10)}, []any{reported["recipient_id"], reported["timestamp"]})
	}
}

func TestConformance_ReceivedEvent_EveryField(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Hello"))
	first := s.byID(t, "wamid.1")
	label := s.Label(t, s.org)
	_, err := s.Conversations.Label(t.Context(), s.org, s.account, first.ConversationID, label.ID, true)
	require.NoError(t, err)
	user, err := s.Orgs.CreateUser(t.Context(), s.org, audit.Operator(), nil, "Ines", "ines@example.com")
	require.NoError(t, err)
	_, err = s.Conversations.Update(t.Context(), s.org, s.account, audit.Operator(), first.ConversationID,
		conversations.Patch{AssignedTo: patch.To(user.ID), Status: patch.To(conversations.Pending)})
	require.NoError(t, err)
	s.Clock.Move(time.Second)
	s.receive(t, s.text("wamid.2", "Again"))
	body := s.bodyOf(t, "message.received")
	value := s.requireEnvelope(t, body)
	require.Equal(t, []any{fields{"profile": fields{"name": "Ana"}, "wa_id": ana}}, value["contacts"])
	require.Equal(t, []any{fields{
		"from": ana, "id": "wamid.2", "timestamp": strconv.FormatInt(s.Clock.Now().Unix(), 10), "type": "text", "text": fields{"body": "Again"},
	}}, value["messages"])
	require.Equal(t, fields{
		"conversation_id": first.ConversationID.String(), "contact_id": first.ContactID.String(), "message_id": s.byID(t, "wamid.2").ID.String(),
		"phone_number_id": *s.account.PhoneNumberID,
		"labels":          []any{fields{"id": label.ID.String(), "name": label.Name, "color": label.Color}},
		"conversation":    fields{"status": "open", "assigned_to": user.ID.String()},
		"contact":         fields{"name": "Ana", "phone_number": "+" + ana},
		"media_url":       nil, "media_status": nil,
	}, body["svc"])
	require.Equal(t, "wamid.2", s.events(t)[1].Key)
}

func TestConformance_RevokedAndEdited_EveryField(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Helo"))
	said := s.byID(t, "wamid.1")
	about := func(more fields) fields {
		all := fields{
			"message_id": said.ID.String(), "provider_id": "wamid.1", "conversation_id": said.ConversationID.String(),
			"contact_id": said.ContactID.String(), "contact_phone_number": "+" + ana, "phone_number_id": *s.account.PhoneNumberID,
			"display_phone_number": (*s.account.PhoneNumber)[1:],
		}
		maps.Copy(all, more)
		return all
	}
	second := func() string { return s.Clock.Now().Truncate(time.Second).Format(stampLayout) }
	s.Clock.Move(time.Minute)
	edited := second()
	s.receive(t, s.edit("wamid.2", "wamid.1", "Hello"))
	require.Equal(t, about(fields{
		"new_content": "Hello", "original_content": "Helo", "edited_at": edited,
		"edit_history": []any{fields{"content": "Hello", "edited_at": edited}},
	}), s.bodyOf(t, "message.edited")["data"])
	s.Clock.Move(time.Minute)
	revoked := second()
	s.receive(t, s.said("wamid.3", "revoke", fields{"original_message_id": "wamid.1"}))
	require.Equal(t, about(fields{"revoked_at": revoked}), s.bodyOf(t, "message.revoked")["data"])
	require.Equal(t, true, s.shown(t, said)["is_revoked"])
}

// priority is the place of a message in the lane of its number: 0 is first class.
func (s *fixture) priority(t *testing.T, of messages.Message) int {
	t.Helper()
	return s.count(t, `SELECT priority FROM lane_rows WHERE id = @id`, postgres.Args{"id": of.ID})
}

func TestConformance_Lane_FirstClassAndBulk(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	for name, category := range map[string]string{"promo": "MARKETING", "order": "UTILITY", "code": "AUTHENTICATION", "unsynced": ""} {
		s.template(t, name, category)
	}
	s.receive(t, s.text("wamid.1", "Hello"))
	check := func(to string, want map[string]int) {
		t.Helper()
		for name, class := range want {
			kind, object := "template", `{"name":"`+name+`","language":"en_US"}`
			if name == "text" {
				kind, object = "text", `{"body":"Hello"}`
			}
			require.Equal(t, class, s.priority(t, s.mustSend(t, messages.Draft{To: to}, kind, object)), "%s to %s", name, to)
		}
	}
	answers := map[string]int{"text": 0, "order": 0, "code": 0, "promo": 1, "unsynced": 1}
	others := map[string]int{"text": 1, "order": 1, "code": 0, "promo": 1, "unsynced": 1}
	check("+"+ana, answers)
	check("+351910000002", others)
	s.Clock.Move(24 * time.Hour)
	check("+"+ana, others)
}

// dialled is to whom the last message to a contact went: a number or a BSUID.
func (s *fixture) dialled(t *testing.T, of messages.Message) (to, recipient string) {
	t.Helper()
	s.awaitStatus(t, of, messages.Sent)
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	last := s.net.sent[len(s.net.sent)-1]
	require.Equal(t, referenceOf(of, 1), last.Reference)
	return last.To, last.Recipient
}

func TestConformance_Recipient_AddressedAsGiven(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.template(t, "code", "AUTHENTICATION")
	s.template(t, "order", "UTILITY")
	_, err := s.Contacts.Create(t.Context(), s.org, s.account, contacts.Draft{PhoneNumber: new("+351910000007"), BSUID: new("PT.7")})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		draft         messages.Draft
		template      string
		to, recipient string
	}{
		"by number":               {messages.Draft{To: "351910000007"}, "order", "+351910000007", ""},
		"by BSUID":                {messages.Draft{Recipient: "PT.7"}, "order", "", "PT.7"},
		"by both":                 {messages.Draft{To: "+351910000007", Recipient: "PT.7"}, "order", "+351910000007", ""},
		"a code, with a number":   {messages.Draft{Recipient: "PT.7"}, "code", "+351910000007", ""},
		"a code without a number": {messages.Draft{Recipient: "PT.8"}, "code", "", "PT.8"},
	} {
		to, recipient := s.dialled(t, s.mustSend(t, test.draft, "template", `{"name":"`+test.template+`","language":"en_US"}`))
		require.Equal(t, []string{test.to, test.recipient}, []string{to, recipient}, name)
	}
}

func TestConformance_Disconnected_QueueGoesWithoutEvents(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	for range 3 {
		s.send(t, "+351910000001")
	}
	_, err := s.Accounts.Disconnect(t.Context(), s.org, audit.Operator(), *s.account.PhoneNumberID, nil)
	require.NoError(t, err)
	s.Work(t)
	s.await(t, "the purge", func() bool {
		s.Clock.Move(time.Second)
		return s.count(t, `SELECT count(*) FROM messages WHERE org_id = @org_id`, nil) == 0
	})
	require.Empty(t, s.net.calls("+351910000001"))
	require.Zero(t, s.count(t, `SELECT count(*) FROM events WHERE org_id = @org_id AND type LIKE 'message.%'`, nil))
}

func TestConformance_File_GivenUpAfterSixDays(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	content := s.upload(t, picture, "image/png")
	s.failing()
	s.receive(t, s.said("wamid.1", "image", content))
	for tries := 1; tries <= 8; tries++ {
		s.awaitTries(t, tries)
		s.Clock.Move(2 * time.Hour)
	}
	s.awaitTries(t, 9)
	require.Equal(t, "pending", *s.byID(t, "wamid.1").MediaState)
	s.Clock.Move(6 * 24 * time.Hour)
	s.awaitFile(t, "wamid.1", "failed")
	require.Equal(t, 1, s.countEvents(t, "message.received"))
	require.Nil(t, mediaURL(t, s.bodyOf(t, "message.received")))
}
