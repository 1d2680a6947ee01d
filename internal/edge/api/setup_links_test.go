package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func TestSetupLinks_CreateReadUpdateRevoke(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	customer := client.World.Customer(t, client.Org).ID.String()
	path := "/customers/" + customer + "/setup_links"

	created := client.Post(t, path, `{"success_redirect_url":"https://platform.example/connected","failure_redirect_url":null}`)
	require.Equal(t, 201, created.Status, "%s", created.Body)
	link := created.Data(t)
	setupURL := link["setup_url"].(string)
	require.Regexp(t, `^`+factory.PublicURL+`/setup/[A-Za-z0-9_-]{43}$`, setupURL)
	require.Equal(t, "/v1"+path+"/"+link["id"].(string), created.Header.Get("Location"))
	delete(link, "setup_url")
	require.Equal(t, map[string]any{
		"id": link["id"], "object": "customer_setup_link", "customer_id": customer, "status": "active",
		"token_last4": setupURL[len(setupURL)-4:], "expires_at": "2026-03-21T09:26:53.589Z", "consumed_at": nil,
		"success_redirect_url": "https://platform.example/connected", "failure_redirect_url": nil, "created_at": "2026-03-14T09:26:53.589Z",
	}, link)
	item := path + "/" + link["id"].(string)
	require.Equal(t, link, client.Get(t, item).Data(t), "the URL is shown once")
	require.Equal(t, []string{"customer.created", "customer.setup_link.created"}, eventsOf(t, s, client))

	changed := client.Do(t, "PATCH", item, `{"success_redirect_url":null,"failure_redirect_url":"http://localhost:3000/x"}`)
	require.Equal(t, 200, changed.Status, "%s", changed.Body)
	link["success_redirect_url"], link["failure_redirect_url"] = nil, "http://localhost:3000/x"
	require.Equal(t, link, changed.Data(t))
	revoked := client.Do(t, "DELETE", item, nil)
	require.Equal(t, 200, revoked.Status)
	link["status"] = "revoked"
	require.Equal(t, link, revoked.Data(t))
	requireRefused(t, client.Do(t, "DELETE", item, nil), 409, "setup_link_inactive", "")
	requireRefused(t, client.Do(t, "PATCH", item, `{"success_redirect_url":null}`), 409, "setup_link_inactive", "")

	second := client.Post(t, path, ``)
	require.Equal(t, 201, second.Status, "the body may be left out: %s", second.Body)
	expiring := client.Post(t, path, `{"expires_at":"2026-03-14T10:26:53.589Z"}`)
	require.Equal(t, 201, expiring.Status)
	s.Clock.Move(time.Hour)
	listed := client.Get(t, path+"?limit=2")
	require.Equal(t, 200, listed.Status)
	require.Equal(t, []string{"expired", "active"}, statuses(listed.List(t)))
	require.Equal(t, []string{"customer.created", "customer.setup_link.created", "customer.setup_link.created", "customer.setup_link.created"},
		eventsOf(t, s, client), "neither revoking nor expiring is announced")
}

func statuses(list []map[string]any) (all []string) {
	for _, one := range list {
		all = append(all, one["status"].(string))
	}
	return all
}

func TestSetupLinks_BadBody_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	path := "/customers/" + client.World.Customer(t, client.Org).ID.String() + "/setup_links"
	for body, param := range map[string]string{
		`{"success_redirect_url":"http://platform.example"}`:                             "success_redirect_url",
		`{"failure_redirect_url":"javascript:alert(1)"}`:                                 "failure_redirect_url",
		`{"failure_redirect_url":"https://a.example/` + strings.Repeat("x", 2048) + `"}`: "failure_redirect_url",
		`{"expires_at":"2026-03-14T09:26:53.589Z"}`:                                      "expires_at",
		`{"expires_at":"2026-04-13T09:26:53.590Z"}`:                                      "expires_at",
		`{"expires_at":"tomorrow"}`:                                                      "expires_at",
		`{"url":"https://a.example"}`:                                                    "url",
	} {
		requireRefused(t, client.Post(t, path, body), 400, "invalid_field_value", param)
	}
	requireRefused(t, client.Post(t, "/customers/cus_01M5CJXHG0G060EM3SHK18M2XJ/setup_links", `{}`), 404, "resource_not_found", "")
	requireRefused(t, client.Get(t, "/customers/cus_01M5CJXHG0G060EM3SHK18M2XJ/setup_links"), 404, "resource_not_found", "")
}

// TestSetupLinks_Repeated_SameURL: a repeated request gets the same link, also its URL.
func TestSetupLinks_Repeated_SameURL(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	path := "/customers/" + client.World.Customer(t, client.Org).ID.String() + "/setup_links"
	first := client.Post(t, path, `{}`, "Idempotency-Key", "once")
	require.Equal(t, 201, first.Status)
	again := client.Post(t, path, `{}`, "Idempotency-Key", "once")
	require.Equal(t, first.Body, again.Body)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Len(t, client.Get(t, path).List(t), 1)
}

func requireRefused(t *testing.T, answer apitest.Answer, status int, code, param string) {
	t.Helper()
	require.Equal(t, status, answer.Status, "%s", answer.Body)
	require.Equal(t, code, answer.Error(t)["code"])
	if param != "" {
		require.Equal(t, param, answer.Error(t)["param"])
	}
}
