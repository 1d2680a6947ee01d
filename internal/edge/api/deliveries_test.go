package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

const deliveries = "/webhook_deliveries"

// killAll sets the status of the client's deliveries to dead.
func killAll(t *testing.T, client *apitest.Client) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), client.World.DB, client.Org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `
UPDATE webhook_deliveries SET status = 'dead', troubled = true, attempt_count = 10, next_attempt_at = NULL WHERE org_id = @org_id`, nil)
	})
	require.NoError(t, err)
}

// TestDeliveries_Payload_EqualsPostedBytes uses values that JSON libraries change when they decode and
// encode them.
func TestDeliveries_Payload_EqualsPostedBytes(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, endpoint := s.Client(t), receiver.New(t)
	subscribe(t, client, endpoint.URL)
	s.Work(t)
	bodies := []string{
		`{"name":"<script>&amp;</script>","metadata":{"html":"<&>","n":12345678901234567}}`,
		"{\"name\":\"separators\",\"metadata\":{\"raw\":\"\u2028\u2029\",\"escaped\":\"\\u2028\\u003c\"}}",
		`{"name":"numbers","metadata":{"a":10000000000000001,"b":1.0,"c":1e5,"d":-0,"e":0.1000,"f":99999999999999999}}`,
		`{"name":"order","metadata":{"z":1,"a":2,"m":{"y":[],"b":{}}}}`,
		`{"name":"\"quoted\" \\ back \/ slash","metadata":{"tab":"a\tb","emoji":"😀","pair":"\ud83d\ude00","é":"é"}}`,
	}
	for i, body := range bodies {
		made := client.Post(t, "/customers", body)
		require.Equal(t, 201, made.Status, "%s", made.Body)
		request := endpoint.WaitCount(t, i+1, time.Minute)[i]
		answer := client.Get(t, deliveries+"/"+request.DeliveryID())
		require.Equal(t, 200, answer.Status)
		var envelope struct {
			Data struct {
				Payload json.RawMessage `json:"payload"`
			} `json:"data"`
		}
		require.NoError(t, json.Unmarshal(answer.Body, &envelope))
		require.Equal(t, string(request.Body), string(envelope.Data.Payload), "payload is the posted bytes")
		var sent, got struct {
			Metadata json.RawMessage `json:"metadata"`
			Data     struct {
				Customer struct {
					Metadata json.RawMessage `json:"metadata"`
				} `json:"customer"`
			} `json:"data"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &sent))
		require.NoError(t, json.Unmarshal(request.Body, &got))
		require.Equal(t, string(sent.Metadata), string(got.Data.Customer.Metadata), "and metadata the caller's")
	}
}

func TestDeliveries_Failed_ShowsAttempts(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, endpoint := s.Client(t), receiver.New(t)
	endpoint.Answer(receiver.Always(receiver.Answer{Status: 503, Body: []byte("<busy>")}))
	subscription := subscribe(t, client, endpoint.URL)
	s.Work(t)
	s.Customer(t, client.Org)
	var found map[string]any
	require.Eventually(t, func() bool {
		found = client.Get(t, deliveries).List(t)[0]
		return found["status"] == "failed"
	}, 3*time.Minute, 10*time.Millisecond)
	require.NotContains(t, found, "payload")
	require.NotContains(t, found, "attempts")
	require.Regexp(t, `^2026-03-14T09:26:5[89]\.\d{3}Z$`, found["next_attempt_at"])
	require.NotEmpty(t, found["error_message"])
	for field, want := range map[string]any{
		"object": "webhook_delivery", "subscription_id": subscription["id"], "event_type": "customer.created", "attempt_count": 1.0,
		"last_attempt_at": "2026-03-14T09:26:53.589Z", "response_status": 503.0, "response_body_snippet": "<busy>", "replayed_from": nil,
		"error_code": "status", "created_at": "2026-03-14T09:26:53.589Z",
	} {
		require.Equal(t, want, found[field], field)
	}
	one := client.Get(t, deliveries+"/"+found["id"].(string)).Data(t)
	require.Equal(t, found["event_id"], one["payload"].(map[string]any)["id"])
	attempts := one["attempts"].([]any)
	require.Len(t, attempts, 1)
	attempt := attempts[0].(map[string]any)
	require.Equal(t, []any{1.0, "2026-03-14T09:26:53.589Z", 503.0, "<busy>", "status"},
		[]any{attempt["attempt"], attempt["at"], attempt["response_status"], attempt["response_body_snippet"], attempt["error_code"]})
	require.EqualValues(t, 1, client.Get(t, subscriptions+"/"+subscription["id"].(string)).Data(t)["consecutive_failures"])
}

// TestDeliveries_List_Filters uses each filter alone, all together, and over several pages.
func TestDeliveries_List_Filters(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	one, two := subscribe(t, client, "https://example.com/1")["id"].(string), subscribe(t, client, "https://example.com/2")["id"].(string)
	otherClient := s.Client(t)
	foreign := subscribe(t, otherClient, "https://example.com/")["id"].(string)
	s.Customer(t, otherClient.Org)
	for range 3 {
		s.Clock.Move(time.Second)
		s.Customer(t, client.Org)
	}
	killAll(t, client)
	middle := "2026-03-14T09:26:55.589Z"
	s.Clock.Move(time.Second)
	customer := s.Customer(t, client.Org)
	s.Clock.Move(time.Second)
	require.Equal(t, 200, client.Do(t, "DELETE", "/customers/"+customer.ID.String(), nil).Status)
	newest := client.Get(t, deliveries+"?limit=1").List(t)[0]
	key := newest["event_id"].(string)
	for query, want := range map[string]int{
		"":                             10,
		"subscription_id=" + one:       5,
		"subscription_id=" + foreign:   0,
		"status=dead":                  6,
		"status=pending":               4,
		"status=failed":                0,
		"status=succeeded":             0,
		"event_type=customer.archived": 2,
		"event_type=message.sent":      0,
		"event_id=" + key:              2,
		"event_id=nothing":             0,
		"created_after=" + middle:      6,
		"created_before=" + middle:     2,
		"created_after=2026-03-14T11:26:55.589%2B02:00":                                    6,
		"created_after=2026-03-14T09:26:55.5885Z":                                          8,
		"created_after=0001-01-01T00:00:00Z":                                               10,
		"created_before=0001-01-01T00:00:00Z":                                              0,
		"created_before=9999-12-31T23:59:59.999Z":                                          10,
		"created_after=9999-12-31T23:59:59.999Z":                                           0,
		"status=dead&subscription_id=" + two + "&created_after=" + middle:                  1,
		"status=pending&subscription_id=" + two + "&event_type=customer.created&limit=100": 1,
		"created_after=" + middle + "&created_before=" + middle:                            0,
	} {
		require.Len(t, walk(t, client, deliveries+"?"+strings.TrimSuffix("limit=3&"+strings.Replace(query, "&limit=100", "", 1), "&")), want, query)
	}
	all := walk(t, client, deliveries+"?limit=100")
	require.IsDecreasing(t, all, "newest first")
	page := client.Get(t, deliveries+"?limit=1&status=dead").JSON(t)
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_cursor", "cursor"},
		client.Get(t, deliveries+"?limit=1&status=pending&cursor="+url.QueryEscape(page["next_cursor"].(string))))
	s.Clock.Move(30 * 24 * time.Hour)
	require.Len(t, walk(t, client, deliveries+"?limit=100"), 2, "kept for 30 days")
}

func TestDeliveries_List_BadFilters(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	for query, want := range map[string][2]string{
		"subscription_id=abc":                            {"invalid_field_value", "subscription_id"},
		"subscription_id=":                               {"invalid_field_value", "subscription_id"},
		"subscription_id=wbd_01M467HDJ0Z6AA85JCTNSBDAZJ": {"invalid_field_value", "subscription_id"},
		"status=done":                                    {"invalid_field_value", "status"},
		"status=":                                        {"invalid_field_value", "status"},
		"event_type=nope":                                {"invalid_event_type", "event_type"},
		"event_id=":                                      {"invalid_field_value", "event_id"},
		"event_id=" + strings.Repeat("x", 513):           {"invalid_field_value", "event_id"},
		"created_after=yesterday":                        {"invalid_field_value", "created_after"},
		"created_after=2026-03-14":                       {"invalid_field_value", "created_after"},
		"created_before=1773480413":                      {"invalid_field_value", "created_before"},
		"created_before=2026-02-30T00:00:00Z":            {"invalid_field_value", "created_before"},
		"status=dead&status=failed":                      {"invalid_field_value", "status"},
		"sort=created_at":                                {"invalid_field_value", "sort"},
		"limit=0":                                        {"invalid_limit", "limit"},
		"cursor=x":                                       {"invalid_cursor", "cursor"},
	} {
		requireRefusal(t, refusal{400, "invalid_request_error", want[0], want[1]}, client.Get(t, deliveries+"?"+query))
	}
	for _, id := range []string{"nonsense", "wbd_short", "wbs_01M467HDJ0Z6AA85JCTNSBDAZJ", "wbd_01M467HDJ0Z6AA85JCTNSBDAZJ"} {
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, client.Get(t, deliveries+"/"+id))
		requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, client.Post(t, deliveries+"/"+id+"/replay", nil))
	}
}

func TestDeliveries_Replay_OneAndMany(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	one := subscribe(t, client, "https://example.com/1")["id"].(string)
	s.Customer(t, client.Org)
	first := client.Get(t, deliveries).List(t)[0]
	path := deliveries + "/" + first["id"].(string) + "/replay"
	replayed := client.Post(t, path, nil, "Idempotency-Key", "again")
	require.Equal(t, 201, replayed.Status)
	data := replayed.Data(t)
	require.Equal(t, []any{first["id"], "pending", first["event_id"], 0.0}, []any{data["replayed_from"], data["status"], data["event_id"], data["attempt_count"]})
	require.NotEqual(t, first["id"], data["id"])
	require.Equal(t, string(replayed.Body), string(client.Post(t, path, nil, "Idempotency-Key", "again").Body))
	require.Len(t, client.Get(t, deliveries).List(t), 2)
	require.NotEqual(t, data["id"], client.Post(t, path, nil).Data(t)["id"], "without a key each call replays")

	killAll(t, client)
	s.Clock.Move(time.Second)
	bulk := deliveries + "/replay"
	count := func(matched, replayed float64, body any) {
		t.Helper()
		answer := client.Post(t, bulk, body)
		require.Equal(t, 200, answer.Status, "%s", answer.Body)
		require.Equal(t, map[string]any{"matched": matched, "replayed": replayed}, answer.Data(t))
	}
	count(3, 0, `{"dry_run":true}`)
	count(3, 0, map[string]any{"dry_run": true, "subscription_id": one, "event_type": "customer.created"})
	count(0, 0, `{"event_type":"message.sent"}`)
	count(0, 0, `{"created_after":"2026-03-14T09:26:53.589Z"}`)
	count(3, 3, `{"created_before":"2026-03-14T11:26:53.590+02:00"}`)
	count(3, 3, `{}`)
	for body, want := range map[string]refusal{
		`{"subscription_id":"x"}`: {400, "invalid_request_error", "invalid_field_value", "subscription_id"},
		`{"event_type":"x"}`:      {400, "invalid_request_error", "invalid_event_type", "event_type"},
		`{"created_after":"x"}`:   {400, "invalid_request_error", "invalid_field_value", "created_after"},
		`{"created_before":5}`:    {400, "invalid_request_error", "invalid_field_value", "created_before"},
		`{"dry_run":"yes"}`:       {400, "invalid_request_error", "invalid_field_value", "dry_run"},
		`{"status":"dead"}`:       {400, "invalid_request_error", "invalid_field_value", "status"},
		`{"subscription_id":"wbs_01M467HDJ0Z6AA85JCTNSBDAZJ"}`: {404, "not_found", "resource_not_found", "subscription_id"},
	} {
		requireRefusal(t, want, client.Post(t, bulk, body))
	}
	requireRefusal(t, refusal{404, "not_found", "resource_not_found", "subscription_id"},
		s.Client(t).Post(t, bulk, map[string]any{"subscription_id": one}))
	disableAll(t, client)
	count(0, 0, `{}`)
}

func exampleID(example []byte) string {
	var printed struct{ ID string }
	_ = json.Unmarshal(example, &printed)
	return printed.ID
}

// TestSubscriptions_Test_EveryEvent: the answer is the delivery, whose payload is the contract's example with an id of its own.
func TestSubscriptions_Test_EveryEvent(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	path := subscriptions + "/" + subscribe(t, client, "https://example.com/")["id"].(string) + "/test"
	for _, of := range events.Catalogue() {
		tested := client.Post(t, path, fmt.Sprintf(`{"event_type":%q}`, of))
		require.Equal(t, 201, tested.Status, "%s", tested.Body)
		require.Equal(t, string(of), tested.Data(t)["event_type"])
		id := tested.Data(t)["event_id"].(string)
		example, err := s.Contract.WebhookExample(string(of))
		require.NoError(t, err)
		fetched := client.Get(t, deliveries+"/"+tested.Data(t)["id"].(string))
		own, _, _ := strings.Cut(id, ":")
		require.NotContains(t, string(example), own)
		_, payload, _ := strings.Cut(string(fetched.Body), `"payload":`)
		require.Contains(t, payload, own)
		if strings.HasPrefix(id, "evt_") {
			require.Contains(t, strings.Replace(payload, own, exampleID(example), 1), string(example))
		}
	}
	require.Len(t, walk(t, client, deliveries+"?limit=9"), 16)
	for body, want := range map[string]refusal{
		`{}`:                                  {400, "invalid_request_error", "missing_required_field", "event_type"},
		`{"event_type":"nope"}`:               {400, "invalid_request_error", "invalid_event_type", "event_type"},
		`{"event_type":null}`:                 {400, "invalid_request_error", "invalid_event_type", "event_type"},
		`{"event_type":"message.sent","x":1}`: {400, "invalid_request_error", "invalid_field_value", "x"},
	} {
		requireRefusal(t, want, client.Post(t, path, body))
	}
	requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""},
		s.Client(t).Post(t, path, `{"event_type":"message.sent"}`))
}
