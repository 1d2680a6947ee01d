package api_test

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

func (n number) user(t *testing.T, name, email string) orgs.User {
	t.Helper()
	user, err := n.s.Orgs.CreateUser(t.Context(), n.Org, audit.Operator(), &n.Team, name, email)
	require.NoError(t, err)
	return user
}

// received records a message of a contact at that time.
func (n number) received(t *testing.T, contact contacts.ID, at time.Time) conversations.Thread {
	t.Helper()
	threads, err := postgres.InTx(t.Context(), n.s.DB, n.Org, func(tx *postgres.Tx) ([]conversations.Thread, error) {
		return n.s.Conversations.SaidTx(t.Context(), tx, n.account, []conversations.Message{{ContactID: contact, At: at, Inbound: true}})
	})
	require.NoError(t, err)
	return threads[0]
}

func TestConversations_ReadUpdateReopen(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	marta, rui := n.user(t, "Marta", "marta@example.com"), n.user(t, "", "rui@example.com")
	contact := n.s.Contact(t, n.Org, n.account)
	created, said := n.now(), n.s.Clock.Now().Add(-time.Minute)
	thread := n.received(t, contact.ID, said)
	path := n.path + "/conversations/" + thread.ID.String()
	conversation := n.Get(t, path).Data(t)
	require.Equal(t, map[string]any{
		"id": thread.ID.String(), "object": "conversation", "status": "open",
		"contact":      map[string]any{"id": contact.ID.String(), "phone_number": *contact.PhoneNumber, "name": *contact.Name},
		"chat_account": map[string]any{"phone_number": *n.account.PhoneNumber, "phone_number_id": *n.account.PhoneNumberID, "customer": nil},
		"assignee":     nil, "unread_count": 1.0, "last_message_at": said.Format(stampLayout), "last_inbound_at": said.Format(stampLayout),
		"created_at": created, "updated_at": created, "labels": []any{},
	}, conversation)
	require.Equal(t, []map[string]any{conversation}, n.Get(t, n.path+"/conversations").List(t))

	eventCount := len(deliveredEvents(t, n.s, n.Client))
	change := func(body any, want map[string]any, announced ...map[string]any) {
		t.Helper()
		n.s.Clock.Move(time.Second)
		changed := n.Do(t, "PATCH", path, body)
		require.Equal(t, 200, changed.Status, "%s", changed.Body)
		if maps.Copy(conversation, want); want != nil {
			conversation["updated_at"] = n.now()
		}
		require.Equal(t, conversation, changed.Data(t))
		require.Equal(t, conversation, n.Get(t, path).Data(t))
		events := since(t, n.s, n.Client, eventCount)
		require.Len(t, events, len(announced))
		for i, event := range events {
			require.Equal(t, n.now(), event["created_at"])
			delete(event, "created_at")
			require.Equal(t, announced[i], event)
		}
		eventCount += len(events)
	}
	assigned := func(status string, to, previous any) map[string]any {
		return map[string]any{"type": "conversation.assigned", "data": map[string]any{
			"conversation": map[string]any{
				"id": thread.ID.String(), "object": "conversation", "status": status, "phone_number_id": *n.account.PhoneNumberID,
			},
			"assignee": map[string]any{"user_id": to, "team_id": n.Team.String(), "previous_user_id": previous},
		}}
	}
	closed := map[string]any{"type": "conversation.closed", "data": map[string]any{"conversation": map[string]any{
		"id": thread.ID.String(), "object": "conversation", "status": "resolved", "closed_by_user_id": nil,
		"phone_number_id": *n.account.PhoneNumberID,
	}}}
	shown := func(user orgs.User) map[string]any {
		name := any(nil)
		if user.Name != nil {
			name = *user.Name
		}
		return map[string]any{"id": user.ID.String(), "name": name, "email": *user.Email}
	}
	change(`{"status":"open"}`, nil)
	change(`{"assigned_to":null}`, nil)
	change(`{"status":"pending"}`, map[string]any{"status": "pending"})
	change(map[string]any{"assigned_to": marta.ID}, map[string]any{"assignee": shown(marta)}, assigned("pending", marta.ID.String(), nil))
	change(map[string]any{"assigned_to": marta.ID}, nil)
	change(map[string]any{"assigned_to": rui.ID, "status": "resolved"}, map[string]any{"assignee": shown(rui), "status": "resolved"},
		assigned("resolved", rui.ID.String(), marta.ID.String()), closed)
	change(`{"status":"resolved"}`, nil)
	change(`{"assigned_to":null,"status":"open"}`, map[string]any{"assignee": nil, "status": "open"}, assigned("open", nil, rui.ID.String()))
	change(`{"status":"resolved"}`, map[string]any{"status": "resolved"}, closed)

	n.s.Clock.Move(time.Second)
	n.received(t, contact.ID, said.Add(-time.Hour))
	conversation["status"], conversation["unread_count"], conversation["updated_at"] = "open", 2.0, n.now()
	require.Equal(t, conversation, n.Get(t, path).Data(t), "a message reopens it, and an older message does not change last_message_at")

	n.s.Clock.Move(time.Second)
	n.Do(t, "PATCH", n.path+"/contacts/"+contact.ID.String(), `{"name":"Renamed"}`)
	conversation["contact"].(map[string]any)["name"], conversation["updated_at"] = "Renamed", n.now()
	require.Equal(t, conversation, n.Get(t, path).Data(t))
	n.s.Clock.Move(time.Second)
	n.Do(t, "PATCH", n.path+"/contacts/"+contact.ID.String(), `{"email":"a@b.example"}`)
	require.Equal(t, conversation, n.Get(t, path).Data(t), "an address is not shown")

	require.Equal(t, 200, n.Do(t, "DELETE", n.path+"/contacts/"+contact.ID.String(), nil).Status)
	require.Equal(t, 404, n.Get(t, path).Status)
	require.Equal(t, 404, n.Do(t, "PATCH", path, `{"status":"open"}`).Status)
	require.Empty(t, n.Get(t, n.path+"/conversations").List(t))
}

