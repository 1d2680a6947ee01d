package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

const subscriptions = "/webhook_subscriptions"

// subscribe creates a subscription to all events through the API.
func subscribe(t *testing.T, client *apitest.Client, url string) map[string]any {
	t.Helper()
	made := client.Post(t, subscriptions, map[string]any{"url": url, "events": events.Catalogue()})
	require.Equal(t, 201, made.Status, "%s", made.Body)
	return made.Data(t)
}

// disableAll disables the client's subscriptions, as the worker does after too many failures.
func disableAll(t *testing.T, client *apitest.Client) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), client.World.DB, client.Org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `
UPDATE webhook_subscriptions SET status = 'disabled', disabled_reason = 'consecutive_failures', consecutive_failures = 31
WHERE org_id = @org_id`, nil)
	})
	require.NoError(t, err)
}

func TestSubscriptions_CreateReadUpdateDelete(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	for _, number := range []string{"100000000000001", "100000000000002", "999999"} {
		s.Attach(t, client.Org, number, nil)
	}
	created := client.Post(t, subscriptions, `{"url":"https://example.com/hook?a=<b>&c","events":["message.sent","customer.created","message.sent"],
"description":"<Orders> & more","phone_number_ids":["100000000000001","100000000000002","100000000000001"]}`)
	require.Equal(t, 201, created.Status)
	made := created.Data(t)
	secret, first := made["initial_secret"], made["secrets"].([]any)[0].(map[string]any)
	require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, secret)
	require.Regexp(t, `^sec_[0-9A-HJKMNP-TV-Z]{26}$`, first["id"])
	delete(made, "initial_secret")
	require.Equal(t, map[string]any{
		"id": made["id"], "object": "webhook_subscription", "url": "https://example.com/hook?a=<b>&c", "description": "<Orders> & more",
		"events": []any{"message.sent", "customer.created"}, "status": "active", "disabled_reason": nil, "consecutive_failures": 0.0,
		"secrets":          []any{map[string]any{"id": first["id"], "created_at": "2026-03-14T09:26:53.589Z", "expires_at": nil}},
		"phone_number_ids": []any{"100000000000001", "100000000000002"},
		"created_at":       "2026-03-14T09:26:53.589Z", "updated_at": "2026-03-14T09:26:53.589Z",
	}, made)
	path := subscriptions + "/" + made["id"].(string)
	require.Equal(t, made, client.Get(t, path).Data(t), "the secret is shown once")
	require.Equal(t, []map[string]any{made}, client.Get(t, subscriptions).List(t))

	for _, step := range []struct {
		change string
		field  string
		want   any
	}{
		{`{"url":"https://example.com/new"}`, "url", "https://example.com/new"},
		{`{"description":null}`, "description", nil},
		{`{"events":["contact.created"]}`, "events", []any{"contact.created"}},
		{`{"phone_number_ids":["999999"]}`, "phone_number_ids", []any{"999999"}},
		{`{"status":"paused"}`, "status", "paused"},
		{`{"status":"active","backlog":"deliver"}`, "status", "active"},
	} {
		s.Clock.Move(time.Second)
		changed := client.Do(t, "PATCH", path, step.change)
		require.Equal(t, 200, changed.Status, step.change)
		made[step.field], made["updated_at"] = step.want, s.Clock.Now().Format("2006-01-02T15:04:05.000Z")
		require.Equal(t, made, changed.Data(t), step.change)
		s.Clock.Move(time.Second)
		require.Equal(t, made, client.Do(t, "PATCH", path, step.change).Data(t), "again changes nothing: %s", step.change)
	}
	s.Clock.Move(time.Second)
	cleared := client.Do(t, "PATCH", path, `{"phone_number_ids":null}`).Data(t)
	require.NotContains(t, cleared, "phone_number_ids", "null clears the filter")

	gone := client.Do(t, "DELETE", path, nil)
	require.Equal(t, 200, gone.Status)
	require.Equal(t, map[string]any{"id": made["id"], "object": "webhook_subscription", "deleted": true}, gone.Data(t))
	for _, method := range []string{"GET", "DELETE"} {
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, client.Do(t, method, path, nil))
	}
	require.Empty(t, client.Get(t, subscriptions).List(t))
}

