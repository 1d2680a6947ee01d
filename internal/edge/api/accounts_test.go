package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/network"
)

// connect connects a number of the simulated network to the client's organization.
func connect(t *testing.T, client *apitest.Client, number string, with map[string]any, customer *customers.ID) accounts.Account {
	t.Helper()
	business := "4" + number[1:]
	client.World.Network.Number(t, business, number, with)
	account, err := client.World.Accounts.Connect(t.Context(), client.Org, audit.Operator(), accounts.Draft{
		CustomerID: customer, BusinessAccountID: business, PhoneNumberID: number, Token: network.Token(),
	})
	require.NoError(t, err)
	return account
}

const (
	rightPIN = `{"pin":"` + canary.PIN + `"}`
	wrongPIN = `{"pin":"` + canary.WrongPIN + `"}`
)

func pending(pin string) map[string]any { return map[string]any{"status": "PENDING", "pin": pin} }

func TestAccounts_List_FiltersAndPages(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	customer := client.World.Customer(t, client.Org)
	require.Equal(t, []map[string]any{}, client.Get(t, "/accounts").List(t))
	first := connect(t, client, "100000000000011", map[string]any{
		"display_phone_number": "+351 21 000 0011", "verified_name": "Harbour Coffee",
	}, nil)
	s.Clock.Move(time.Second)
	second := connect(t, client, "100000000000012", pending(""), &customer.ID)
	s.Clock.Move(time.Second)
	third := connect(t, client, "100000000000013", nil, &customer.ID)
	connect(t, s.Neighbour(t), "100000000000014", nil, nil)

	all := client.Get(t, "/accounts?status=all")
	require.Equal(t, 200, all.Status)
	require.Equal(t, []any{false, nil}, []any{all.JSON(t)["has_more"], all.JSON(t)["next_cursor"]})
	listed := all.List(t)
	require.Len(t, listed, 3)
	require.Equal(t, map[string]any{
		"id": first.ID.String(), "object": "account", "phone_number_id": "100000000000011", "phone_number": "+351210000011",
		"name": "Harbour Coffee", "status": "connected", "provider_status": "CONNECTED", "customer_id": nil, "status_reason": nil,
	}, listed[2])
	require.Equal(t, []any{"onboarding", "PENDING", "number_pending", customer.ID.String()},
		[]any{listed[1]["status"], listed[1]["provider_status"], listed[1]["status_reason"], listed[1]["customer_id"]})

	otherCustomer := s.World.Customer(t, s.Client(t).Org)
	for query, want := range map[string][]accounts.Account{
		"":                                     {third, first},
		"?status=connected":                    {third, first},
		"?status=all":                          {third, second, first},
		"?customer_id=" + customer.ID.String(): {third},
		"?status=all&customer_id=" + customer.ID.String():      {third, second},
		"?status=all&customer_id=" + otherCustomer.ID.String(): {},
		"?customer_id=cus_01M5CJXHG0G060EM3SHK18M2XJ":          {},
	} {
		ids := []string{}
		for _, account := range want {
			ids = append(ids, account.ID.String())
		}
		require.Equal(t, ids, idsOf(client.Get(t, "/accounts"+query).List(t)), query)
		join := "?"
		if query != "" {
			join = "&"
		}
		require.Equal(t, ids, walk(t, client, "/accounts"+query+join+"limit=1"), query)
	}
	for query, param := range map[string]string{
		"?status=degraded": "status", "?status=": "status", "?customer_id=x": "customer_id", "?team_id=x": "team_id",
		"?customer_id=lbl_01M5CJXHG0G060EM3SHK18M2XJ": "customer_id", "?status=all&status=all": "status",
	} {
		refused := client.Get(t, "/accounts"+query)
		require.Equal(t, []any{400, "invalid_field_value", param}, []any{refused.Status, refused.Code(), refused.Error(t)["param"]}, query)
	}
	require.Equal(t, "invalid_limit", client.Get(t, "/accounts?limit=101").Code())
	require.Equal(t, "invalid_cursor", client.Get(t, "/accounts?cursor=x").Code())
}

func idsOf(list []map[string]any) []string {
	ids := []string{}
	for _, one := range list {
		ids = append(ids, one["id"].(string))
	}
	return ids
}

