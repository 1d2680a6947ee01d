package messages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const ana = "351910000001"

// fields is a JSON object.
type fields = map[string]any

// item is one item of a callback's value, with the list that holds it and the field of the change.
type item struct {
	field, list string
	object      fields
}

// said is a message of a contact as the provider writes it. More fields replace those.
func (s *fixture) said(id, kind string, content any, more ...fields) item {
	made := fields{"from": ana, "id": id, "timestamp": strconv.FormatInt(s.Clock.Now().Unix(), 10), "type": kind}
	if content != nil {
		made[kind] = content
	}
	for _, one := range more {
		maps.Copy(made, one)
	}
	return item{"messages", "messages", made}
}

// echo is a message that the business sent in the phone app.
func (s *fixture) echo(id, kind string, content any, more ...fields) item {
	made := s.said(id, kind, content, append([]fields{{"from": "351200000000", "to": ana}}, more...)...)
	return item{"smb_message_echoes", "message_echoes", made.object}
}

func (s *fixture) text(id, body string, more ...fields) item {
	return s.said(id, "text", fields{"body": body}, more...)
}

// parse makes notifications of items, each in a body of its own with the profile of its person.
func (s *fixture) parse(t *testing.T, items ...item) (all []callbacks.Inbound) {
	t.Helper()
	for _, one := range items {
		value := fields{
			"messaging_product": "whatsapp", one.list: []any{one.object},
			"metadata": fields{"display_phone_number": (*s.account.PhoneNumber)[1:], "phone_number_id": *s.account.PhoneNumberID},
		}
		if from, is := one.object["from"].(string); is && one.list == "messages" && one.object["type"] != "system" {
			value["contacts"] = []any{fields{"profile": fields{"name": "Ana"}, "wa_id": from}}
		}
		body, err := json.Marshal(fields{"object": "whatsapp_business_account", "entry": []any{fields{
			"id": s.account.BusinessAccountID, "changes": []any{fields{"field": one.field, "value": value}},
		}}})
		require.NoError(t, err)
		parsed, err := s.Network.Parse(body)
		require.NoError(t, err)
		for _, notification := range parsed {
			all = append(all, callbacks.Inbound{Notification: notification})
		}
	}
	return all
}

// receive applies items in one transaction.
func (s *fixture) receive(t *testing.T, items ...item) {
	t.Helper()
	s.receiveAll(t, s.parse(t, items...))
}

func (s *fixture) receiveAll(t *testing.T, items []callbacks.Inbound) {
	t.Helper()
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error { return s.apply(ctx, t, tx, items) }))
}

// all are the messages of the number, oldest first.
func (s *fixture) all(t *testing.T) []messages.Message {
	t.Helper()
	page, err := s.Messages.List(t.Context(), s.org, s.account, messages.Filter{}, paging.Slice[messages.ID]{Limit: 100})
	require.NoError(t, err)
	slices.Reverse(page.Items)
	return page.Items
}

// byID is the message with a provider's id.
func (s *fixture) byID(t *testing.T, id string) messages.Message {
	t.Helper()
	for _, one := range s.all(t) {
		if one.ProviderID != nil && *one.ProviderID == id {
			return one
		}
	}
	require.Fail(t, "no message "+id)
	return messages.Message{}
}

// thread is the conversation of a message.
func (s *fixture) thread(t *testing.T, of messages.Message) conversations.Conversation {
	t.Helper()
	found, err := s.Conversations.Get(t.Context(), s.org, s.account, of.ConversationID)
	require.NoError(t, err)
	return found
}

// body is the body of the only event of a type about messages, or of the last.
func (s *fixture) bodyOf(t *testing.T, kind string) (body fields) {
	t.Helper()
	for _, one := range s.events(t) {
		if one.Type == kind {
			require.NoError(t, json.Unmarshal(one.Body, &body))
		}
	}
	require.NotNil(t, body, kind)
	return body
}

func (s *fixture) countEvents(t *testing.T, kind string) (count int) {
	t.Helper()
	for _, one := range s.events(t) {
		if one.Type == kind {
			count++
		}
	}
	return count
}

func messageIn(t *testing.T, body fields) fields {
	t.Helper()
	value := body["entry"].([]any)[0].(fields)["changes"].([]any)[0].(fields)["value"].(fields)
	return value["messages"].([]any)[0].(fields)
}

