package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// deliveredEvents are the organization's events as they are delivered, oldest first. It checks each against the
// contract.
func deliveredEvents(t *testing.T, s *apitest.Server, client *apitest.Client) (events []map[string]any) {
	t.Helper()
	type row struct {
		Type          string
		PhoneNumberID *string
		Body          []byte
	}
	rows, err := postgres.Many[row](t.Context(), client.World.DB.Of(client.Org), `
SELECT type, phone_number_id, body FROM events WHERE org_id = @org_id ORDER BY id`, nil)
	require.NoError(t, err)
	for _, event := range rows {
		schema, err := s.Contract.Webhook(event.Type)
		require.NoError(t, err)
		body, err := jsonschema.UnmarshalJSON(bytes.NewReader(event.Body))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(body), "%s", event.Body)
		var decoded map[string]any
		require.NoError(t, json.Unmarshal(event.Body, &decoded))
		require.Equal(t, event.Type, decoded["type"])
		if strings.HasPrefix(event.Type, "contact.") || strings.HasPrefix(event.Type, "conversation.") {
			require.NotNil(t, event.PhoneNumberID, "subscriptions may ask for one number")
		}
		events = append(events, decoded)
	}
	return events
}

// since are the events after the first n, without the fields that differ each time.
func since(t *testing.T, s *apitest.Server, client *apitest.Client, n int) []map[string]any {
	t.Helper()
	events := deliveredEvents(t, s, client)[n:]
	for _, event := range events {
		require.Regexp(t, `^evt_[0-9A-HJKMNP-TV-Z]{26}$`, event["id"])
		delete(event, "id")
	}
	return events
}

const stampLayout = "2006-01-02T15:04:05.000Z"

// number is a client whose organization has a business number.
type number struct {
	*apitest.Client

	s       *apitest.Server
	account accounts.Account
	path    string
}

func numberOf(t *testing.T, s *apitest.Server) number {
	t.Helper()
	client := s.Client(t)
	account := s.Account(t, client.Org)
	return number{Client: client, s: s, account: account, path: "/" + *account.PhoneNumberID}
}

func (n number) now() string { return n.s.Clock.Now().Format(stampLayout) }

// inEvents is a contact as it is in events.
func (n number) inEvents(contact map[string]any) map[string]any {
	shown := map[string]any{"phone_number_id": *n.account.PhoneNumberID}
	for _, field := range []string{"id", "object", "phone_number", "name", "email", "metadata", "created_at", "updated_at"} {
		shown[field] = contact[field]
	}
	return shown
}

