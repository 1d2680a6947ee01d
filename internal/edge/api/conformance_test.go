package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/openapi"
)

// These tests hold rules that are about every operation, and those that no other test asserts. docs/conformance.md lists
// them.

// placed is the path of an operation with ids of the client's own resources.
func placed(operation *openapi.Operation, own map[string]string) string {
	item, _, _ := strings.Cut(operation.Path, "{id}")
	return strings.NewReplacer(
		"{phone_number_id}", own["{phone_number_id}"], "{id}", own[item+"{id}"], "{secret_id}", own["{secret_id}"], "{name}", "hello_world",
		"{label_id}", own["{label_id}"], "{link_id}", own["{link_id}"],
	).Replace(operation.Path)
}

// eachOperation calls a function with every operation but the two that need no key.
func eachOperation(t *testing.T, s *apitest.Server, own map[string]string, do func(operation *openapi.Operation, path string)) {
	t.Helper()
	called := 0
	for _, operation := range s.API.Served() {
		if operation.Path != "/health" && operation.Path != "/openapi.json" {
			do(operation, placed(operation, own))
			called++
		}
	}
	require.Greater(t, called, 50)
}

// bodyFor is a body of the operation, and headers that it needs.
func bodyFor(t *testing.T, operation *openapi.Operation) (body any, header []string) {
	t.Helper()
	switch given := bodies()[operation.ID]; {
	case operation.ID == "createMedia":
		file, contentType := form(t, "a.pdf", pdf)
		return file, []string{"Content-Type", contentType}
	case operation.Body == nil:
		return nil, nil
	case given != "":
		return given, nil
	default:
		return "{}", nil
	}
}

// ask calls an operation with its body.
func ask(t *testing.T, client *apitest.Client, operation *openapi.Operation, path string, header ...string) apitest.Answer {
	t.Helper()
	body, needed := bodyFor(t, operation)
	return client.Do(t, operation.Method, path, body, append(needed, header...)...)
}

func TestConformance_EveryOperation_NeedsAKey(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	own := owned(t, client)
	before := client.Get(t, "/accounts").List(t)
	eachOperation(t, s, own, func(operation *openapi.Operation, path string) {
		requireRefusal(t, refusal{401, "authentication_error", "missing_api_key", ""}, ask(t, s.Anonymous(), operation, path))
	})
	require.Equal(t, before, client.Get(t, "/accounts").List(t))
}

func TestConformance_EveryOperation_SpendsTheBucket(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	own := owned(t, client)
	_, err := s.Orgs.Set(t.Context(), client.Org, audit.Operator(), orgs.Change{Plan: new("starter")}) // 20 a second, burst 40
	require.NoError(t, err)
	for range 40 {
		client.Get(t, "/me")
	}
	eachOperation(t, s, own, func(operation *openapi.Operation, path string) {
		answer := ask(t, client, operation, path)
		requireRefusal(t, refusal{429, "rate_limit_error", "rate_limit_exceeded", ""}, answer)
		require.Equal(t, []string{"1", "0"}, []string{answer.Header.Get("Retry-After"), answer.Header.Get("RateLimit-Remaining")}, operation.ID)
	})
}

func TestConformance_EveryPost_ReadsTheIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, posts := s.Client(t), 0
	eachOperation(t, s, owned(t, client), func(operation *openapi.Operation, path string) {
		if operation.Method == http.MethodPost {
			posts++
			requireRefusal(t, faulty("Idempotency-Key"), ask(t, client, operation, path, "Idempotency-Key", "two words"))
		}
	})
	require.Greater(t, posts, 15)
}

