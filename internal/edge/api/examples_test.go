package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/openapi"
	"github.com/parley-chat/parley/schema"
)

// examplesFixture is the organization of the contract's examples. It sends them to a running server with the simulated
// network, in an order in which the story is true.
type examplesFixture struct {
	storyFixture

	// real has the value that the server made for each id of the examples.
	real     map[string]string
	called   map[string]bool
	requests int
}

// TestContract_Examples_TrueOnARunningServer sends the examples of all operations. The answers have the fields of the
// examples, and each id of the story means the same thing in all of them.
func TestContract_Examples_TrueOnARunningServer(t *testing.T) {
	t.Parallel()
	f := newExamplesFixture(t)
	f.calls(t, "getHealth", "getOpenAPI", "getMe", "registerNumber", "listAccounts")
	f.calls(t, "createLabel", "listLabels", "getLabel", "createContact", "listContacts", "getContact", "updateContact", "attachContactLabel")
	f.real["ctc_01M60T4KD0K79973TWWWPTT4ZW"] = f.s.Contact(t, f.Org, ownAccount(t, f.Client)).ID.String()
	f.calls(t, "bulkLabelContacts", "createSubscription", "mintSecret", "listSubscriptions", "getSubscription", "updateSubscription", "testSubscription")
	f.templates(t)
	f.calls(t, "createMedia", "listMedia", "getMedia")
	f.messages(t)
	f.calls(t, "validateMessage", "listMessages", "getMessage", "getMessageMedia", "getMessageTimeline")
	f.calls(t, "listConversations", "updateConversation", "getConversation", "attachConversationLabel", "detachConversationLabel")
	f.deliveries(t)
	f.customers(t)
	f.calls(t, "detachContactLabel", "updateLabel", "deleteLabel", "revokeSecret", "deleteSubscription", "deleteMedia", "deleteContact")
	for _, operation := range f.s.Contract.Operations() {
		require.True(t, f.called[operation.ID], "%s was not called", operation.ID)
	}
}

func newExamplesFixture(t *testing.T) *examplesFixture {
	t.Helper()
	s := apitest.New(t)
	began := time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC)
	s.Clock.Move(began.Sub(s.Clock.Now()))
	for _, db := range []*postgres.DB{s.DB, s.Other.DB} {
		require.NoError(t, db.EnsurePartitions(t.Context(), schema.Partitioned(), began))
	}
	client, endpoint, files := s.Client(t), receiver.New(t), receiver.New(t)
	client.Number = "100000000000071" // the network has other numbers of the ids of the story
	f := &examplesFixture{storyFixture: storyFixture{number: number{Client: client, s: s, path: "/" + client.Number}}}
	f.account = connect(t, client, client.Number, map[string]any{
		"status": "PENDING", "display_phone_number": "+351 21 000 0001", "verified_name": "Harbour Coffee",
	}, nil)
	_, err := s.Orgs.CreateUser(t.Context(), client.Org, audit.Operator(), &client.Team, "Ines Duarte", "ines@harbour.example")
	require.NoError(t, err)
	endpoint.Answer(func(r receiver.Request) receiver.Answer {
		if r.Event() == "conversation.assigned" {
			return receiver.Answer{Status: 500, Body: []byte("Internal Server Error")}
		}
		return receiver.Answer{}
	})
	files.Answer(receiver.Always(receiver.Answer{Body: []byte(jpeg)}))
	f.called = map[string]bool{}
	f.real = map[string]string{
		"100000000000001": client.Number, "100000000000002": "100000000000072",
		"https://hooks.harbour.example/parley": endpoint.URL, "https://harbour.example/ready.jpg": files.URL + "/ready.jpg",
	}
	s.Work(t)
	return f
}

// templates has the network review the template twice: as it was created, and as it was changed.
func (f *examplesFixture) templates(t *testing.T) {
	t.Helper()
	for _, change := range []string{"createTemplate", "updateTemplate"} {
		f.calls(t, change)
		review(t, f.Client, f.path+"/templates/order_ready", "APPROVED")
		f.calls(t, "syncTemplates")
	}
	f.calls(t, "listTemplates", "getTemplate")
}