func TestContacts_CreateReadUpdateDelete(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	created := n.Post(t, n.path+"/contacts", `{"phone_number":"351910000001","bsuid":"PT.1","username":"@Marta.Reis","name":"Marta Reis",
		"email":"Marta@example.com","metadata":{ "crm": "<1>", "n": 1.10 },"marketing":"opted_in"}`)
	require.Equal(t, 201, created.Status, "%s", created.Body)
	contact := created.Data(t)
	path := n.path + "/contacts/" + contact["id"].(string)
	require.Equal(t, map[string]any{
		"id": contact["id"], "object": "contact", "phone_number": "+351910000001", "bsuid": "PT.1", "parent_bsuid": nil,
		"username": "Marta.Reis", "name": "Marta Reis", "email": "Marta@example.com", "metadata": map[string]any{"crm": "<1>", "n": 1.1},
		"chat_account": map[string]any{"phone_number": *n.account.PhoneNumber, "phone_number_id": *n.account.PhoneNumberID, "customer": nil},
		"created_at":   n.now(), "updated_at": n.now(),
		"marketing": map[string]any{"state": "opted_in", "updated_at": n.now(), "source": "api"}, "labels": []any{},
	}, contact)
	require.Contains(t, string(created.Body), `"metadata":{"crm":"<1>","n":1.10}`, "as it was sent, but for blanks")
	require.Equal(t, contact, n.Get(t, path).Data(t))
	require.Equal(t, []map[string]any{contact}, n.Get(t, n.path+"/contacts").List(t))
	require.Equal(t, []map[string]any{{
		"type": "contact.created", "created_at": n.now(), "data": map[string]any{"contact": n.inEvents(contact)},
	}}, since(t, n.s, n.Client, 0))

	eventCount := 1
	change := func(body string, want map[string]any, announced ...any) {
		t.Helper()
		n.s.Clock.Move(time.Second)
		changed := n.Do(t, "PATCH", path, body)
		require.Equal(t, 200, changed.Status, "%s", changed.Body)
		if maps.Copy(contact, want); want != nil {
			contact["updated_at"] = n.now()
		}
		require.Equal(t, contact, changed.Data(t), body)
		require.Equal(t, contact, n.Get(t, path).Data(t), body)
		events := since(t, n.s, n.Client, eventCount)
		if eventCount += len(events); announced == nil {
			require.Empty(t, events, body)
			return
		}
		require.Equal(t, []map[string]any{{"type": "contact.updated", "created_at": n.now(), "data": map[string]any{
			"contact": n.inEvents(contact), "changed_fields": announced,
		}}}, events, body)
	}
	change(`{"name":"Marta Reis","email":"Marta@example.com","username":"Marta.Reis","metadata":{"crm":"<1>","n":1.10},"marketing":"opted_in"}`, nil)
	change(`{"metadata":{"n":11e-1,"crm":"<1>"}}`, nil)
	change(`{"name":"M <R>"}`, map[string]any{"name": "M <R>"}, "name")
	change(`{"email":"","metadata":null,"name":null}`, map[string]any{"email": nil, "metadata": nil, "name": nil}, "name", "email", "metadata")
	change(`{"email":""}`, nil)
	change(`{"username":"other"}`, map[string]any{"username": "other"})
	change(`{"username":null}`, map[string]any{"username": nil})
	n.s.Clock.Move(0)
	change(`{"marketing":"opted_out"}`, map[string]any{"marketing": map[string]any{
		"state": "opted_out", "updated_at": n.s.Clock.Now().Add(time.Second).Format(stampLayout), "source": "api",
	}})
	change(`{"metadata":{"a":1},"username":"x"}`, map[string]any{"metadata": map[string]any{"a": 1.0}, "username": "x"}, "metadata")

	gone := n.Do(t, "DELETE", path, nil)
	require.Equal(t, 200, gone.Status)
	require.Equal(t, map[string]any{"id": contact["id"], "object": "contact", "deleted": true}, gone.Data(t))
	for _, method := range []string{"GET", "DELETE"} {
		require.Equal(t, 404, n.Do(t, method, path, nil).Status)
	}
	require.Equal(t, 404, n.Do(t, "PATCH", path, `{"name":"X"}`).Status)
	require.Empty(t, n.Get(t, n.path+"/contacts").List(t))
	require.Len(t, deliveredEvents(t, n.s, n.Client), eventCount, "a deletion records no event")
	again := n.Post(t, n.path+"/contacts", `{"phone_number":"+351910000001","bsuid":"PT.1"}`)
	require.Equal(t, 201, again.Status, "a deleted contact can be created again")
	require.NotEqual(t, contact["id"], again.Data(t)["id"])
}