// TestConformance_EveryList_LimitAndCursor asks each list with limits and cursors that it must refuse. Lists of 26 items show 25 of them.
func TestConformance_EveryList_LimitAndCursor(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, lists := s.Client(t), []string{}
	own := owned(t, client)
	eachOperation(t, s, own, func(operation *openapi.Operation, path string) {
		if !slices.ContainsFunc(operation.Query, func(one openapi.Parameter) bool { return one.Name == "cursor" }) {
			return
		}
		lists = append(lists, operation.ID)
		for query, want := range map[string]refusal{
			"limit=0": {400, "invalid_request_error", "invalid_limit", "limit"}, "limit=101": {400, "invalid_request_error", "invalid_limit", "limit"},
			"limit=x": {400, "invalid_request_error", "invalid_limit", "limit"}, "cursor=x": tampered, "sort=name": faulty("sort"),
		} {
			requireRefusal(t, want, client.Get(t, path+"?"+query))
		}
		for _, limit := range []string{"1", "100"} {
			answer := client.Get(t, path+"?limit="+limit)
			require.Equal(t, 200, answer.Status, "%s %s", operation.ID, answer.Body)
			require.LessOrEqual(t, len(answer.List(t)), 100)
		}
	})
	require.ElementsMatch(t, []string{
		"listAccounts", "listMessages", "getMessageTimeline", "listTemplates", "listConversations", "listContacts", "listLabels", "listMedia",
		"listCustomers", "listSetupLinks", "listSubscriptions", "listDeliveries",
	}, lists)
	number := "/" + own["{phone_number_id}"]
	for range 25 {
		s.Conversation(t, client.Org, ownAccount(t, client))
	}
	for range 25 {
		client.Post(t, number+"/messages", sendTo("+351910000001"))
		client.Post(t, "/customers", `{"name":"Bay"}`)
		client.Post(t, "/customers/"+own["/customers/{id}"]+"/setup_links", `{}`)
		subscribe(t, client, "https://example.com/")
	}
	for _, path := range []string{
		number + "/messages", number + "/contacts", number + "/conversations", "/customers", "/customers/" + own["/customers/{id}"] + "/setup_links",
		"/webhook_subscriptions", "/webhook_deliveries",
	} {
		answer := client.Get(t, path)
		require.Len(t, answer.List(t), 25, path)
		require.Equal(t, true, answer.JSON(t)["has_more"], path)
	}
}

func TestConformance_Me_EveryField(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	account := s.Account(t, client.Org)
	require.Equal(t, 202, client.Post(t, "/"+*account.PhoneNumberID+"/messages", sendTo("+351910000001")).Status)
	ends := s.Clock.Now().Add(time.Hour)
	_, err := s.Orgs.Set(t.Context(), client.Org, audit.Operator(), orgs.Change{Plan: new("starter"), Subscription: new(orgs.Trialing), TrialEndsAt: &ends})
	require.NoError(t, err)
	second, err := s.Orgs.CreateTeam(t.Context(), client.Org, audit.Operator(), "Second")
	require.NoError(t, err)
	user, err := s.Orgs.CreateUser(t.Context(), client.Org, audit.Operator(), &second.ID, "Ines", "ines@example.com")
	require.NoError(t, err)
	shown := client.Get(t, "/me").Data(t)
	organization := shown["organization"].(map[string]any)
	require.Equal(t, map[string]any{
		"object": "api_key", "id": client.KeyID.String(), "name": shown["name"], "last4": client.Key()[len(client.Key())-4:],
		"created_at": "2026-03-14T09:26:53.589Z", "expires_at": nil,
		"organization": map[string]any{
			"id": client.Org.String(), "name": organization["name"], "plan": "starter", "subscription_status": "trialing",
			"trial_ends_at": ends.Format(stampLayout),
			"quota":         map[string]any{"limit": 10_000.0, "used": 1.0, "resets_at": "2026-04-01T00:00:00.000Z"},
			"rate_limit":    map[string]any{"per_second": 20.0, "burst": 40.0},
		},
		"teams": []any{
			map[string]any{"id": client.Team.String(), "name": shown["teams"].([]any)[0].(map[string]any)["name"], "members": []any{}},
			map[string]any{"id": second.ID.String(), "name": "Second", "members": []any{
				map[string]any{"id": user.ID.String(), "name": "Ines", "email": "ines@example.com"},
			}},
		},
	}, shown)
}

func TestConformance_Register_AnyStateButConnected(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	for i, status := range []accounts.Status{accounts.Onboarding, accounts.Degraded, accounts.Disconnected} {
		number := "10000000000020" + string(rune('0'+i))
		account := connect(t, client, number, pending(canary.PIN), nil)
		numberIn(s, client, account).accountBecomes(t, "status", string(status))
		registered := client.Post(t, "/"+number+"/register", rightPIN)
		require.Equal(t, 200, registered.Status, "%s: %s", status, registered.Body)
		require.Equal(t, []any{"connected", "CONNECTED"}, []any{registered.Data(t)["status"], registered.Data(t)["provider_status"]}, status)
		require.Equal(t, 1, s.Network.Calls(http.MethodPost, "/"+number+"/register"))
	}
}