// messages receives the text of the story, and sends a message of every kind. The first one is delivered.
func (f *examplesFixture) messages(t *testing.T) {
	t.Helper()
	const text, received = "pmid.HBgMMzUxOTEwMDAwMDAxFQIAERgSOUE2RDRFQzE3MEYyQjg1MwA=", "pmid.HBgMMzUxOTEwMDAwMDAxFQIAEhgUM0E4RjVDNzA5QjFEMkU0QQA="
	f.push(t, "messages", map[string]any{"id": "wamid.in", "from": person[1:], "type": "text", "text": map[string]any{"body": "Are you open?"}})
	f.until(t, "the message arrived", func() bool { return len(f.Get(t, f.path+"/messages").List(t)) == 1 })
	f.real[received] = "wamid.in"
	operation := f.operation(t, "sendMessage")
	shown, err := operation.BodyExamples("application/json")
	require.NoError(t, err)
	for i, example := range shown {
		sent := f.send(t, operation, example)
		switch {
		case i == 0:
			f.compare(t, operation, sent)
		case example.Name == "image":
			f.real["msg_01M7CSDM1M28C72NHNJN8F0BQ5"] = sent.Data(t)["id"].(string)
		case example.Name == "read_receipt":
			f.compare(t, operation, sent)
		}
	}
	one := f.path + "/messages/" + f.real["msg_01M7CS911T13WNZCMQH7P85WCJ"]
	f.until(t, "the message is sent", func() bool { return f.Get(t, one).Data(t)["status"] == "sent" })
	f.real[text] = f.Get(t, one).Data(t)["message_id"].(string)
	f.push(t, "statuses", map[string]any{"id": f.real[text], "status": "delivered", "recipient_id": person[1:]})
	f.until(t, "the message is delivered", func() bool { return f.Get(t, one).Data(t)["status"] == "delivered" })
	f.s.Logs.Flush()
}

// deliveries waits for the delivery that fails, and replays it.
func (f *examplesFixture) deliveries(t *testing.T) {
	t.Helper()
	failed := f.awaitDelivery(t, "conversation.assigned", "failed", 1)
	f.real["wbd_01M7CS91J0SFSNAFMWYG9DQ4PV"] = failed["id"].(string)
	f.calls(t, "listDeliveries", "getDelivery", "replayDelivery", "replayDeliveries")
}

// customers connects a number of the customer without the pages of the setup link, which have tests of their own.
func (f *examplesFixture) customers(t *testing.T) {
	t.Helper()
	f.calls(t, "createCustomer", "listCustomers", "createSetupLink", "listSetupLinks", "getSetupLink", "updateSetupLink", "revokeSetupLink")
	var customer customers.ID
	require.NoError(t, customer.UnmarshalText([]byte(f.real["cus_01M5CJXHG0G060EM3SHK18M2XJ"])))
	connect(t, f.Client, f.real["100000000000002"], map[string]any{"display_phone_number": "+351 21 000 0002", "verified_name": "Bay Bakery"}, &customer)
	activated := f.Do(t, "PATCH", "/customers/"+customer.String(), `{"status":"active"}`)
	require.Equal(t, 200, activated.Status, "%s", activated.Body)
	f.calls(t, "getCustomer", "updateCustomer", "disconnectAccount", "archiveCustomer")
}

func (f *examplesFixture) operation(t *testing.T, id string) *openapi.Operation {
	t.Helper()
	operations := f.s.Contract.Operations()
	at := slices.IndexFunc(operations, func(one *openapi.Operation) bool { return one.ID == id })
	require.GreaterOrEqual(t, at, 0, id)
	return operations[at]
}

// calls sends the examples of operations, and compares the answers. Lists are sent a second time with the examples of their
// filters.
func (f *examplesFixture) calls(t *testing.T, operations ...string) {
	t.Helper()
	for _, id := range operations {
		operation := f.operation(t, id)
		example := openapi.Example{}
		for _, media := range operation.BodyTypes {
			shown, err := operation.BodyExamples(media)
			require.NoError(t, err)
			require.Len(t, shown, 1, "%s: the test sends one", id)
			example = shown[0]
		}
		f.compare(t, operation, f.send(t, operation, example))
		if len(operation.Query) > 0 {
			f.send(t, operation, example, f.filters(operation)...)
		}
	}
}