func TestContacts_Create_DuplicateIdentifier(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	first := n.Post(t, n.path+"/contacts", `{"phone_number":"+5531987654321"}`).Data(t)
	second := n.Post(t, n.path+"/contacts", `{"bsuid":"BR.2","phone_number":"+5531987654322"}`).Data(t)
	for body, want := range map[string]struct {
		param string
		of    map[string]any
	}{
		`{"phone_number":"+5531987654321"}`:                 {"phone_number", first},
		`{"phone_number":"553187654321"}`:                   {"phone_number", first}, // without the ninth digit
		`{"phone_number":"+5531987654321","bsuid":"BR.2"}`:  {"phone_number", first},
		`{"bsuid":"BR.2"}`:                                  {"bsuid", second},
		`{"bsuid":"BR.2","phone_number":"+5531987650000"}`:  {"bsuid", second},
		`{"phone_number":"+5531987654322","bsuid":"BR.99"}`: {"phone_number", second},
	} {
		answer := n.Post(t, n.path+"/contacts", body, "Idempotency-Key", "one")
		requireRefusal(t, refusal{409, "conflict", "already_exists", want.param}, answer)
		require.Contains(t, answer.Error(t)["message"], want.of["id"], body)
	}
	require.Len(t, deliveredEvents(t, n.s, n.Client), 2)
	other := n.s.Account(t, n.Org)
	require.Equal(t, 201, n.Post(t, "/"+*other.PhoneNumberID+"/contacts", `{"phone_number":"+5531987654321","bsuid":"BR.2"}`).Status,
		"each number knows its own contacts")
	made := n.Post(t, n.path+"/contacts", `{"bsuid":"BR.3"}`, "Idempotency-Key", "one")
	require.Equal(t, 201, made.Status, "a refusal releases the key")
	repeated := n.Post(t, n.path+"/contacts", `{"bsuid":"BR.3"}`, "Idempotency-Key", "one")
	require.Equal(t, string(made.Body), string(repeated.Body))
	require.Equal(t, "true", repeated.Header.Get("Idempotent-Replayed"))
}

func TestContacts_NumberOfCustomer_CustomerID(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	customer := s.Customer(t, client.Org)
	account := s.AccountOf(t, client.Org, &customer.ID)
	made := client.Post(t, "/"+*account.PhoneNumberID+"/contacts", `{"bsuid":"PT.1"}`).Data(t)
	require.Equal(t, map[string]any{"id": customer.ID.String(), "name": customer.Name}, made["chat_account"].(map[string]any)["customer"])
	require.Nil(t, made["phone_number"])
	require.Equal(t, map[string]any{"state": "unknown", "updated_at": nil, "source": nil}, made["marketing"])
}