func TestReceive_EveryType_StoredAndAnnounced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind    string
		content any
		more    fields
		stored  string // the type, if it is another one
		shown   string // the content, if it is another one
	}{
		"text":               {kind: "text", content: fields{"body": "Hello"}},
		"location":           {kind: "location", content: fields{"latitude": 38.7, "longitude": -9.1, "name": "Lisbon"}},
		"contacts":           {kind: "contacts", content: []any{fields{"name": fields{"formatted_name": "Rui"}}}},
		"button reply":       {kind: "interactive", content: fields{"type": "button_reply", "button_reply": fields{"id": "1", "title": "Yes"}}},
		"list reply":         {kind: "interactive", content: fields{"type": "list_reply", "list_reply": fields{"id": "1", "title": "A", "description": "B"}}},
		"flow reply":         {kind: "interactive", content: fields{"type": "nfm_reply", "nfm_reply": fields{"name": "flow", "response_json": "{}"}}},
		"template button":    {kind: "button", content: fields{"payload": "p", "text": "Buy"}},
		"reaction":           {kind: "reaction", content: fields{"message_id": "wamid.other", "emoji": "👍"}},
		"reaction removed":   {kind: "reaction", content: fields{"message_id": "wamid.other"}, shown: `{"message_id":"wamid.other","emoji":""}`},
		"unsupported":        {kind: "unsupported", content: fields{"type": "poll"}, more: errorsOf(131051)},
		"unsupported, older": {kind: "unsupported", more: errorsOf(131051), shown: `{"type":"unknown"}`},
		"order":              {kind: "order", content: fields{"catalog_id": "1"}, stored: "unsupported", shown: `{"type":"order"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newIdleFixture(t)
			at := s.Clock.Now()
			s.receive(t, s.said("wamid.1", test.kind, test.content, test.more))
			stored, shown := test.kind, test.shown
			if test.stored != "" {
				stored = test.stored
			}
			if shown == "" {
				encoded, err := json.Marshal(test.content)
				require.NoError(t, err)
				shown = string(encoded)
			}
			all := s.all(t)
			require.Len(t, all, 1)
			m := all[0]
			require.Equal(t, stored, m.Type)
			require.JSONEq(t, shown, string(m.Content))
			require.Equal(t, messages.Inbound, m.Direction)
			require.Equal(t, messages.FromContact, m.Source)
			require.Equal(t, messages.Delivered, m.Status)
			require.Equal(t, at.Truncate(time.Second), m.SentAt.UTC())
			require.Nil(t, m.ErrorCode)
			resource, err := json.Marshal(m.Resource(s.account))
			require.NoError(t, err)
			var printed fields
			require.NoError(t, json.Unmarshal(resource, &printed))
			content, err := json.Marshal(printed[stored])
			require.NoError(t, err)
			require.JSONEq(t, shown, string(content))

			body := s.bodyOf(t, "message.received")
			require.Equal(t, "chat_business_account", body["object"])
			inside := messageIn(t, body)
			require.Equal(t, stored, inside["type"])
			encoded, err := json.Marshal(inside[stored])
			require.NoError(t, err)
			require.JSONEq(t, shown, string(encoded))
			known := body["svc"].(fields)
			require.Equal(t, m.ID.String(), known["message_id"])
			require.Equal(t, m.ConversationID.String(), known["conversation_id"])
			require.Equal(t, m.ContactID.String(), known["contact_id"])
			require.Equal(t, fields{"name": "Ana", "phone_number": "+" + ana}, known["contact"])
			require.Equal(t, fields{"status": "open", "assigned_to": nil}, known["conversation"])
			require.Nil(t, known["media_url"])

			reaction := test.kind == "reaction"
			thread := s.thread(t, m)
			require.Equal(t, reaction, thread.LastInboundAt == nil)
			require.Equal(t, reaction, thread.UnreadCount == 0)
		})
	}
}

// A message may name the message that it answers.
func TestReceive_Reply_ContextIsKept(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Yes", fields{"context": fields{"from": "351200000000", "id": "wamid.0"}}))
	require.Equal(t, "wamid.0", *s.byID(t, "wamid.1").ReplyTo)
	require.Equal(t, "wamid.0", messageIn(t, s.bodyOf(t, "message.received"))["context"].(fields)["id"])
}

func TestReceive_SameItemsAgain_NothingChanges(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	items := []item{
		s.text("wamid.1", "One"), s.text("wamid.2", "Two"), s.text("wamid.1", "One"),
		s.said("wamid.3", "reaction", fields{"message_id": "wamid.1", "emoji": "👍"}),
	}
	s.receive(t, items...)
	first := s.all(t)
	require.Len(t, first, 3)
	thread := s.thread(t, first[0])
	require.Equal(t, 2, thread.UnreadCount)
	s.receive(t, items...)
	s.receive(t, items[2:]...)
	require.Equal(t, first, s.all(t))
	require.Equal(t, thread, s.thread(t, first[0]))
	require.Equal(t, 3, s.countEvents(t, "message.received"))
}

// Halves of a batch, in any order and repeated, give the same rows, the same unread count and the same
// set of events as the whole batch.
func TestReceive_HalvesInAnyOrder_AsIfOnce(t *testing.T) {
	t.Parallel()
	world := newIdleFixture(t)
	var expected []string
	for seed := range uint64(20) {
		s := world.beside(t)
		random := rand.New(rand.NewPCG(seed, 1))
		var items []item
		for i := range 12 {
			from := fmt.Sprintf("35191000000%d", i%3)
			items = append(items, s.text(fmt.Sprintf("wamid.%d", i), "Hello", fields{"from": from}))
		}
		items = append(items, s.said("wamid.r", "reaction", fields{"message_id": "wamid.1", "emoji": "👍"}))
		if seed > 0 {
			random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			half := random.IntN(len(items))
			s.receive(t, items[:half]...)
			s.receive(t, items[half:]...)
			s.receive(t, items...)
		} else {
			s.receive(t, items...)
		}
		var shown []string
		for _, m := range s.all(t) {
			shown = append(shown, fmt.Sprint(*m.ProviderID, *m.ContactNumber, m.Type, m.Status, s.thread(t, m).UnreadCount))
		}
		for _, one := range s.events(t) {
			shown = append(shown, one.Type+" "+one.Key)
		}
		slices.Sort(shown)
		if seed == 0 {
			expected = shown
		}
		require.Equal(t, expected, shown, "seed %d", seed)
	}
}

func TestReceive_ResolvedConversation_OpensAgain(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Hello"))
	resolve := func() {
		s.exec(t, `UPDATE conversations SET status = 'resolved' WHERE org_id = @org_id`, nil)
	}
	resolve()
	s.receive(t, s.said("wamid.2", "reaction", fields{"message_id": "wamid.1", "emoji": "👍"}))
	require.Equal(t, conversations.Resolved, s.thread(t, s.byID(t, "wamid.1")).Status)
	s.receive(t, s.text("wamid.3", "Hello again"))
	require.Equal(t, conversations.Open, s.thread(t, s.byID(t, "wamid.1")).Status)
	require.Equal(t, fields{"status": "open", "assigned_to": nil}, s.bodyOf(t, "message.received")["svc"].(fields)["conversation"])
}

// A status that came before the echo of its message is applied when the echo comes.
func TestReceive_StatusBeforeEcho_Adopted(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.push(t, s.status("wamid.4", provider.StatusRead, ""))
	require.Equal(t, 1, s.parked(t))
	s.receive(t, s.echo("wamid.4", "text", fields{"body": "Answer"}))
	require.Equal(t, messages.Read, s.byID(t, "wamid.4").Status)
	require.Zero(t, s.parked(t))
	require.Equal(t, 1, s.countEvents(t, "message.sent"))
	require.Equal(t, 1, s.countEvents(t, "message.status"))
}

// contact is the only contact of the number.
func (s *fixture) contact(t *testing.T) contacts.Contact {
	t.Helper()
	page, err := s.Contacts.List(t.Context(), s.org, s.account, contacts.Filter{}, paging.Slice[contacts.ID]{Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	return page.Items[0]
}

func TestReceive_Preferences_StopAndResume(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	prefers := func(value string) item {
		s.Clock.Move(time.Second)
		return item{"user_preferences", "user_preferences", fields{
			"wa_id": ana, "category": "marketing_messages", "value": value, "detail": "", "timestamp": s.Clock.Now().Unix(),
		}}
	}
	for value, wants := range map[string]contacts.Marketing{"stop": contacts.OptedOut, "resume": contacts.Unknown, "signup": contacts.OptedIn} {
		s.receive(t, prefers("stop"))
		s.receive(t, prefers(value))
		require.Equal(t, wants, s.contact(t).Marketing, value)
	}
	s.receive(t, prefers("something new"))
	stop := prefers("stop")
	later := prefers("resume")
	s.receive(t, later)
	s.receive(t, stop)
	require.Equal(t, contacts.Unknown, s.contact(t).Marketing, "the older choice came late")
}

func TestReceive_StopKeyword_OptsOut(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	words := []string{"Stop", "parar"}
	_, err := s.Orgs.Set(t.Context(), s.org, audit.Operator(), orgs.Change{StopKeywords: &words})
	require.NoError(t, err)
	s.receive(t, s.text("wamid.1", "please stop"))
	require.Equal(t, contacts.Unknown, s.contact(t).Marketing)
	s.receive(t, s.text("wamid.2", " PARAR\n"))
	found := s.contact(t)
	require.Equal(t, contacts.OptedOut, found.Marketing)
	require.Equal(t, contacts.FromKeyword, *found.MarketingSource)
}

func TestReceive_StopKeywordOnAButton_OptsOut(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	words := []string{"Stop"}
	_, err := s.Orgs.Set(t.Context(), s.org, audit.Operator(), orgs.Change{StopKeywords: &words})
	require.NoError(t, err)
	s.receive(t, s.said("wamid.1", "interactive", fields{"type": "button_reply", "button_reply": fields{"id": "x", "title": "STOP"}}))
	require.Equal(t, contacts.OptedOut, s.contact(t).Marketing)
}

func TestReceive_NumberChanged_ContactFollows(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]fields{"known by both": {"from_user_id": "PT.one"}, "known by the number": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newIdleFixture(t)
			s.receive(t, s.text("wamid.1", "Hello", before))
			s.Clock.Move(time.Second)
			s.receive(t, s.said("wamid.2", "system", fields{
				"type": "user_changed_number", "body": "User A changed from 351910000001 to 351910000002", "wa_id": "351910000002",
				"user_id": "PT.two", "previous_user_id": "PT.one",
			}))
			found := s.contact(t)
			require.Equal(t, "+351910000002", *found.PhoneNumber)
			require.Equal(t, "PT.two", *found.BSUID)
			require.Len(t, s.all(t), 1, "a notice is no message")
			require.Equal(t, 1, s.count(t, `SELECT count(*) FROM events WHERE org_id = @org_id AND type = 'contact.identity_updated'`, nil))
		})
	}
}

// A status teaches the BSUID of a known contact, and makes no contact.
func TestReceive_StatusRecipient_LinksAndMakesNobody(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	linked := fields{"recipient_user_id": "PT.one"}
	s.push(t, s.status("wamid.9", provider.StatusSent, "", linked))
	require.Zero(t, s.count(t, `SELECT count(*) FROM contacts WHERE org_id = @org_id`, nil))
	s.receive(t, s.text("wamid.1", "Hello"))
	s.push(t, s.status("wamid.9", provider.StatusDelivered, "", linked))
	require.Equal(t, "PT.one", *s.contact(t).BSUID)
}

// History, address books and groups are dropped: they were not asked for.
func TestReceive_HistoryGroupsAddressBook_Dropped(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Hello", fields{"group_id": "g1"}),
		item{"smb_app_state_sync", "state_sync", fields{"type": "contact", "contact": fields{"full_name": "Rui", "phone_number": "351910000009"}, "action": "add"}},
		item{"history", "history", fields{"metadata": fields{"phase": 0, "chunk_order": 1, "progress": 10}, "threads": []any{
			fields{"id": ana, "messages": []any{fields{"from": ana, "id": "wamid.old", "timestamp": "1700000000", "type": "text", "text": fields{"body": "x"}}}},
		}}})
	require.Empty(t, s.all(t))
	require.Empty(t, s.events(t))
}

// A number that was disconnected meanwhile takes nothing.
func TestReceive_NumberGone_Dropped(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	items := s.parse(t, s.text("wamid.1", "Hello"))
	_, err := s.Accounts.Disconnect(t.Context(), s.org, audit.Operator(), *s.account.PhoneNumberID, nil)
	require.NoError(t, err)
	s.receiveAll(t, items)
	require.Zero(t, s.count(t, `SELECT count(*) FROM messages WHERE org_id = @org_id`, nil))
}

// A time that has not come yet would keep the 24 hours after a person's message open.
func TestReceive_TimeAheadOrMissing_CountsAsNow(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Hello", fields{"timestamp": "9999999999"}), s.text("wamid.2", "Hello", fields{"timestamp": nil}))
	for _, id := range []string{"wamid.1", "wamid.2"} {
		require.Equal(t, s.Clock.Now(), s.byID(t, id).SentAt.UTC(), id)
	}
	require.Equal(t, s.Clock.Now(), s.thread(t, s.byID(t, "wamid.1")).LastInboundAt.UTC())
}

// A message that names no person cannot be stored; it is left to be kept for an operator.
func TestReceive_NamesNobody_LeftToOthers(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	items := s.parse(t, s.text("wamid.1", "Hello", fields{"from": nil}), s.echo("wamid.2", "text", fields{"body": "x"}, fields{"to": nil}))
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		left, err := s.Messages.Arrivals().PeopleTx(ctx, tx, items)
		require.Equal(t, items, left)
		return err
	}))
	require.Zero(t, s.count(t, `SELECT count(*) FROM contacts WHERE org_id = @org_id`, nil))
}