// badURLs are URLs that a subscription must not have.
func badURLs() []string {
	return []string{
		"", "x", "/relative", "//example.com/", "http://example.com/", "ftp://example.com/", "javascript:alert(1)", "https://", "https:///path",
		"https:example.com", "https://user@example.com/", "https://user:pass@example.com/", "https://example.com/#fragment",
		"https://example.com:80/", "https://example.com:22/", "https://example.com:1023/", "https://example.com:0/",
		"https://example.com:65536/", "https://example.com:abc/", "https://10.0.0.1/", "https://192.168.1.1/", "https://172.16.0.1/",
		"https://169.254.169.254/latest/meta-data", "https://[::1]/", "https://[fd00::1]/", "https://[::ffff:10.0.0.1]/",
		"https://0.0.0.0/", "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://exa mple.com/",
		"https://example.com/\\evil", "https://bücher.example/", "https://-bad.example/", "https://a..b/",
		"https://example.com/" + strings.Repeat("a", 2048),
	}
}

func TestSubscriptions_BadURL_Refused(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	path := subscriptions + "/" + subscribe(t, client, "https://example.com/")["id"].(string)
	want := refusal{400, "invalid_request_error", "invalid_webhook_url", "url"}
	for _, url := range badURLs() {
		requireRefusal(t, want, client.Post(t, subscriptions, map[string]any{"url": url, "events": []string{"message.sent"}}))
		requireRefusal(t, want, client.Do(t, "PATCH", path, map[string]any{"url": url}))
	}
	require.Len(t, client.Get(t, subscriptions).List(t), 1)
	for _, url := range []string{
		"https://example.com", "https://example.com:443/a", "https://example.com:8443/", "https://example.com:1024/", "https://8.8.8.8/hook",
		"https://[2606:4700:4700::1111]/", "https://xn--bcher-kva.example/%20?q=1&r=%26", "HTTPS://EXAMPLE.COM/Path",
	} {
		require.Equal(t, url, subscribe(t, client, url)["url"], "it comes back unchanged")
	}
}

func TestSubscriptions_BadInput_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	path := subscriptions + "/" + subscribe(t, client, "https://example.com/")["id"].(string)
	const url = `"url":"https://example.com/","events":["message.sent"]`
	long := strings.Repeat("é", 501)
	for body, want := range map[string][2]string{
		`{}`:                                                              {"missing_required_field", "url"},
		`{"url":"https://example.com/"}`:                                  {"missing_required_field", "events"},
		`{"events":["message.sent"]}`:                                     {"missing_required_field", "url"},
		`{"url":null,"events":["x"]}`:                                     {"invalid_webhook_url", "url"},
		`{"url":7,"events":["message.sent"]}`:                             {"invalid_webhook_url", "url"},
		`{"url":"https://example.com/","events":[]}`:                      {"invalid_field_value", "events"},
		`{"url":"https://example.com/","events":"message.sent"}`:          {"invalid_field_value", "events"},
		`{"url":"https://example.com/","events":null}`:                    {"invalid_field_value", "events"},
		`{"url":"https://example.com/","events":["message.sent","nope"]}`: {"invalid_event_type", "events[1]"},
		`{"url":"https://example.com/","events":["Message.Sent"]}`:        {"invalid_event_type", "events[0]"},
		`{"url":"https://example.com/","events":["*"]}`:                   {"invalid_event_type", "events[0]"},
		`{"url":"https://example.com/","events":["message.sent",7]}`:      {"invalid_event_type", "events[1]"},
		`{` + url + `,"phone_number_ids":[]}`:                             {"invalid_field_value", "phone_number_ids"},
		`{` + url + `,"phone_number_ids":["100000000000001","12345"]}`:    {"invalid_field_value", "phone_number_ids[1]"},
		`{` + url + `,"phone_number_ids":["+10000000000"]}`:               {"invalid_field_value", "phone_number_ids[0]"},
		`{` + url + `,"phone_number_ids":"100000000000001"}`:              {"invalid_field_value", "phone_number_ids"},
		`{` + url + `,"description":7}`:                                   {"invalid_field_value", "description"},
		`{` + url + `,"description":"` + long + `"}`:                      {"invalid_field_value", "description"},
		`{` + url + `,"secret":"mine"}`:                                   {"invalid_field_value", "secret"},
		`{` + url + `,"status":"paused"}`:                                 {"invalid_field_value", "status"},
		`{` + url + `,"url":"https://example.org/"}`:                      {"invalid_field_value", "url"},
	} {
		requireRefusal(t, refusal{400, "invalid_request_error", want[0], want[1]}, client.Post(t, subscriptions, body))
	}
	for body, want := range map[string][2]string{
		`{"status":"disabled"}`:      {"invalid_field_value", "status"},
		`{"status":null}`:            {"invalid_field_value", "status"},
		`{"backlog":"drop"}`:         {"invalid_field_value", "backlog"},
		`{"backlog":"discard"}`:      {"invalid_field_value", "backlog"},
		`{"url":null}`:               {"invalid_webhook_url", "url"},
		`{"events":[]}`:              {"invalid_field_value", "events"},
		`{"events":["x"]}`:           {"invalid_event_type", "events[0]"},
		`{"phone_number_ids":[]}`:    {"invalid_field_value", "phone_number_ids"},
		`{"secrets":[]}`:             {"invalid_field_value", "secrets"},
		`{"disabled_reason":null}`:   {"invalid_field_value", "disabled_reason"},
		`{"consecutive_failures":0}`: {"invalid_field_value", "consecutive_failures"},
	} {
		requireRefusal(t, refusal{400, "invalid_request_error", want[0], want[1]}, client.Do(t, "PATCH", path, body))
	}
	require.Equal(t, 201, client.Post(t, subscriptions, `{`+url+`,"description":"`+long[:1000]+`"}`).Status, "500 code points")
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", "status"}, client.Get(t, subscriptions+"?status=active"))
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_limit", "limit"}, client.Get(t, subscriptions+"?limit=101"))
}