func TestContacts_BadInput_Refused(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	path := n.path + "/contacts/" + n.s.Contact(t, n.Org, n.account).ID.String()
	long := strings.Repeat("x", 300)
	for body, param := range map[string]string{
		`{"phone_number":"+1","name":"X"}`: "phone_number", `{"phone_number":"00351910000001"}`: "phone_number",
		`{"phone_number":"+351 910 000 001"}`: "phone_number", `{"phone_number":"+1234567890123456"}`: "phone_number",
		`{"phone_number":"３５１９１００００００１"}`: "phone_number",
		`{"bsuid":"pt.1"}`: "bsuid", `{"bsuid":"PT.ENT.1"}`: "bsuid", `{"bsuid":"PT."}`: "bsuid", `{"bsuid":"PT.` + long[:129] + `"}`: "bsuid",
		`{"bsuid":"PT.1","name":""}`: "name", `{"bsuid":"PT.1","name":" "}`: "name", `{"bsuid":"PT.1","name":"` + long[:201] + `"}`: "name",
		`{"bsuid":"PT.1","name":"a\u0085b"}`: "name",
		`{"bsuid":"PT.1","username":""}`:     "username", `{"bsuid":"PT.1","username":"@"}`: "username",
		`{"bsuid":"PT.1","username":"` + long[:101] + `"}`: "username", `{"bsuid":"PT.1","email":""}`: "email",
		`{"bsuid":"PT.1","email":"nobody"}`: "email", `{"bsuid":"PT.1","email":"` + long[:250] + `@a.example"}`: "email",
		`{"bsuid":"PT.1","metadata":[]}`: "metadata", `{"bsuid":"PT.1","marketing":"unknown"}`: "marketing",
		`{"bsuid":"PT.1","parent_bsuid":"PT.ENT.1"}`: "parent_bsuid", `{"bsuid":"PT.1","labels":[]}`: "labels", `{"bsuid":"PT.1","id":"x"}`: "id",
	} {
		requireRefusal(t, faulty(param), n.Post(t, n.path+"/contacts", body))
	}
	requireRefusal(t, refusal{400, "invalid_request_error", "missing_required_field", "phone_number"},
		n.Post(t, n.path+"/contacts", `{"name":"Nobody"}`))
	for body, param := range map[string]string{
		`{"phone_number":"+351910000001"}`: "phone_number", `{"bsuid":"PT.1"}`: "bsuid", `{"name":""}`: "name", `{"name":"\t"}`: "name", `{"name":"a\nb"}`: "name", `{"username":"a\u001bb"}`: "username",
		`{"name":"` + long[:201] + `"}`: "name", `{"username":""}`: "username", `{"username":"@"}`: "username",
		`{"username":"` + long[:101] + `"}`: "username", `{"email":null}`: "email", `{"email":"nobody"}`: "email",
		`{"email":"a b@c"}`: "email", `{"email":"a@"}`: "email", `{"email":"@a.example"}`: "email", `{"email":1}`: "email", `{"email":"` + long[:250] + `@a.example"}`: "email", `{"metadata":"{}"}`: "metadata",
		`{"marketing":"unknown"}`: "marketing", `{"marketing":null}`: "marketing", `{"labels":[]}`: "labels",
	} {
		requireRefusal(t, faulty(param), n.Do(t, "PATCH", path, body))
	}
	for _, body := range []string{
		`{"name":"` + strings.Repeat("é", 200) + `"}`, `{"username":"` + long[:100] + `"}`, `{"email":"` + long[:245] + `@a.example"}`,
	} {
		require.Equal(t, 200, n.Do(t, "PATCH", path, body).Status)
	}
	require.Equal(t, 201, n.Post(t, n.path+"/contacts", `{"bsuid":"PT.`+long[:128]+`"}`).Status)
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		refused := n.Do(t, method, n.path+"/contacts/bulk_label", nil)
		require.Equal(t, 405, refused.Status, method)
		require.Equal(t, "POST", refused.Header.Get("Allow"))
	}
}

