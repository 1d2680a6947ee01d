package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// eventsOf are the types of the organization's events in the order of their ids. It checks each body
// against the contract.
func eventsOf(t *testing.T, s *apitest.Server, client *apitest.Client) (types []string) {
	t.Helper()
	type row struct {
		Type string
		Body []byte
	}
	rows, err := postgres.Many[row](t.Context(), client.World.DB.Of(client.Org), `
SELECT type, body FROM events WHERE org_id = @org_id ORDER BY id`, nil)
	require.NoError(t, err)
	for _, event := range rows {
		schema, err := s.Contract.Webhook(event.Type)
		require.NoError(t, err)
		body, err := jsonschema.UnmarshalJSON(bytes.NewReader(event.Body))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(body), "%s", event.Body)
		require.NotContains(t, string(event.Body), "whatsapp_accounts")
		types = append(types, event.Type)
	}
	return types
}

func TestCustomers_CreateReadUpdateArchive(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)

	created := client.Post(t, "/customers", `{"name":"Bay Bakery","email":"Owner@bay.example","metadata":{ "plan": "<gold>", "n": 1.10 }}`)
	require.Equal(t, 201, created.Status)
	customer := created.Data(t)
	path := "/customers/" + customer["id"].(string)
	require.Equal(t, map[string]any{
		"id": customer["id"], "object": "customer", "name": "Bay Bakery", "email": "Owner@bay.example", "status": "pending",
		"metadata": map[string]any{"plan": "<gold>", "n": 1.1}, "archived_at": nil, "team_id": client.Team.String(),
		"created_at": "2026-03-14T09:26:53.589Z", "updated_at": "2026-03-14T09:26:53.589Z",
	}, customer)
	require.Contains(t, string(created.Body), `"metadata":{"plan":"<gold>","n":1.10}`, "as it was sent, but for blanks")
	requireFetched(t, client, customer)
	require.Equal(t, []map[string]any{customer}, client.Get(t, "/customers").List(t), "a list shows no numbers")

	change := func(body string, want map[string]any) {
		t.Helper()
		s.Clock.Move(time.Second)
		changed := client.Do(t, "PATCH", path, body)
		require.Equal(t, 200, changed.Status, "%s", changed.Body)
		if maps.Copy(customer, want); want != nil {
			customer["updated_at"] = s.Clock.Now().Format("2006-01-02T15:04:05.000Z")
		}
		require.Equal(t, customer, changed.Data(t))
		requireFetched(t, client, customer)
	}
	change(`{"name":"Bay Bakery","metadata":{"plan":"<gold>","n":1.10}}`, nil)
	change(`{"metadata":{"n":1.1,"plan":"<gold>"}}`, nil)
	change(`{"name":"Bay & Co","email":null}`, map[string]any{"name": "Bay & Co", "email": nil})
	change(`{"metadata":{}}`, map[string]any{"metadata": map[string]any{}})
	change(`{"metadata":null}`, map[string]any{"metadata": nil})
	change(`{"status":"active"}`, map[string]any{"status": "active"})
	change(`{"status":"suspended"}`, map[string]any{"status": "suspended"})
	require.Equal(t, append([]string{"customer.created"}, slices.Repeat([]string{"customer.updated"}, 5)...), eventsOf(t, s, client))

	s.Clock.Move(time.Second)
	archived := client.Do(t, "DELETE", path, nil)
	require.Equal(t, 200, archived.Status)
	at := s.Clock.Now().Format("2006-01-02T15:04:05.000Z")
	customer["status"], customer["archived_at"], customer["updated_at"] = "archived", at, at
	require.Equal(t, customer, archived.Data(t))
	requireFetched(t, client, customer)
	s.Clock.Move(time.Second)
	require.Equal(t, customer, client.Do(t, "DELETE", path, nil).Data(t), "archiving again")
	require.Equal(t, []string{customer["id"].(string)}, walk(t, client, "/customers?limit=1"), "lists show archived ones")
	change(`{"status":"archived"}`, nil)
	require.Equal(t, "customer.archived", eventsOf(t, s, client)[6])
	require.Len(t, eventsOf(t, s, client), 7)
	change(`{"metadata":{"a":1},"status":"archived"}`, map[string]any{"metadata": map[string]any{"a": 1.0}})
	require.Equal(t, "customer.updated", eventsOf(t, s, client)[7])
}

// requireFetched checks that the answer with the customer's numbers otherwise equals the other answers.
func requireFetched(t *testing.T, client *apitest.Client, customer map[string]any) {
	t.Helper()
	want := maps.Clone(customer)
	want["whatsapp_accounts"] = []any{}
	answer := client.Get(t, "/customers/"+customer["id"].(string))
	require.Equal(t, 200, answer.Status)
	require.Equal(t, want, answer.Data(t))
}