func TestAccounts_Register_Answers(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	connect(t, client, "100000000000021", pending(canary.PIN), nil)
	path := "/100000000000021/register"

	wrong := client.Post(t, path, wrongPIN)
	require.Equal(t, []any{422, "whatsapp_registration_failed"}, []any{wrong.Status, wrong.Code()})
	require.Contains(t, wrong.Error(t)["message"], "PIN")
	right := client.Post(t, path, rightPIN)
	require.Equal(t, 200, right.Status)
	want := map[string]any{
		"object": "phone_number_registration", "phone_number_id": "100000000000021", "registered": true, "status": "connected",
		"provider_status": "CONNECTED",
	}
	require.Equal(t, want, right.Data(t))
	require.Equal(t, 2, s.Network.Calls(http.MethodPost, path))
	require.Equal(t, want, client.Post(t, path, `{"pin":"999999"}`).Data(t), "a connected number is not registered again")
	require.Equal(t, 2, s.Network.Calls(http.MethodPost, path), "no call")

	for body, want := range map[string][]any{
		`{}`:                            {400, "missing_required_field", "pin"},
		`{"pin":null}`:                  {400, "invalid_field_value", "pin"},
		`{"pin":123456}`:                {400, "invalid_field_value", "pin"},
		`{"pin":"12345"}`:               {400, "invalid_field_value", "pin"},
		`{"pin":"1234567"}`:             {400, "invalid_field_value", "pin"},
		`{"pin":"12345a"}`:              {400, "invalid_field_value", "pin"},
		`{"pin":"１２３４５６"}`:              {400, "invalid_field_value", "pin"},
		`{"pin":"123456","number":"1"}`: {400, "invalid_field_value", "number"},
	} {
		refused := client.Post(t, path, body)
		require.Equal(t, want, []any{refused.Status, refused.Code(), refused.Error(t)["param"]}, body)
	}
	for _, other := range []string{"/100000000000099/register", "/12345/register", "/abc/register"} {
		missing := client.Post(t, other, `{"pin":"123456"}`)
		require.Equal(t, []any{404, "resource_not_found"}, []any{missing.Status, missing.Code()}, other)
	}
	require.Equal(t, 2, s.Network.Calls(http.MethodPost, "/register"))
}

// TestAccounts_Register_ProviderErrors_Mapped makes the simulator answer each of the provider's error
// codes, by the PIN that stands for it.
func TestAccounts_Register_ProviderErrors_Mapped(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	for i, test := range []struct {
		code   string
		status int
		want   string
		stored bool
	}{
		{"133000", 422, "whatsapp_registration_failed", true},
		{"133004", 502, "whatsapp_upstream_error", false},
		{"133005", 422, "whatsapp_registration_failed", true},
		{"133006", 422, "whatsapp_number_not_verified", true},
		{"133008", 422, "whatsapp_registration_failed", true},
		{"133009", 422, "whatsapp_registration_failed", true},
		{"133010", 422, "whatsapp_registration_failed", true},
		{"133015", 422, "whatsapp_registration_failed", true},
		{"133016", 422, "whatsapp_registration_failed", true},
	} {
		number := fmt.Sprintf("1000000000001%02d", i)
		connect(t, client, number, pending(""), nil)
		path, body := "/"+number+"/register", `{"pin":"`+test.code+`"}`
		key := []string{"Idempotency-Key", "register-" + test.code}
		first := client.Post(t, path, body, key...)
		require.Equal(t, []any{test.status, test.want}, []any{first.Status, first.Code()}, test.code)
		require.NotContains(t, string(first.Body), `"`+test.code+`"`, "the PIN is not repeated")
		again := client.Post(t, path, body, key...)
		require.Equal(t, test.status, again.Status, test.code)
		if test.stored {
			require.Equal(t, string(first.Body), string(again.Body), "the refusal of the provider is the answer")
			require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
			require.Equal(t, first.Header.Get("X-Request-Id"), again.Header.Get("X-Request-Id"))
			require.Equal(t, first.Header.Get("Retry-After"), again.Header.Get("Retry-After"))
			require.Equal(t, 1, s.Network.Calls(http.MethodPost, path), test.code)
		} else {
			require.Empty(t, again.Header.Get("Idempotent-Replayed"))
			require.Equal(t, 2, s.Network.Calls(http.MethodPost, path), test.code)
		}
		account, err := client.World.Accounts.Find(t.Context(), client.Org, number)
		require.NoError(t, err)
		require.Equal(t, accounts.Onboarding, account.Status, test.code)
	}
	require.NotEmpty(t, client.Post(t, "/100000000000107/register", `{"pin":"133015"}`).Header.Get("Retry-After"))
}