func TestContacts_Labels_AttachAndDetach(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	label, other := n.s.Label(t, n.Org), n.s.Label(t, n.Org)
	contact := n.s.Contact(t, n.Org, n.account)
	path := n.path + "/contacts/" + contact.ID.String()
	before := n.Get(t, path).Data(t)
	eventCount := len(deliveredEvents(t, n.s, n.Client))
	attach := func(id labels.ID) apitest.Answer {
		return n.Post(t, path+"/labels", map[string]any{"label_id": id})
	}
	result := func(attached bool) map[string]any {
		return map[string]any{"contact_id": contact.ID.String(), "label_id": label.ID.String(), "attached": attached}
	}
	n.s.Clock.Move(time.Second)
	require.Equal(t, result(true), attach(label.ID).Data(t))
	before["updated_at"] = n.now()
	before["labels"] = []any{map[string]any{"id": label.ID.String(), "name": label.Name, "color": label.Color}}
	require.Equal(t, before, n.Get(t, path).Data(t))
	labeled := map[string]any{"type": "contact.updated", "created_at": n.now(), "data": map[string]any{
		"contact": n.inEvents(before), "changed_fields": []any{"labels"},
	}}
	require.Equal(t, []map[string]any{labeled}, since(t, n.s, n.Client, eventCount))

	n.s.Clock.Move(time.Second)
	require.Equal(t, result(true), attach(label.ID).Data(t), "again")
	require.Equal(t, before, n.Get(t, path).Data(t))
	require.Equal(t, 200, attach(other.ID).Status)
	require.Len(t, n.Get(t, path).Data(t)["labels"], 2)
	require.Equal(t, 200, n.Do(t, "DELETE", "/labels/"+other.ID.String(), nil).Status)
	require.Len(t, n.Get(t, path).Data(t)["labels"], 1)
	eventCount += 2
	require.Empty(t, since(t, n.s, n.Client, eventCount), "deleting a label records no event")

	n.s.Clock.Move(time.Second)
	require.Equal(t, result(false), n.Do(t, "DELETE", path+"/labels/"+label.ID.String(), nil).Data(t))
	before["updated_at"], before["labels"] = n.now(), []any{}
	require.Equal(t, before, n.Get(t, path).Data(t))
	require.Len(t, since(t, n.s, n.Client, eventCount), 1)
	require.Equal(t, result(false), n.Do(t, "DELETE", path+"/labels/"+label.ID.String(), nil).Data(t), "again")
	require.Len(t, since(t, n.s, n.Client, eventCount), 1)

	second, err := n.s.Orgs.CreateTeam(t.Context(), n.Org, audit.Operator(), "Second")
	require.NoError(t, err)
	foreign, err := n.s.Labels.Create(t.Context(), n.Org, labels.Draft{Name: "Theirs", TeamID: &second.ID})
	require.NoError(t, err)
	otherClient := n.s.Client(t)
	for name, id := range map[string]labels.ID{"another team's": foreign.ID, "deleted": other.ID, "another organization's": n.s.Label(t, otherClient.Org).ID} {
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", "label_id"}, attach(id))
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, n.Do(t, "DELETE", path+"/labels/"+id.String(), nil))
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, // of two unknown ids that of the contact is reported
			n.Post(t, n.path+"/contacts/ctc_01M6B1Z2YTSTSEJFBCW1HAVEDG/labels", map[string]any{"label_id": id}))
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", "label_id"}, n.Post(t, n.path+"/contacts/bulk_label",
			map[string]any{"label_id": id, "contact_ids": []any{contact.ID}, "operation": "attach"}))
		_ = name
	}
	for body, want := range map[string]refusal{
		`{}`: {400, "invalid_request_error", "missing_required_field", "label_id"}, `{"label_id":"lbl_1"}`: faulty("label_id"),
		`{"label_id":"lbl_8ZZZZZZZZZZZZZZZZZZZZZZZZZ"}`: faulty("label_id"), `{"label_id":null}`: faulty("label_id"),
	} {
		requireRefusal(t, want, n.Post(t, path+"/labels", body))
	}
	once := n.Post(t, path+"/labels", map[string]any{"label_id": label.ID}, "Idempotency-Key", "one")
	require.Equal(t, string(once.Body), string(n.Post(t, path+"/labels", map[string]any{"label_id": label.ID}, "Idempotency-Key", "one").Body))
}