func TestSubscriptions_List_Pages(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	subscribe(t, s.Client(t), "https://example.com/stranger")
	var newestFirst []string
	for i := range 50 {
		made := subscribe(t, client, fmt.Sprintf("https://example.com/%d", i))
		newestFirst = append([]string{made["id"].(string)}, newestFirst...)
	}
	requireRefusal(t, refusal{409, "conflict", "limit_reached", ""},
		client.Post(t, subscriptions, `{"url":"https://example.com/","events":["message.sent"]}`))
	for _, limit := range []int{7, 50, 100} {
		require.Equal(t, newestFirst, walk(t, client, fmt.Sprintf("%s?limit=%d", subscriptions, limit)))
	}
	require.Equal(t, 200, client.Do(t, "DELETE", subscriptions+"/"+newestFirst[3], nil).Status)
	subscribe(t, client, "https://example.com/again")
}

func TestSubscriptions_IdempotencyKey_CreatedOnce(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	body := `{"url":"https://example.com/","events":["message.sent"]}`
	first := client.Post(t, subscriptions, body, "Idempotency-Key", "once")
	again := client.Post(t, subscriptions, body, "Idempotency-Key", "once")
	require.Equal(t, 201, again.Status)
	require.Equal(t, string(first.Body), string(again.Body), "the secret too, byte for byte")
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Contains(t, string(again.Body), "initial_secret")
	require.Len(t, client.Get(t, subscriptions).List(t), 1)
	path := subscriptions + "/" + first.Data(t)["id"].(string) + "/secrets"
	minted := client.Post(t, path, `{}`, "Idempotency-Key", "mint")
	require.Equal(t, string(minted.Body), string(client.Post(t, path, `{}`, "Idempotency-Key", "mint").Body))
	requireRefusal(t, refusal{422, "invalid_request_error", "idempotency_key_reuse", ""},
		client.Post(t, path, `{"expire_current_in":5}`, "Idempotency-Key", "mint"))
	require.Len(t, client.Get(t, strings.TrimSuffix(path, "/secrets")).Data(t)["secrets"], 2)
}