func TestAccounts_Register_SixthPINInAnHour_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	connect(t, client, "100000000000031", pending(canary.PIN), nil)
	path := "/100000000000031/register"
	for i := range 5 {
		require.Equal(t, 422, client.Post(t, path, `{"pin":"00000`+string(rune('0'+i))+`"}`).Status)
		s.Clock.Move(time.Minute)
	}
	refused := client.Post(t, path, rightPIN, "Idempotency-Key", "sixth")
	require.Equal(t, []any{422, "whatsapp_registration_failed"}, []any{refused.Status, refused.Code()})
	require.Equal(t, "3300", refused.Header.Get("Retry-After"))
	require.Equal(t, 5, s.Network.Calls(http.MethodPost, path), "the sixth was not tried")
	s.Clock.Move(time.Hour) // the provider blocks for an hour after the fifth wrong PIN
	require.Equal(t, 200, client.Post(t, path, rightPIN, "Idempotency-Key", "sixth").Status, "the refusal did nothing, and released the key")
}

func TestAccounts_Register_Concurrent_OneRuns(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	connect(t, client, "100000000000041", pending(canary.PIN), nil)
	connect(t, client, "100000000000042", pending(canary.PIN), nil)
	path := "/100000000000041/register"
	arrived, leave := make(chan struct{}), make(chan struct{})
	s.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, path) {
			arrived <- struct{}{}
			<-leave
		}
		network.ServeHTTP(w, r)
	})
	answered := make(chan apitest.Answer, 1)
	go func() { answered <- client.Post(t, path, rightPIN, "Idempotency-Key", "one") }()
	<-arrived
	for _, key := range []string{"", "two"} {
		refused := client.Post(t, path, rightPIN, "Idempotency-Key", key)
		require.Equal(t, []any{409, "registration_in_progress"}, []any{refused.Status, refused.Code()})
	}
	twin := client.Post(t, path, rightPIN, "Idempotency-Key", "one")
	require.Equal(t, []any{409, "idempotency_in_progress"}, []any{twin.Status, twin.Code()})
	other := client.Post(t, path, wrongPIN, "Idempotency-Key", "one")
	require.Equal(t, []any{422, "idempotency_key_reuse"}, []any{other.Status, other.Code()})
	label := client.Post(t, "/labels", `{"name":"VIP"}`, "Idempotency-Key", "one")
	require.Equal(t, []any{422, "idempotency_key_reuse"}, []any{label.Status, label.Code()}, "the key is taken for everything else too")
	require.Equal(t, 200, client.Post(t, "/100000000000042/register", rightPIN).Status, "another number is free")
	close(leave)
	first := <-answered
	require.Equal(t, 200, first.Status)
	again := client.Post(t, path, rightPIN, "Idempotency-Key", "one")
	require.Equal(t, string(first.Body), string(again.Body))
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Equal(t, 1, s.Network.Calls(http.MethodPost, path))
}

// TestAccounts_Register_AnswerLost_NoSecondPIN cuts off the answer of a registration that succeeded.
// A request with the same Idempotency-Key, or with another, learns that from the provider and sends no
// second PIN.
func TestAccounts_Register_AnswerLost_NoSecondPIN(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	for name, test := range map[string]struct {
		number string
		reach  bool
		key    string
		calls  int
	}{
		"executed, same key":  {"100000000000051", true, "first", 1},
		"executed, other key": {"100000000000052", true, "second", 1},
		"executed, no key":    {"100000000000053", true, "", 1},
		"lost on the way":     {"100000000000054", false, "first", 2},
	} {
		connect(t, client, test.number, pending(canary.PIN), nil)
		path, broken := "/"+test.number+"/register", false
		s.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, path) && !broken {
				broken = true
				if test.reach {
					network.ServeHTTP(discard{header: http.Header{}}, r)
				}
				panic(http.ErrAbortHandler)
			}
			network.ServeHTTP(w, r)
		})
		first := client.Post(t, path, rightPIN, "Idempotency-Key", "first-"+test.number)
		require.Equal(t, []any{502, "whatsapp_upstream_error"}, []any{first.Status, first.Code()}, name)
		header := []string{}
		if test.key != "" {
			header = []string{"Idempotency-Key", test.key + "-" + test.number}
		}
		again := client.Post(t, path, rightPIN, header...)
		require.Equal(t, 200, again.Status, "%s: %s", name, again.Body)
		require.Equal(t, "CONNECTED", again.Data(t)["provider_status"])
		require.Equal(t, test.calls, s.Network.Calls(http.MethodPost, path), name)
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (d discard) Write(text []byte) (int, error) { return len(text), nil }
func (d discard) WriteHeader(int)                {}