func TestContacts_BulkLabel_CountsAndErrors(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	label := n.s.Label(t, n.Org)
	elsewhere := n.s.Account(t, n.Org)
	otherClient := numberOf(t, n.s)
	mine := []any{}
	for range 5 {
		mine = append(mine, n.s.Contact(t, n.Org, n.account).ID.String())
	}
	notMine := []any{
		n.s.Contact(t, n.Org, elsewhere).ID.String(), n.s.Contact(t, otherClient.Org, otherClient.account).ID.String(),
		unknown(mine[0].(string)),
	}
	eventCount := len(deliveredEvents(t, n.s, n.Client))
	bulk := func(operation string, ids ...any) map[string]any {
		t.Helper()
		answer := n.Post(t, n.path+"/contacts/bulk_label", map[string]any{"contact_ids": ids, "label_id": label.ID, "operation": operation})
		require.Equal(t, 200, answer.Status, "%s", answer.Body)
		return answer.Data(t)
	}
	n.s.Clock.Move(time.Second)
	counts := func(requested, changed, unchanged, skipped int, word string) map[string]any {
		return map[string]any{
			"requested": float64(requested), word: float64(changed), "unchanged": float64(unchanged), "skipped_cross_org": float64(skipped),
		}
	}
	require.Equal(t, counts(2, 2, 0, 0, "attached"), bulk("attach", mine[0], mine[1]))
	events := since(t, n.s, n.Client, eventCount)
	require.Len(t, events, 2)
	for i, event := range events {
		shown := n.Get(t, n.path+"/contacts/"+mine[i].(string)).Data(t)
		require.Equal(t, n.now(), shown["updated_at"])
		require.Equal(t, map[string]any{"type": "contact.updated", "created_at": n.now(), "data": map[string]any{
			"contact": n.inEvents(shown), "changed_fields": []any{"labels"},
		}}, event)
	}
	require.Equal(t, counts(8, 3, 2, 3, "attached"), bulk("attach", append(mine, notMine...)...))
	require.Equal(t, counts(3, 0, 3, 0, "attached"), bulk("attach", mine[0], mine[0], mine[0]), "one contact, three times")
	require.Equal(t, counts(3, 0, 0, 3, "detached"), bulk("detach", notMine...))
	require.Equal(t, counts(3, 1, 2, 0, "detached"), bulk("detach", mine[0], mine[0], mine[0]))
	require.Equal(t, counts(5, 4, 1, 0, "detached"), bulk("detach", mine...))
	require.Len(t, since(t, n.s, n.Client, eventCount), 10)

	many := make([]any, 1001)
	for i := range many {
		many[i] = unknown(mine[0].(string))
	}
	require.Equal(t, counts(1000, 0, 0, 1000, "attached"), bulk("attach", many[:1000]...))
	body := func(ids any, rest string) string {
		encoded, err := json.Marshal(ids)
		require.NoError(t, err)
		return `{"contact_ids":` + string(encoded) + `,"label_id":"` + label.ID.String() + `"` + rest + `}`
	}
	for text, want := range map[string]refusal{
		body(many, `,"operation":"attach"`):                                                    faulty("contact_ids"),
		body([]any{}, `,"operation":"attach"`):                                                 faulty("contact_ids"),
		body([]any{mine[0], "ctc_1"}, `,"operation":"attach"`):                                 faulty("contact_ids[1]"),
		body([]any{mine[0], "ctc_8ZZZZZZZZZZZZZZZZZZZZZZZZZ"}, `,"operation":"attach"`):        faulty("contact_ids[1]"),
		body(mine, `,"operation":"remove"`):                                                    faulty("operation"),
		body(mine, ``):                                                                         {400, "invalid_request_error", "missing_required_field", "operation"},
		`{"contact_ids":["` + mine[0].(string) + `"],"label_id":"lbl_1","operation":"attach"}`: faulty("label_id"),
		`{"label_id":"` + label.ID.String() + `","operation":"attach"}`:                        {400, "invalid_request_error", "missing_required_field", "contact_ids"},
	} {
		requireRefusal(t, want, n.Post(t, n.path+"/contacts/bulk_label", text))
	}
}

