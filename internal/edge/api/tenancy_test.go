package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/openapi"
)

// owned creates a resource of the client for each id parameter of the served paths, and returns the
// ids. A new resource needs a line here; without it the test fails for the resource's routes.
func owned(t *testing.T, client *apitest.Client) map[string]string {
	t.Helper()
	account := ownAccount(t, client)
	conversation := client.World.Conversation(t, client.Org, account)
	subscription := ownSubscription(t, client)
	customer := client.World.Customer(t, client.Org).ID
	link, err := client.World.SetupLinks.Create(t.Context(), client.Org, audit.Operator(), customer, setuplinks.Draft{})
	require.NoError(t, err)
	delivery, err := client.World.Webhooks.Deliveries(t.Context(), client.Org, webhooks.Filter{}, paging.Slice[webhooks.DeliveryID]{Limit: 1})
	require.NoError(t, err)
	label := client.World.Label(t, client.Org).ID.String()
	return map[string]string{
		"/labels/{id}":                label,
		"/customers/{id}":             customer.String(),
		"/media/{id}":                 ownFile(t, client),
		"/webhook_subscriptions/{id}": subscription.ID.String(),
		"/webhook_deliveries/{id}":    delivery.Items[0].ID.String(),
		"{secret_id}":                 subscription.Secrets[0].ID.String(),
		"{link_id}":                   link.ID.String(),

		"{phone_number_id}":                     *account.PhoneNumberID,
		"{label_id}":                            label,
		"/{phone_number_id}/contacts/{id}":      conversation.ContactID.String(),
		"/{phone_number_id}/conversations/{id}": conversation.ID.String(),
		"/{phone_number_id}/messages/{id}":      ownMessage(t, client, *account.PhoneNumberID, *conversation.ContactNumber),
	}
}

// ownFile uploads a file and returns its id.
func ownFile(t *testing.T, client *apitest.Client) string {
	t.Helper()
	made := uploadFile(t, client, "a.pdf", pdf)
	require.Equal(t, 201, made.Status, "%s", made.Body)
	return made.Data(t)["id"].(string)
}

// ownMessage sends a text and returns its id.
func ownMessage(t *testing.T, client *apitest.Client, number, to string) string {
	t.Helper()
	sent := client.Post(t, "/"+number+"/messages", sendTo(to))
	require.Equal(t, 202, sent.Status, "%s", sent.Body)
	return sent.Data(t)["id"].(string)
}

// sendTo is the body of a send of a text.
func sendTo(number string) string {
	return `{"messaging_product":"chat","to":"` + number + `","type":"text","text":{"body":"Hello"}}`
}

// ownAccount is the client's account. The first call creates it.
func ownAccount(t *testing.T, client *apitest.Client) accounts.Account {
	t.Helper()
	if client.Number == "" {
		client.Number = *client.World.Account(t, client.Org).PhoneNumberID
	}
	account, err := client.World.Accounts.Find(t.Context(), client.Org, client.Number)
	require.NoError(t, err)
	return account
}

// ownSubscription is the client's subscription. The first call creates it.
func ownSubscription(t *testing.T, client *apitest.Client) webhooks.Subscription {
	t.Helper()
	page, err := client.World.Webhooks.List(t.Context(), client.Org, paging.Slice[webhooks.SubscriptionID]{Limit: 1})
	require.NoError(t, err)
	if len(page.Items) == 1 {
		return page.Items[0]
	}
	made, err := client.World.Webhooks.Create(t.Context(), client.Org, audit.Operator(), webhooks.Draft{
		URL: "https://example.com/", Events: []events.Type{events.CustomerCreated},
	})
	require.NoError(t, err)
	return made
}

// unknown is an id of the same form that does not exist.
func unknown(id string) string { return id[:len(id)-10] + "0000000000" }

// bodies are valid bodies of the operations that need one.
func bodies() map[string]string {
	return map[string]string{
		"updateLabel": `{"color":"red"}`, "updateSetupLink": `{"success_redirect_url":null}`, "createSetupLink": `{}`, "updateCustomer": `{"name":"Taken","status":"archived"}`,
		"updateSubscription": `{"url":"https://example.org/taken","status":"paused"}`, "mintSecret": `{"expire_current_in":0}`,
		"testSubscription": `{"event_type":"message.sent"}`,
		"createTemplate":   orderReady, "updateTemplate": `{"components":[{"type":"BODY","text":"Taken"}]}`,
		"createContact": `{"bsuid":"PT.1"}`, "updateContact": `{"name":"Taken"}`,
		"attachContactLabel": `{"label_id":"lbl_01M6DRK2Y03Y667HMTRQGBYY0B"}`,
		"bulkLabelContacts":  `{"label_id":"lbl_01M6DRK2Y03Y667HMTRQGBYY0B","operation":"detach","contact_ids":["ctc_01M6B1Z2YTSTSEJFBCW1HAVEDG"]}`,
		"updateConversation": `{"status":"resolved"}`, "attachConversationLabel": `{"label_id":"lbl_01M6DRK2Y03Y667HMTRQGBYY0B"}`,
		"registerNumber": rightPIN, "sendMessage": sendTo("+351910000001"), "validateMessage": sendTo("+351910000001"),
	}
}

var requestID = regexp.MustCompile(`req_[0-9A-Z]{26}`)

// TestTenancy_ForeignAndMissingIDs_SameAnswer calls every served route that has an id with ids of other
// organizations, in the same cell and in another, with an unknown id and with malformed ids.
func TestTenancy_ForeignAndMissingIDs_SameAnswer(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, asked := s.Client(t), 0
	for _, otherClient := range []*apitest.Client{s.Client(t), s.Neighbour(t)} {
		for _, operation := range s.API.Served() {
			if strings.Contains(operation.Path, "{") {
				asked += askForOthers(t, s, client, otherClient, operation)
			}
		}
	}
	t.Logf("%d requests over %d operations", asked, len(s.API.Served()))
}