func TestConversations_BadInput_Refused(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	path := n.path + "/conversations/" + n.s.Conversation(t, n.Org, n.account).ID.String()
	otherClient := numberOf(t, n.s)
	theirs := otherClient.user(t, "Stranger", "stranger@example.com")
	for body, param := range map[string]string{
		`{"status":"closed"}`: "status", `{"status":null}`: "status", `{"assigned_to":"1"}`: "assigned_to", `{"assigned_to":1}`: "assigned_to",
		`{"assigned_to":"` + theirs.ID.String() + `"}`:                               "assigned_to",
		`{"assigned_to":"` + strings.ToUpper(theirs.ID.String()) + `"}`:              "assigned_to",
		`{"status":"resolved","assigned_to":"01a05c00-03e0-7ce0-bdee-df4e6f0173bf"}`: "assigned_to",
		`{"status":"open","unread_count":0}`:                                         "unread_count",
		`{"contact":{}}`:                                                             "contact",
	} {
		requireRefusal(t, faulty(param), n.Do(t, "PATCH", path, body))
	}
	require.Equal(t, "open", n.Get(t, path).Data(t)["status"])
	for query, param := range map[string]string{
		"status=closed": "status", "contact_id=x": "contact_id", "assigned_to=x": "assigned_to", "label_id=x": "label_id", "unread=1": "unread",
		"unread=": "unread", "updated_since=x": "updated_since", "q=x": "q",
	} {
		requireRefusal(t, faulty(param), n.Get(t, n.path+"/conversations?"+query))
	}
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_limit", "limit"}, n.Get(t, n.path+"/conversations?limit=0"))
}

func TestConversations_Labels_AttachAndDetach(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	label := n.s.Label(t, n.Org)
	made := n.s.Conversation(t, n.Org, n.account)
	path := n.path + "/conversations/" + made.ID.String()
	conversation := n.Get(t, path).Data(t)
	eventCount := len(deliveredEvents(t, n.s, n.Client))
	result := func(attached bool) map[string]any {
		return map[string]any{"conversation_id": made.ID.String(), "label_id": label.ID.String(), "attached": attached}
	}
	attach := func(id labels.ID) apitest.Answer { return n.Post(t, path+"/labels", map[string]any{"label_id": id}) }
	n.s.Clock.Move(time.Second)
	require.Equal(t, result(true), attach(label.ID).Data(t))
	conversation["updated_at"] = n.now()
	conversation["labels"] = []any{map[string]any{"id": label.ID.String(), "name": label.Name, "color": label.Color}}
	require.Equal(t, conversation, n.Get(t, path).Data(t))
	require.Equal(t, []map[string]any{conversation}, n.Get(t, n.path+"/conversations?label_id="+label.ID.String()).List(t))
	n.s.Clock.Move(time.Second)
	require.Equal(t, result(true), attach(label.ID).Data(t))
	require.Equal(t, conversation, n.Get(t, path).Data(t), "again")
	require.Equal(t, result(false), n.Do(t, "DELETE", path+"/labels/"+label.ID.String(), nil).Data(t))
	conversation["updated_at"], conversation["labels"] = n.now(), []any{}
	require.Equal(t, conversation, n.Get(t, path).Data(t))
	n.s.Clock.Move(time.Second)
	require.Equal(t, result(false), n.Do(t, "DELETE", path+"/labels/"+label.ID.String(), nil).Data(t))
	require.Equal(t, conversation, n.Get(t, path).Data(t), "again")
	require.Empty(t, since(t, n.s, n.Client, eventCount), "labels of conversations record no event")

	second, err := n.s.Orgs.CreateTeam(t.Context(), n.Org, audit.Operator(), "Second")
	require.NoError(t, err)
	foreign, err := n.s.Labels.Create(t.Context(), n.Org, labels.Draft{Name: "Theirs", TeamID: &second.ID})
	require.NoError(t, err)
	for _, id := range []labels.ID{foreign.ID, n.s.Label(t, n.s.Client(t).Org).ID} {
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", "label_id"}, attach(id))
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, n.Do(t, "DELETE", path+"/labels/"+id.String(), nil))
	}
	requireRefusal(t, refusal{400, "invalid_request_error", "missing_required_field", "label_id"}, n.Post(t, path+"/labels", `{}`))
}