// numberIn is the fixture of an account of the client.
func numberIn(s *apitest.Server, client *apitest.Client, account accounts.Account) number {
	return number{Client: client, s: s, account: account, path: "/" + *account.PhoneNumberID}
}

// TestConformance_Register_FirstPINStays: a number without a PIN is registered. When it needs to be registered again, the
// provider knows that PIN only.
func TestConformance_Register_FirstPINStays(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	account := connect(t, client, "100000000000211", pending(""), nil)
	path := "/100000000000211/register"
	require.Equal(t, 200, client.Post(t, path, rightPIN).Status)
	s.Network.Number(t, account.BusinessAccountID, "100000000000211", map[string]any{"status": "PENDING"})
	numberIn(s, client, account).accountBecomes(t, "status", string(accounts.Onboarding))
	refused := client.Post(t, path, wrongPIN)
	require.Equal(t, []any{422, "whatsapp_registration_failed"}, []any{refused.Status, refused.Code()}, "%s", refused.Body)
	require.Equal(t, 200, client.Post(t, path, rightPIN).Status)
}

func TestConformance_TemplatesAndMedia_NewestFirst(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	var templates, files []string
	for _, name := range []string{"b", "c", "a", "d", "e"} {
		n.template(t, name, "UTILITY", plainBody)
		newest := n.Get(t, n.path+"/templates/"+name).Data(t)["id"].(string)
		templates = append([]string{newest}, templates...)
		files = append([]string{uploadFile(t, n.Client, name, pdf).Data(t)["id"].(string)}, files...)
		if name != "c" { // two share a millisecond: then by id
			n.s.Clock.Move(time.Second)
		}
	}
	for _, limit := range []string{"1", "2", "100"} {
		require.Equal(t, templates, walk(t, n.Client, n.path+"/templates?limit="+limit))
		require.Equal(t, files, walk(t, n.Client, "/media?limit="+limit))
	}
}

// mediaOf asks for the file of a message and follows no redirect.
func (n number) mediaOf(t *testing.T, id string) (status int, location string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.s.URL+"/v1"+n.path+"/messages/"+id+"/media", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+n.Key())
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, response.Header.Get("Location")
}

func TestConformance_MessageMedia_RedirectOrMissing(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	for kind, link := range map[string]string{
		"image": "https://harbour.example/a.jpg", "document": "https://harbour.example/a.pdf", "video": "https://harbour.example/a.mp4",
		"audio": "https://harbour.example/a.ogg?x=%20y",
	} {
		sent := n.mustSend(t, message(kind, `{"link":"`+link+`"}`))
		status, location := n.mediaOf(t, sent["id"].(string))
		require.Equal(t, []any{302, link}, []any{status, location}, kind)
	}
	file := uploadFile(t, n.Client, "a.pdf", pdf).Data(t)
	status, location := n.mediaOf(t, n.mustSend(t, message("document", `{"id":"`+file["id"].(string)+`"}`))["id"].(string))
	require.Equal(t, []any{302, file["url"]}, []any{status, location}, "a file of the library")

	inbound := n.inbound(t, n.s.Contact(t, n.Org, n.account).ID, "pmid.1")
	n.exec(t, `UPDATE messages SET type = 'image', content = '{"id":"1"}' WHERE org_id = @org_id AND direction = 'inbound'`, nil)
	for state, want := range map[string]int{"pending": 404, "failed": 404, "ready": 302} {
		n.exec(t, `UPDATE message_states SET media_state = '`+state+`', media_key = 'k' WHERE org_id = @org_id AND provider_id = 'pmid.1'`, nil)
		status, location = n.mediaOf(t, inbound)
		require.Equal(t, []any{want, want == 302}, []any{status, location != ""}, state)
	}
	text := n.mustSend(t, message("text", `{"body":"Hello"}`))["id"].(string)
	missing := refusal{404, "not_found", "resource_not_found", ""}
	requireRefusal(t, missing, n.Get(t, n.path+"/messages/"+text+"/media"))
	requireRefusal(t, missing, n.Get(t, n.path+"/messages/"+unknown(text)+"/media"))
}