func TestSecrets_CreateAndRevoke(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	made := subscribe(t, client, "https://example.com/")
	path := subscriptions + "/" + made["id"].(string)
	first := made["secrets"].([]any)[0].(map[string]any)["id"].(string)
	last := refusal{422, "invalid_request_error", "cannot_revoke_last_secret", ""}
	requireRefusal(t, last, client.Do(t, "DELETE", path+"/secrets/"+first, nil))

	minted := client.Post(t, path+"/secrets", nil)
	require.Equal(t, 201, minted.Status, "the body may be left out")
	second := minted.Data(t)
	require.Equal(t, "signing_secret", second["object"])
	require.Nil(t, second["expires_at"])
	require.Equal(t, 201, client.Post(t, path+"/secrets", `{"expire_current_in":3600}`).Status)
	listed := client.Get(t, path).Data(t)["secrets"].([]any)
	require.Len(t, listed, 3)
	require.Equal(t, "2026-03-14T10:26:53.589Z", listed[0].(map[string]any)["expires_at"])
	require.NotContains(t, string(client.Get(t, path).Body), second["secret"])

	for range 2 {
		require.Equal(t, 201, client.Post(t, path+"/secrets", `{}`).Status)
	}
	requireRefusal(t, refusal{409, "conflict", "limit_reached", ""}, client.Post(t, path+"/secrets", `{}`))
	gone := client.Do(t, "DELETE", path+"/secrets/"+first, nil)
	require.Equal(t, map[string]any{"id": first, "object": "signing_secret", "deleted": true}, gone.Data(t))
	missing := refusal{404, "not_found", "resource_not_found", ""}
	requireRefusal(t, missing, client.Do(t, "DELETE", path+"/secrets/"+first, nil))
	requireRefusal(t, missing, client.Do(t, "DELETE", path+"/secrets/nonsense", nil))
	requireRefusal(t, missing, client.Do(t, "DELETE", path+"/secrets/"+ids.New[unknownSecret](s.Clock.Now()).String(), nil))
	other := subscribe(t, client, "https://example.com/other")
	requireRefusal(t, missing, client.Do(t, "DELETE", subscriptions+"/"+other["id"].(string)+"/secrets/"+second["id"].(string), nil))

	for body, param := range map[string]string{
		`{"expire_current_in":-1}`: "expire_current_in", `{"expire_current_in":"60"}`: "expire_current_in", `{"expires_at":null}`: "expires_at",
		`{"expire_current_in":1.5}`:            "expire_current_in",
		`{"expire_current_in":99999999999999}`: "expire_current_in", `{"expire_current_in":3153600001}`: "expire_current_in", `[]`: "",
	} {
		answer := client.Post(t, path+"/secrets", body)
		requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", param}, answer)
	}
	require.Equal(t, 201, client.Post(t, path+"/secrets", `{"expire_current_in":3153600000}`).Status)
}

type unknownSecret struct{}

func (unknownSecret) Prefix() string { return "sec_" }

// TestSubscriptions_Disabled_WhatStillWorks checks what a disabled subscription allows, as decided.
func TestSubscriptions_Disabled_WhatStillWorks(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	path := subscriptions + "/" + subscribe(t, client, "https://example.com/")["id"].(string)
	tested := client.Post(t, path+"/test", `{"event_type":"contact.created"}`)
	require.Equal(t, 201, tested.Status)
	disableAll(t, client)
	shown := client.Get(t, path).Data(t)
	require.Equal(t, "disabled", shown["status"])
	require.Equal(t, webhooks.ReasonFailures, shown["disabled_reason"])
	require.EqualValues(t, 31, shown["consecutive_failures"])
	want := refusal{409, "conflict", "webhook_subscription_disabled", ""}
	for _, change := range []string{`{"status":"paused"}`, `{"url":"https://example.com/new"}`, `{"description":"x"}`, `{"backlog":"discard"}`} {
		requireRefusal(t, want, client.Do(t, "PATCH", path, change))
	}
	requireRefusal(t, want, client.Post(t, path+"/test", `{"event_type":"contact.created"}`))
	requireRefusal(t, want, client.Post(t, "/webhook_deliveries/"+tested.Data(t)["id"].(string)+"/replay", nil))
	require.Equal(t, 201, client.Post(t, path+"/secrets", nil).Status)
	resumed := client.Do(t, "PATCH", path, `{"status":"active","url":"https://example.org/","description":"moved","events":["message.sent"]}`)
	require.Equal(t, 200, resumed.Status)
	data := resumed.Data(t)
	require.Equal(t, []any{"active", nil, 0.0, "https://example.org/", "moved"},
		[]any{data["status"], data["disabled_reason"], data["consecutive_failures"], data["url"], data["description"]})
	disableAll(t, client)
	require.Equal(t, 200, client.Do(t, "DELETE", path, nil).Status)
}