func TestAccounts_Disconnect_Answers(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	customer, other := client.World.Customer(t, client.Org).ID, client.World.Customer(t, client.Org).ID
	connect(t, client, "100000000000061", nil, &customer)
	direct := connect(t, client, "100000000000062", nil, nil)
	kept := connect(t, client, "100000000000063", nil, &customer)
	fetched := client.Get(t, "/customers/"+customer.String()).Data(t)["whatsapp_accounts"].([]any)
	require.Len(t, fetched, 2)
	require.Equal(t, map[string]any{
		"id": kept.ID.String(), "phone_number_id": "100000000000063", "phone_number": *kept.PhoneNumber, "name": *kept.Name,
		"status": "connected", "provider_status": "CONNECTED",
	}, fetched[0])
	require.NotContains(t, client.Get(t, "/customers").List(t)[0], "whatsapp_accounts")

	of := func(customer customers.ID, number string) string {
		return "/customers/" + customer.String() + "/whatsapp_accounts/" + number
	}
	for _, path := range []string{
		of(other, "100000000000061"), of(customer, *direct.PhoneNumberID), of(customer, "100000000000099"), of(customer, "abc"),
		"/customers/x/whatsapp_accounts/100000000000061",
	} {
		missing := client.Do(t, http.MethodDelete, path, nil)
		require.Equal(t, []any{404, "resource_not_found"}, []any{missing.Status, missing.Code()}, path)
	}
	gone := client.Do(t, http.MethodDelete, of(customer, "100000000000061"), nil)
	require.Equal(t, 200, gone.Status)
	require.Equal(t, map[string]any{"phone_number_id": "100000000000061", "object": "whatsapp_account", "disconnected": true}, gone.Data(t))
	again := client.Do(t, http.MethodDelete, of(customer, "100000000000061"), nil)
	require.Equal(t, []any{404, "resource_not_found"}, []any{again.Status, again.Code()})
	require.Equal(t, 404, client.Post(t, "/100000000000061/register", rightPIN).Status)
	require.Equal(t, []string{kept.ID.String(), direct.ID.String()}, idsOf(client.Get(t, "/accounts?status=all").List(t)))
	require.Len(t, client.Get(t, "/customers/"+customer.String()).Data(t)["whatsapp_accounts"], 1)
	require.Equal(t, []any{}, client.Get(t, "/customers/"+other.String()).Data(t)["whatsapp_accounts"])
}

func TestSubscriptions_PhoneNumberIDs_MustBeOwn(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, otherClient := s.Client(t), s.Neighbour(t)
	client.World.Attach(t, client.Org, "100000000000071", nil)
	otherClient.World.Attach(t, otherClient.Org, "100000000000072", nil)
	url := `{"url":"https://example.com/hook","events":["message.sent"],"phone_number_ids":`
	made := client.Post(t, subscriptions, url+`["100000000000071"]}`)
	require.Equal(t, 201, made.Status)
	path := subscriptions + "/" + made.Data(t)["id"].(string)
	for _, unknown := range []string{"100000000000072", "100000000000079"} {
		for _, refused := range []apitest.Answer{
			client.Post(t, subscriptions, url+`["100000000000071","`+unknown+`"]}`),
			client.Do(t, http.MethodPatch, path, `{"phone_number_ids":["100000000000071","`+unknown+`"]}`),
		} {
			require.Equal(t, []any{400, "invalid_field_value", "phone_number_ids[1]"},
				[]any{refused.Status, refused.Code(), refused.Error(t)["param"]})
		}
	}
	_, err := client.World.Accounts.Disconnect(t.Context(), client.Org, audit.Operator(), "100000000000071", nil)
	require.NoError(t, err)
	require.Equal(t, []any{"100000000000071"}, client.Get(t, path).Data(t)["phone_number_ids"], "the filter stays when its number is disconnected")
	require.Equal(t, 400, client.Post(t, subscriptions, url+`["100000000000071"]}`).Status)
	require.Equal(t, 200, client.Do(t, http.MethodPatch, path, `{"description":"still mine"}`).Status)
}