// read marks all of a conversation as read.
func (n number) read(t *testing.T, id string) {
	t.Helper()
	var parsed conversations.ID
	require.NoError(t, parsed.UnmarshalText([]byte(id)))
	_, err := postgres.InTx(t.Context(), n.s.DB, n.Org, func(tx *postgres.Tx) (int, error) {
		return 0, n.s.Conversations.UnreadTx(t.Context(), tx, parsed, 0)
	})
	require.NoError(t, err)
}

// emptyConversation creates a conversation without messages.
func (n number) emptyConversation(t *testing.T) string {
	t.Helper()
	made := n.s.Conversation(t, n.Org, n.account)
	_, err := postgres.InTx(t.Context(), n.s.DB, n.Org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `UPDATE conversations SET last_message_at = NULL, last_inbound_at = NULL WHERE org_id = @org_id AND id = @id`,
			postgres.Args{"id": made.ID})
	})
	require.NoError(t, err)
	return made.ID.String()
}

func TestConversations_List_OrderAndFilters(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	marta := n.user(t, "Marta", "marta@example.com")
	label := n.s.Label(t, n.Org)
	start := n.s.Clock.Now()
	made, with := map[string]string{}, map[string]string{}
	// The time of the last message of each; two share one, two have none.
	for i, at := range []int{30, 10, 20, 20, -1, -1} {
		if at < 0 {
			made[fmt.Sprint(i)] = n.emptyConversation(t)
		} else {
			contact := n.s.Contact(t, n.Org, n.account)
			made[fmt.Sprint(i)] = n.received(t, contact.ID, start.Add(time.Duration(at)*time.Second)).ID.String()
			with[fmt.Sprint(i)] = contact.ID.String()
		}
		n.s.Clock.Move(time.Millisecond)
	}
	n.s.Conversation(t, n.Org, n.s.Account(t, n.Org))
	patch := func(which string, body any) {
		n.s.Clock.Move(time.Second)
		require.Equal(t, 200, n.Do(t, "PATCH", n.path+"/conversations/"+made[which], body).Status)
	}
	n.read(t, made["0"])
	n.s.Clock.Move(time.Second)
	changes := url.QueryEscape(n.now())
	patch("1", `{"status":"resolved"}`)
	patch("4", map[string]any{"status": "pending", "assigned_to": marta.ID})
	patch("3", map[string]any{"assigned_to": marta.ID})
	n.s.Clock.Move(time.Second)
	require.Equal(t, 200, n.Post(t, n.path+"/conversations/"+made["5"]+"/labels", map[string]any{"label_id": label.ID}).Status)
	for query, want := range map[string]string{
		"":                                 "032154",
		"status=open":                      "0325",
		"status=resolved":                  "1",
		"status=pending":                   "4",
		"assigned_to=" + marta.ID.String(): "34",
		"assigned_to=01a05c00-03e0-7ce0-bdee-df4e6f0173bf": "",
		"label_id=" + label.ID.String():                    "5",
		"label_id=lbl_01M6DRK2Y03Y667HMTRQGBYY0B":          "",
		"contact_id=" + with["2"]:                          "2",
		"contact_id=ctc_01M6B1Z2YTSTSEJFBCW1HAVEDG":        "",
		"unread=true":              "32154",
		"unread=false":             "0",
		"updated_since=" + changes: "5341",
		"updated_since=" + changes + "&status=open":                      "53",
		"updated_since=" + changes + "&assigned_to=" + marta.ID.String(): "34",
		"updated_since=" + url.QueryEscape(n.now()):                      "",
		"updated_since=2020-01-01T00:00:00Z":                             "534102",
		"status=open&unread=true&assigned_to=" + marta.ID.String():       "3",
		"contact_id=" + with["1"] + "&status=open":                       "",
	} {
		if strings.HasSuffix(query, "00:00:00Z") {
			want = "534102" // by last change, then by creation, newest first
		}
		ids := make([]string, len(want))
		for i, place := range strings.Split(want, "") {
			ids[i] = made[place]
		}
		for _, limit := range []int{1, 2, 100} {
			require.Equal(t, ids, walk(t, n.Client, fmt.Sprintf("%s/conversations?limit=%d&%s", n.path, limit, query)), query)
		}
	}
}

// trySend records a message to a contact at that time.
func (n number) trySend(t *testing.T, contact contacts.ID, at time.Time) error {
	t.Helper()
	_, err := postgres.InTx(t.Context(), n.s.DB, n.Org, func(tx *postgres.Tx) ([]conversations.Thread, error) {
		return n.s.Conversations.SaidTx(t.Context(), tx, n.account, []conversations.Message{{ContactID: contact, At: at}})
	})
	return err
}