func TestCustomers_PatchStatus_Archives(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	path := "/customers/" + s.Customer(t, client.Org).ID.String()
	archived := client.Do(t, "PATCH", path, `{"name":"Last words","status":"archived"}`).Data(t)
	require.Equal(t, "Last words", archived["name"])
	require.Equal(t, "archived", archived["status"])
	require.NotNil(t, archived["archived_at"])
	require.Equal(t, []string{"customer.created", "customer.updated", "customer.archived"}, eventsOf(t, s, client))

	for param, body := range map[string]string{
		"name": `{"metadata":{"a":1},"name":"Last words"}`, "email": `{"email":null}`, "status": `{"status":"active"}`,
	} {
		requireRefusal(t, refusal{409, "conflict", "customer_archived", param}, client.Do(t, "PATCH", path, body))
	}
	requireRefusal(t, faulty("status"), client.Do(t, "PATCH", path, `{"status":"pending"}`))
	delete(archived, "whatsapp_accounts")
	requireFetched(t, client, archived)
	require.Len(t, eventsOf(t, s, client), 3)
}

func TestCustomers_BadInput_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	made := s.Customer(t, client.Org)
	path := "/customers/" + made.ID.String()
	_, team := s.Org(t)
	keys := func(count int) string {
		members := make([]string, count)
		for i := range members {
			members[i] = fmt.Sprintf(`"k%d":%d`, i, i)
		}
		return `{"name":"X","metadata":{` + strings.Join(members, ",") + `}}`
	}
	kilobytes := func(bytes int) string { return `{"name":"X","metadata":{"a": "` + strings.Repeat("x", bytes-8) + `"}}` }
	for body, param := range map[string]string{
		`{"name":""}`: "name", `{"name":" \t"}`: "name", `{"name":"a\nb"}`: "name", `{"name":null}`: "name", `{"name":"` + strings.Repeat("x", 201) + `"}`: "name",
		`{"name":"X","email":""}`: "email", `{"name":"X","email":"nobody"}`: "email", `{"name":"X","email":1}`: "email",
		`{"name":"X","email":"` + strings.Repeat("x", 250) + `@a.example"}`: "email",
		`{"name":"X","metadata":[]}`:                                        "metadata", `{"name":"X","metadata":"{}"}`: "metadata",
		keys(51): "metadata", kilobytes(16<<10 + 1): "metadata", `{"name":"X","metadata":{"a":1,"a":2}}`: "metadata.a",
		`{"name":"X","id":"cus_1"}`: "id", `{"name":"X","archived_at":null}`: "archived_at",
	} {
		requireRefusal(t, faulty(param), client.Post(t, "/customers", body))
		requireRefusal(t, faulty(param), client.Do(t, "PATCH", path, body))
	}
	for body, want := range map[string]refusal{
		`{}`:                             {400, "invalid_request_error", "missing_required_field", "name"},
		`{"name":"X","status":"active"}`: faulty("status"),
		`{"name":"X","team_id":"1"}`:     faulty("team_id"),
		`{"name":"X","team_id":"` + team.String() + `"}`: {404, "not_found", "resource_not_found", "team_id"},
	} {
		requireRefusal(t, want, client.Post(t, "/customers", body))
	}
	for body, param := range map[string]string{
		`{"status":"pending"}`: "status", `{"status":"gone"}`: "status", `{"status":null}`: "status",
		`{"team_id":"` + team.String() + `"}`: "team_id",
	} {
		requireRefusal(t, faulty(param), client.Do(t, "PATCH", path, body))
	}
	require.Equal(t, []string{made.ID.String()}, walk(t, client, "/customers?limit=100"))
	require.Equal(t, []string{"customer.created"}, eventsOf(t, s, client))

	for _, body := range []string{
		keys(50), kilobytes(16 << 10), `{"name":"` + strings.Repeat("é", 200) + `","email":"a@b.example"}`,
	} {
		require.Equal(t, 201, client.Post(t, "/customers", body).Status)
		require.Equal(t, 200, client.Do(t, "PATCH", path, body).Status)
	}
}

func TestCustomers_SeveralTeams_TeamIDRequired(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	second, err := s.Orgs.CreateTeam(t.Context(), client.Org, audit.Operator(), "Second")
	require.NoError(t, err)
	missing := refusal{400, "invalid_request_error", "missing_required_field", "team_id"}
	requireRefusal(t, missing, client.Post(t, "/customers", `{"name":"Bay"}`))
	require.Equal(t, second.ID.String(), client.Post(t, "/customers", map[string]any{"name": "Bay", "team_id": second.ID}).Data(t)["team_id"])
}

func TestCustomers_IdempotencyKey_OneCustomerOneEvent(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	first := client.Post(t, "/customers", `{"name":"Bay"}`, "Idempotency-Key", "one")
	second := client.Post(t, "/customers", `{"name":"Bay"}`, "Idempotency-Key", "one")
	require.Equal(t, 201, second.Status)
	require.Equal(t, string(first.Body), string(second.Body))
	require.Equal(t, "true", second.Header.Get("Idempotent-Replayed"))
	require.Equal(t, []string{"customer.created"}, eventsOf(t, s, client))
}

