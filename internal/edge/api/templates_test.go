package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/network"
)

// submit creates a template at the provider and returns the provider's id of it.
func submit(t *testing.T, client *apitest.Client, business, name, language, components string) string {
	t.Helper()
	made, err := client.World.Network.CreateTemplate(t.Context(), provider.BusinessAccount{ID: business, Token: network.Token()},
		provider.TemplateDraft{Name: name, Language: language, Category: "UTILITY", Components: json.RawMessage(components)})
	require.NoError(t, err)
	return made.ID
}

const plainBody = `[{"type":"BODY","text":"Good morning"}]`

func TestTemplates_ListFetchSync(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	customer := client.World.Customer(t, client.Org)
	account := connect(t, client, "100000000000091", map[string]any{"display_phone_number": "+351 21 000 0091"}, &customer.ID)
	business, number := account.BusinessAccountID, "/100000000000091"
	none := client.Get(t, number+"/templates?status=all")
	require.Equal(t, []any{200, false, nil}, []any{none.Status, none.JSON(t)["has_more"], none.JSON(t)["next_cursor"]})
	require.Equal(t, []map[string]any{}, none.List(t))

	order := submit(t, client, business, "order_update", "en_US", `[{"type":"BODY","text":"Hi {{1}}, your <order> is here.",
		"example":{"body_text":[["Ada"]]}},{"type":"BUTTONS","buttons":[{"type":"QUICK_REPLY","text":"Thanks"}]}]`)
	synced := client.Post(t, number+"/templates/sync", nil)
	require.Equal(t, 200, synced.Status)
	require.Equal(t, map[string]any{"created": 1.0, "updated": 0.0, "unchanged": 0.0, "removed": 0.0}, synced.Data(t))
	s.Clock.Move(time.Second)
	brazil := submit(t, client, business, "order_update", "pt_BR", plainBody)
	submit(t, client, business, "morning", "en_US", plainBody)
	for id, event := range map[string]string{order: "APPROVED", brazil: "PAUSED"} {
		s.Network.Control(t, "templates/"+id+"/review", map[string]any{"event": event})
	}
	require.Equal(t, map[string]any{"created": 2.0, "updated": 1.0, "unchanged": 0.0, "removed": 0.0},
		client.Post(t, number+"/templates/sync", nil).Data(t))

	approved := client.Get(t, number+"/templates").List(t)
	require.Len(t, approved, 1)
	require.Regexp(t, `^tmpl_[0-9A-HJKMNP-TV-Z]{26}$`, approved[0]["id"])
	want := map[string]any{
		"id": approved[0]["id"], "object": "template", "name": "order_update", "language": "en_US", "status": "approved", "category": "UTILITY",
		"content": "Hi {{1}}, your <order> is here.", "variables": []any{"1"},
		"components": []any{
			map[string]any{"type": "BODY", "text": "Hi {{1}}, your <order> is here.", "example": map[string]any{"body_text": []any{[]any{"Ada"}}}},
			map[string]any{"type": "BUTTONS", "buttons": []any{map[string]any{"type": "QUICK_REPLY", "text": "Thanks"}}},
		},
		"chat_account": map[string]any{
			"phone_number": "+351210000091", "phone_number_id": "100000000000091",
			"customer": map[string]any{"id": customer.ID.String(), "name": customer.Name},
		},
		"provider_template_id": order, "created_at": approved[0]["created_at"], "updated_at": s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
		"provider_status": "APPROVED", "rejection_reason": nil, "quality": approved[0]["quality"],
	}
	require.Equal(t, want, approved[0])
	require.Equal(t, want, client.Get(t, number+"/templates/order_update?language=en_US").Data(t))
	newest := client.Get(t, number+"/templates/order_update").Data(t)
	require.Equal(t, []any{"pt_BR", "rejected", "PAUSED"}, []any{newest["language"], newest["status"], newest["provider_status"]})

	names := func(query string) (found []string) {
		for _, one := range client.Get(t, number+"/templates"+query).List(t) {
			found = append(found, one["name"].(string)+" "+one["language"].(string))
		}
		return found
	}
	require.ElementsMatch(t, []string{"morning en_US", "order_update pt_BR", "order_update en_US"}, names("?status=all"))
	require.Equal(t, []string{"morning en_US"}, names("?status=pending"))
	require.Equal(t, []string{"order_update pt_BR"}, names("?status=rejected"))
	require.Equal(t, []string{"order_update en_US"}, names("?status=approved&language=en_US"))
	require.ElementsMatch(t, []string{"morning en_US", "order_update en_US"}, names("?status=all&language=en_US"))
	require.Empty(t, names("?language=de"))
	require.Equal(t, idsOf(client.Get(t, number+"/templates?status=all").List(t)), walk(t, client, number+"/templates?status=all&limit=1"))
}