// filters are the query parameters of a list, without the cursor, which is that of no page here.
func (f *examplesFixture) filters(operation *openapi.Operation) (query []string) {
	for _, parameter := range operation.Query {
		if parameter.Name != "cursor" {
			query = append(query, parameter.Name+"="+url.QueryEscape(f.inReal(parameter.Example)))
		}
	}
	return query
}

// send sends an example with the ids that the server made.
func (f *examplesFixture) send(t *testing.T, operation *openapi.Operation, example openapi.Example, query ...string) apitest.Answer {
	t.Helper()
	f.called[operation.ID] = true
	f.requests++
	f.s.Clock.Move(time.Second)
	path := operation.Path
	for _, parameter := range operation.PathParameters {
		path = strings.ReplaceAll(path, "{"+parameter.Name+"}", f.inReal(parameter.Example))
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	var header []string
	for _, parameter := range operation.Headers {
		value := parameter.Example
		if parameter.Name == "Idempotency-Key" {
			value += fmt.Sprint("-", f.requests) // a key is for one request
		}
		header = append(header, parameter.Name, value)
	}
	var body any
	if example.Value != nil {
		body = f.inReal(string(example.Value))
	}
	if slices.Contains(operation.BodyTypes, "multipart/form-data") {
		form, contentType := form(t, "invoice-1042.pdf", pdf, "team_id", f.Team.String())
		body, header = form, append(header, "Content-Type", contentType)
	}
	answer := f.Do(t, operation.Method, path, body, header...)
	require.Less(t, answer.Status, 400, "%s %s %s: %s", operation.ID, path, body, answer.Body)
	return answer
}

// inReal replaces the ids of the story.
func (f *examplesFixture) inReal(text string) string {
	for _, id := range slices.Sorted(maps.Keys(f.real)) {
		text = strings.ReplaceAll(text, id, f.real[id])
	}
	return text
}

// compare compares the resource of an answer with that of the example. A list must show something.
func (f *examplesFixture) compare(t *testing.T, operation *openapi.Operation, answer apitest.Answer) {
	t.Helper()
	shown, err := operation.ResponseExamples(answer.Status)
	require.NoError(t, err)
	if len(shown) == 0 {
		require.Equal(t, 302, answer.Status, operation.ID)
		return
	}
	var example map[string]any
	require.NoError(t, json.Unmarshal(shown[0].Value, &example))
	if _, list := example["data"].([]any); list {
		require.NotEmpty(t, answer.List(t), "%s: %s", operation.ID, answer.Body)
	} else {
		f.same(t, operation.ID, example["data"], answer.JSON(t)["data"])
	}
}

// ofStory are the forms of the ids in the examples, except those of requests.
var ofStory = regexp.MustCompile(`^([a-pr-z][a-z]{2,3}_[0-9A-Z]{26}|pmid\..*|[0-9a-f]{8}-[0-9a-f-]{27})$`)

// equal are fields whose values are those of the examples.
var equal = []string{
	"object", "type", "direction", "status", "color", "code", "event_type", "attached", "deleted", "disconnected", "registered", "valid",
}

// same requires that both have the same fields, that some of them have the same values, and that an id of the story always
// means the same.
func (f *examplesFixture) same(t *testing.T, at string, example, got any) {
	t.Helper()
	switch shown := example.(type) {
	case map[string]any:
		made, _ := got.(map[string]any)
		require.ElementsMatch(t, slices.Collect(maps.Keys(shown)), slices.Collect(maps.Keys(made)), "%s has other fields than its example: %v", at, got)
		for name, value := range shown {
			f.same(t, at+"."+name, value, made[name])
			if slices.Contains(equal, name) {
				require.Equal(t, value, made[name], "%s.%s", at, name)
			}
		}
	case []any:
		made, _ := got.([]any)
		for i := range min(len(shown), len(made)) {
			f.same(t, fmt.Sprintf("%s[%d]", at, i), shown[i], made[i])
		}
	case string:
		made, is := got.(string)
		if !is || !ofStory.MatchString(shown) {
			return
		}
		if known := f.real[shown]; known != "" {
			require.Equal(t, known, made, "%s: %s means something else here", at, shown)
		}
		f.real[shown] = made
	}
}