func TestCustomers_PlanWithoutThem_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	made := s.Customer(t, client.Org)
	path := "/customers/" + made.ID.String()
	set := func(change orgs.Change) {
		_, err := s.Orgs.Set(t.Context(), client.Org, audit.Operator(), change)
		require.NoError(t, err)
	}
	want := refusal{402, "permission_error", "feature_not_entitled", ""}
	for _, plan := range []string{"starter", "growth"} {
		set(orgs.Change{Plan: &plan})
		requireRefusal(t, want, client.Get(t, "/customers"))
		requireRefusal(t, want, client.Get(t, "/customers?limit=0&nonsense=1"))
		requireRefusal(t, want, client.Post(t, "/customers", `{"name":"Bay"}`, "Idempotency-Key", "one"))
		requireRefusal(t, want, client.Post(t, "/customers", `nonsense`))
		requireRefusal(t, want, client.Get(t, path))
		requireRefusal(t, want, client.Get(t, "/customers/unknown"))
		requireRefusal(t, want, client.Do(t, "PATCH", path, `{"name":"Bay"}`))
		requireRefusal(t, want, client.Do(t, "DELETE", path, nil))
		require.Equal(t, 200, client.Get(t, "/labels").Status)
	}
	set(orgs.Change{Plan: new("platform")})
	require.Equal(t, []string{"customer.created"}, eventsOf(t, s, client))
	require.Equal(t, 201, client.Post(t, "/customers", `{"name":"Bay"}`, "Idempotency-Key", "one").Status, "a refusal releases the key")

	set(orgs.Change{Subscription: new(orgs.Inactive)})
	inactive := refusal{402, "permission_error", "subscription_inactive", ""}
	requireRefusal(t, inactive, client.Do(t, "DELETE", path, nil))
	require.Equal(t, 200, client.Get(t, path).Status)
}

func TestCustomers_List_FiltersAndPages(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	made := map[string]string{}
	for i, name := range []string{"Bay Bakery", "bay boats", "Other", "Straße", "50%"} {
		body := map[string]any{"name": name, "email": fmt.Sprintf("Mail%d@%s.example", i%2, []string{"bay", "x"}[i%2])}
		made[name] = client.Post(t, "/customers", body).Data(t)["id"].(string)
		s.Clock.Move(time.Millisecond)
	}
	client.Do(t, "PATCH", "/customers/"+made["bay boats"], `{"status":"suspended"}`)
	client.Do(t, "DELETE", "/customers/"+made["Other"], nil)
	for query, names := range map[string][]string{
		"":                            {"50%", "Straße", "Other", "bay boats", "Bay Bakery"},
		"status=suspended":            {"bay boats"},
		"status=archived":             {"Other"},
		"status=active":               {},
		"email=mail0@BAY.example":     {"50%", "Other", "Bay Bakery"},
		"email=mail0":                 {},
		"q=BAY":                       {"bay boats", "Bay Bakery"},
		"q=mail1":                     {"Straße", "bay boats"},
		"q=strass":                    {"Straße"},
		"q=%25":                       {},
		"q=50%25":                     {"50%"},
		"q=%F4%8F%BF%BF":              {},
		"q=bay&status=pending":        {"Bay Bakery"},
		"q=m&email=mail0@bay.example": {"50%", "Other", "Bay Bakery"},
		"email=mail0@bay.example&status=archived&q=o": {"Other"},
	} {
		want := make([]string, len(names))
		for i, name := range names {
			want[i] = made[name]
		}
		for _, limit := range []int{1, 2, 100} {
			require.Equal(t, want, walk(t, client, fmt.Sprintf("/customers?limit=%d&%s", limit, query)), query)
		}
	}
	for query, param := range map[string]string{
		"status=gone": "status", "status=": "status", "email=": "email", "q=": "q", "q=a&q=b": "q", "name=x": "name",
		"q=" + strings.Repeat("x", 201): "q", "email=" + strings.Repeat("x", 256): "email", "q=a%00b": "q", "q=%ff": "q", "email=%c3%28": "email",
	} {
		requireRefusal(t, faulty(param), client.Get(t, "/customers?"+query))
	}
	next := client.Get(t, "/customers?limit=1&q=bay").JSON(t)["next_cursor"].(string)
	tampered := refusal{400, "invalid_request_error", "invalid_cursor", "cursor"}
	requireRefusal(t, tampered, client.Get(t, "/customers?q=b&cursor="+url.QueryEscape(next)))
	requireRefusal(t, tampered, client.Get(t, "/customers?cursor="+url.QueryEscape(next)))
}