func TestContacts_List_FiltersAndPages(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	made := map[string]string{}
	for i, body := range []map[string]any{
		{"phone_number": "+5531987654321", "name": "Bay Bakery", "email": "Owner@bay.example"},
		{"phone_number": "+351910000002", "bsuid": "PT.2", "username": "bay_boats", "name": "boats"},
		{"bsuid": "PT.3", "name": "Straße", "email": "bay@x.example"},
		{"phone_number": "+351910000004", "username": "Marta.Reis"},
		{"phone_number": "+351920000005", "name": "50%", "email": "OWNER@BAY.example"},
	} {
		answer := n.Post(t, n.path+"/contacts", body)
		require.Equal(t, 201, answer.Status, "%s", answer.Body)
		made[fmt.Sprint(i)] = answer.Data(t)["id"].(string)
		n.s.Clock.Move(time.Second)
	}
	label := n.s.Label(t, n.Org)
	require.Equal(t, 200, n.Post(t, n.path+"/contacts/bulk_label", map[string]any{
		"contact_ids": []any{made["0"], made["2"]}, "label_id": label.ID, "operation": "attach",
	}).Status)
	other := n.s.Account(t, n.Org)
	n.Post(t, "/"+*other.PhoneNumberID+"/contacts", `{"phone_number":"+351910000002","name":"Bay of another number"}`)
	at := n.s.Clock.Now()
	before := url.QueryEscape(at.Add(-time.Millisecond).Format(stampLayout))
	for query, want := range map[string]string{
		"":                                       "43210",
		"phone_number=%2B351910000002":           "1",
		"phone_number=351910000002":              "1",
		"phone_number=553187654321":              "0", // without the ninth digit
		"phone_number=351910000009":              "",
		"bsuid=PT.3":                             "2",
		"bsuid=PT.9":                             "",
		"username=BAY_BOATS":                     "1",
		"username=%40bay_boats":                  "1",
		"username=bay.boats":                     "", // dots and underscores count
		"username=marta.reis":                    "3",
		"email=owner@bay.EXAMPLE":                "40",
		"email=owner@bay":                        "",
		"label_id=" + label.ID.String():          "20",
		"label_id=" + unknown(label.ID.String()): "",
		"q=bay":                                  "210",
		"q=BAY_":                                 "1",
		"q=%40bay_b":                             "1",
		"q=%2B3519":                              "431",
		"q=35191":                                "31",
		"q=5531987":                              "0",
		"q=%2B":                                  "4310",
		"q=strass":                               "2",
		"q=%25":                                  "",
		"q=50%25":                                "4",
		"q=owner@":                               "40",
		"q=%F4%8F%BF%BF":                         "",
		"updated_since=" + before:                "20",
		"updated_since=" + url.QueryEscape(at.Format(stampLayout)):                 "",
		"updated_since=" + url.QueryEscape("2020-01-01T00:00:00Z"):                 "43210",
		"updated_since=" + url.QueryEscape("2020-01-01T02:00:00+02:00") + "&q=bay": "210",
		"updated_since=" + before + "&q=bay":                                       "20",
		"updated_since=" + before + "&label_id=" + label.ID.String():               "20",
		"q=bay&label_id=" + label.ID.String():                                      "20",
		"q=o&email=owner@bay.example":                                              "40",
		"phone_number=351910000002&q=boa":                                          "1",
		"phone_number=351910000002&q=x":                                            "",
		"bsuid=PT.2&username=bay_boats&phone_number=351910000002":                  "1",
		"email=owner@bay.example&label_id=" + label.ID.String() + "&q=b":           "0",
	} {
		ids := make([]string, len(want))
		for i, place := range strings.Split(want, "") {
			ids[i] = made[place]
		}
		for _, limit := range []int{1, 2, 100} {
			require.Equal(t, ids, walk(t, n.Client, fmt.Sprintf("%s/contacts?limit=%d&%s", n.path, limit, query)), query)
		}
	}
	for query, param := range map[string]string{
		"phone_number=1": "phone_number", "phone_number=": "phone_number", "bsuid=x": "bsuid", "username=": "username", "email=": "email",
		"label_id=x": "label_id", "label_id=lbl_8ZZZZZZZZZZZZZZZZZZZZZZZZZ": "label_id", "q=": "q", "q=" + strings.Repeat("x", 201): "q",
		"updated_since=yesterday": "updated_since", "updated_since=2026-01-01": "updated_since", "name=x": "name", "q=a%00": "q", "q=a&q=b": "q",
		"status=open": "status",
	} {
		requireRefusal(t, faulty(param), n.Get(t, n.path+"/contacts?"+query))
	}
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_limit", "limit"}, n.Get(t, n.path+"/contacts?limit=101"))
	next := n.Get(t, n.path+"/contacts?limit=1&q=bay").JSON(t)["next_cursor"].(string)
	for _, path := range []string{n.path + "/contacts?q=b&cursor=", n.path + "/contacts?cursor=", "/" + *other.PhoneNumberID + "/contacts?q=bay&cursor="} {
		requireRefusal(t, refusal{400, "invalid_request_error", "invalid_cursor", "cursor"}, n.Get(t, path+url.QueryEscape(next)))
	}
}