// TestTemplates_NamedSync_CanBeRead: a template may be called `sync`, which is also a path.
func TestTemplates_NamedSync_CanBeRead(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	account := connect(t, client, "100000000000094", nil, nil)
	path := "/100000000000094/templates/sync"
	missing := client.Get(t, path)
	require.Equal(t, []any{404, "resource_not_found"}, []any{missing.Status, missing.Code()})
	submit(t, client, account.BusinessAccountID, "sync", "en_US", plainBody)
	require.Equal(t, 200, client.Post(t, path, nil).Status)
	require.Equal(t, "sync", client.Get(t, path).Data(t)["name"])
	for _, method := range []string{"DELETE", "PUT"} {
		refused := client.Do(t, method, path, nil)
		require.Equal(t, []any{405, "GET, HEAD, POST, PATCH"}, []any{refused.Status, refused.Header.Get("Allow")}, method)
	}
}

func TestTemplates_BadInput_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client, otherClient := s.Client(t), s.Neighbour(t)
	connect(t, client, "100000000000092", nil, nil)
	theirs := connect(t, otherClient, "100000000000093", nil, nil)
	submit(t, otherClient, theirs.BusinessAccountID, "secret_sale", "en_US", plainBody)
	require.Equal(t, 200, otherClient.Post(t, "/100000000000093/templates/sync", nil).Status)
	require.Equal(t, 200, otherClient.Get(t, "/100000000000093/templates/secret_sale").Status)

	for path, want := range map[string][]any{
		"/100000000000092/templates/secret_sale":             {404, "resource_not_found"},
		"/100000000000093/templates/secret_sale":             {404, "resource_not_found"},
		"/100000000000093/templates":                         {404, "resource_not_found"},
		"/abc/templates":                                     {404, "resource_not_found"},
		"/100000000000092/templates/%00":                     {404, "resource_not_found"},
		"/100000000000092/templates/%FF":                     {404, "resource_not_found"},
		"/100000000000092/templates/a%2Fb":                   {404, "resource_not_found"},
		"/100000000000092/templates/x?language=":             {400, "invalid_field_value"},
		"/100000000000092/templates/x?lang=en":               {400, "invalid_field_value"},
		"/100000000000092/templates?status=paused":           {400, "invalid_field_value"},
		"/100000000000092/templates?limit=0":                 {400, "invalid_limit"},
		"/100000000000092/templates?cursor=x":                {400, "invalid_cursor"},
		"/100000000000092/templates?name=x":                  {400, "invalid_field_value"},
		"/100000000000092/templates?status=all&language=a":   {400, "invalid_field_value"},
		"/100000000000092/templates?status=approved,pending": {400, "invalid_field_value"},
	} {
		refused := client.Get(t, path)
		require.Equal(t, want, []any{refused.Status, refused.Code()}, path)
	}
	require.Equal(t, 404, client.Post(t, "/100000000000093/templates/sync", nil).Status)

	sync := "/100000000000092/templates/sync"
	first := client.Post(t, sync, nil, "Idempotency-Key", "sync")
	require.Equal(t, 200, first.Status)
	again := client.Post(t, sync, nil, "Idempotency-Key", "sync")
	require.Equal(t, []any{string(first.Body), "true"}, []any{string(again.Body), again.Header.Get("Idempotent-Replayed")})
	s.Network.Twist(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	away := client.Post(t, sync, nil, "Idempotency-Key", "away")
	require.Equal(t, []any{502, "whatsapp_upstream_error"}, []any{away.Status, away.Code()})
	s.Network.Twist(nil)
	require.Equal(t, 200, client.Post(t, sync, nil, "Idempotency-Key", "away").Status, "an outage of the provider releases the key")
	s.Network.Control(t, "tokens", map[string]any{"access_token": network.Token().Reveal(), "revoke": true})
	revoked := client.Post(t, sync, nil)
	require.Equal(t, []any{422, "upstream_error"}, []any{revoked.Status, revoked.Code()})
	require.NotContains(t, string(revoked.Body), network.Token().Reveal())
}