func askForOthers(t *testing.T, s *apitest.Server, client, otherClient *apitest.Client, operation *openapi.Operation) (asked int) {
	t.Helper()
	theirs := owned(t, otherClient)
	item, _, _ := strings.Cut(operation.Path, "{id}")
	parameter := "{id}"
	foreign, known := theirs[item+parameter]
	if !strings.Contains(operation.Path, "{id}") {
		// The route has no other id, so the number is the id to replace.
		parameter = "{phone_number_id}"
		foreign, known = theirs[parameter]
	}
	require.True(t, known, "%s has an id and no line in owned", operation.Path)
	// The number in the path belongs to the caller; only the other id is foreign.
	own := *ownAccount(t, client).PhoneNumberID
	at := func(number, id string) string {
		if parameter == "{phone_number_id}" {
			number = id
		}
		return strings.NewReplacer(
			"{phone_number_id}", number, "{id}", id, "{secret_id}", theirs["{secret_id}"], "{name}", "hello_world", "{label_id}", theirs["{label_id}"],
			"{link_id}", theirs["{link_id}"],
		).Replace(operation.Path)
	}
	look := func() any { return otherClient.Get(t, "/accounts?status=all").List(t) }
	if parameter == "{id}" {
		where := strings.ReplaceAll(item, "{phone_number_id}", theirs["{phone_number_id}"]) + foreign
		look = func() any { return otherClient.Get(t, where).Data(t) }
	}
	before := look()
	s.Clock.Move(time.Second)
	ask := func(number, id string) (int, string, http.Header) {
		asked++
		var body any
		if operation.Body != nil {
			body = bodies()[operation.ID]
		}
		answer := client.Do(t, operation.Method, at(number, id), body)
		return answer.Status, requestID.ReplaceAllString(string(answer.Body), "req"), stable(answer.Header)
	}
	status, body, header := ask(own, foreign)
	require.Equal(t, 404, status, "%s %s: %s", operation.Method, operation.Path, body)
	others := []string{unknown(foreign), "malformed", strings.ToLower(foreign) + "x", foreign + "0", "%20"}
	for _, other := range others {
		otherStatus, otherBody, otherHeader := ask(own, other)
		require.Equal(t, status, otherStatus, "%s for %q", operation.ID, other)
		require.Equal(t, body, otherBody, "%s for %q", operation.ID, other)
		require.Equal(t, header, otherHeader, "%s for %q", operation.ID, other)
	}
	if strings.Contains(operation.Path, "{phone_number_id}") && parameter == "{id}" {
		otherStatus, _, _ := ask(theirs["{phone_number_id}"], foreign)
		require.Equal(t, 404, otherStatus, "%s under a number of another organization", operation.ID)
	}
	require.Equal(t, before, look(), "%s touched a resource of another organization", operation.ID)
	return asked
}

// stable removes the headers that differ between any two answers.
func stable(header http.Header) http.Header {
	header = header.Clone()
	for _, name := range []string{"X-Request-Id", "Date", "Ratelimit-Remaining", "Ratelimit-Reset"} {
		header.Del(name)
	}
	return header
}

func TestTenancy_Lists_OnlyOwnRows(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, otherClient, neighbour := s.Client(t), s.Client(t), s.Neighbour(t)
	mine := owned(t, client)
	label, customer := mine["/labels/{id}"], mine["/customers/{id}"]
	for _, other := range []*apitest.Client{otherClient, neighbour} {
		owned(t, other)
	}
	require.Equal(t, []string{label}, walk(t, client, "/labels?limit=1"))
	require.Equal(t, []string{mine["/webhook_subscriptions/{id}"]}, walk(t, client, "/webhook_subscriptions?limit=1"))
	require.Equal(t, []string{mine["/webhook_deliveries/{id}"]}, walk(t, client, "/webhook_deliveries?limit=1"))
	for _, path := range []string{"/customers?limit=1", "/customers?limit=1&q=customer", "/customers?limit=1&status=pending"} {
		require.Equal(t, []string{customer}, walk(t, client, path))
	}
	number := "/" + mine["{phone_number_id}"]
	for _, path := range []string{"/contacts?limit=1", "/contacts?limit=1&q=contact", "/contacts?limit=1&q=%2B351", "/contacts?limit=1&updated_since=2020-01-01T00:00:00Z"} {
		require.Equal(t, []string{mine["/{phone_number_id}/contacts/{id}"]}, walk(t, client, number+path))
	}
	for _, path := range []string{"/conversations?limit=1", "/conversations?limit=1&status=open", "/conversations?limit=1&updated_since=2020-01-01T00:00:00Z"} {
		require.Equal(t, []string{mine["/{phone_number_id}/conversations/{id}"]}, walk(t, client, number+path))
	}
	message := mine["/{phone_number_id}/messages/{id}"]
	for _, path := range []string{"/messages?limit=1", "/messages?limit=1&status=queued", "/messages?limit=1&created_after=2020-01-01T00:00:00Z"} {
		require.Equal(t, []string{message}, walk(t, client, number+path))
	}
	for _, path := range []string{"/accounts?limit=1", "/accounts?limit=1&status=all"} {
		listed := client.Get(t, path).List(t)
		require.Len(t, listed, 1)
		require.Equal(t, mine["{phone_number_id}"], listed[0]["phone_number_id"])
	}
}
