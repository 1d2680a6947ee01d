package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// dispatchRefusal changes what may change between the 202 of a message and its dispatch.
type dispatchRefusal struct {
	name, code string
	// body is what is sent before the change; empty is the marketing template of the fixture.
	body string
	make func(t *testing.T, f *sendFixture, contact string)
	// undo lets the API be read again; nil if it can be read.
	undo func(t *testing.T, f *sendFixture)
}

func dispatchRefusals() []dispatchRefusal {
	text := message("text", `{"body":"Hello"}`, "biz_opaque_callback_data", `"order 7"`)
	becomes := func(column, value string) func(t *testing.T, f *sendFixture, contact string) {
		return func(t *testing.T, f *sendFixture, _ string) { f.accountBecomes(t, column, value) }
	}
	restricted := func(scope string) func(t *testing.T, f *sendFixture, contact string) {
		return func(t *testing.T, f *sendFixture, _ string) { f.restrict(t, scope, f.s.Clock.Now().Add(time.Hour)) }
	}
	customer := func(method, body string) func(t *testing.T, f *sendFixture, contact string) {
		return func(t *testing.T, f *sendFixture, _ string) {
			var sent any
			if body != "" {
				sent = body
			}
			require.Equal(t, 200, f.Do(t, method, "/customers/"+f.customer.String(), sent).Status)
		}
	}
	return []dispatchRefusal{
		{
			name: "organization suspended", code: "organization_suspended", body: text,
			make: func(t *testing.T, f *sendFixture, _ string) {
				_, err := f.s.Orgs.Suspend(t.Context(), f.Org, audit.Operator())
				require.NoError(t, err)
			},
			undo: func(t *testing.T, f *sendFixture) {
				_, err := f.s.Orgs.Resume(t.Context(), f.Org, audit.Operator())
				require.NoError(t, err)
			},
		},
		{name: "subscription lapsed", code: "subscription_inactive", body: text, make: func(t *testing.T, f *sendFixture, _ string) {
			f.set(t, orgs.Change{Subscription: new(orgs.Inactive)})
		}},
		{name: "trial ended", code: "subscription_inactive", body: text, make: func(t *testing.T, f *sendFixture, _ string) {
			f.set(t, orgs.Change{Subscription: new(orgs.Trialing), TrialEndsAt: new(f.s.Clock.Now())})
		}},
		{name: "number not verified", code: "whatsapp_number_not_verified", body: text, make: becomes("provider_status", "UNVERIFIED")},
		{name: "number restricted", code: "account_restricted", body: text, make: becomes("provider_status", "RESTRICTED")},
		{name: "restriction of templates", code: "account_restricted", make: restricted("initiated")},
		{name: "restriction of replies", code: "account_restricted", body: text, make: restricted("replies")},
		{name: "disconnected by the provider", code: "upstream_error", body: text, make: becomes("status", "disconnected")},
		{name: "degraded", code: "upstream_error", body: text, make: becomes("status", "degraded")},
		{name: "customer suspended", code: "customer_suspended", body: text, make: customer("PATCH", `{"status":"suspended"}`)},
		{name: "customer archived", code: "customer_suspended", body: text, make: customer("DELETE", "")},
		{name: "opted out since", code: "marketing_opted_out", make: func(t *testing.T, f *sendFixture, contact string) {
			require.Equal(t, 200, f.Do(t, "PATCH", f.path+"/contacts/"+contact, `{"marketing":"opted_out"}`).Status)
		}},
		{name: "consent required since", code: "consent_required", make: func(t *testing.T, f *sendFixture, _ string) {
			f.set(t, orgs.Change{RequireOptIn: new(true)})
		}},
		{name: "cool-down longer than all retries", code: "account_rate_limited", body: text, make: func(t *testing.T, f *sendFixture, _ string) {
			f.exec(t, `UPDATE accounts SET cooldown_until = @until WHERE org_id = @org_id AND id = @id`,
				postgres.Args{"id": f.account.ID, "until": f.s.Clock.Now().Add(time.Hour)})
		}},
	}
}

// state is the status of a message in the database.
func (n number) state(t *testing.T, id string) string {
	t.Helper()
	var parsed messages.ID
	require.NoError(t, parsed.UnmarshalText([]byte(id)))
	status, err := postgres.One[string](t.Context(), n.s.DB.Of(n.Org),
		`SELECT status FROM message_states WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": parsed})
	require.NoError(t, err)
	return status
}

// announced is the one status in the only event about a message.
func (n number) announced(t *testing.T, id string) map[string]any {
	t.Helper()
	bodies, err := postgres.Many[[]byte](t.Context(), n.s.DB.Of(n.Org),
		`SELECT body FROM events WHERE org_id = @org_id AND type = 'message.status' AND key = @id`, postgres.Args{"id": id})
	require.NoError(t, err)
	require.Len(t, bodies, 1)
	var body struct {
		Entry []struct {
			Changes []struct {
				Value struct{ Statuses []map[string]any }
			}
		}
	}
	require.NoError(t, json.Unmarshal(bodies[0], &body), "%s", bodies[0])
	require.Len(t, body.Entry[0].Changes[0].Value.Statuses, 1)
	return body.Entry[0].Changes[0].Value.Statuses[0]
}

// TestMessages_RefusedAtDispatch_AnswerAndEvent: a message that was accepted and may not be sent any
// more fails without a call. GET shows why, and one message.status tells it.
func TestMessages_RefusedAtDispatch_AnswerAndEvent(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	type accepted struct {
		*sendFixture
		id string
	}
	all := dispatchRefusals()
	sent := make([]accepted, len(all))
	for i, test := range all {
		f := newSendFixture(t, s)
		body := test.body
		if body == "" {
			body = f.body()
		}
		data := f.mustSend(t, body)
		sent[i] = accepted{f, data["id"].(string)}
		test.make(t, f, data["contact_id"].(string))
	}
	s.Work(t)
	for i, test := range all {
		t.Run(test.name, func(t *testing.T) {
			f, id := sent[i].sendFixture, sent[i].id
			for until := time.Now().Add(3 * time.Minute); f.state(t, id) != "failed"; time.Sleep(20 * time.Millisecond) {
				require.True(t, time.Now().Before(until), "%s is %s", id, f.state(t, id))
				s.Pass(t, 20*time.Millisecond) // a lane that finds all workers busy is woken again after 50 ms
			}
			if test.undo != nil {
				test.undo(t, f)
			}
			shown := f.Get(t, f.path+"/messages/"+id).Data(t)
			reason := shown["error"].(map[string]any)
			require.Equal(t, []any{"failed", test.code, nil}, []any{shown["status"], reason["code"], reason["provider_code"]})
			require.NotEmpty(t, shown["failed_at"])
			require.NotContains(t, shown, "sent_at")
			require.NotContains(t, shown, "message_id")
			status := f.announced(t, id)
			require.Equal(t, []any{id, "failed", "351910000001"}, []any{status["id"], status["status"], status["recipient_id"]})
			require.Equal(t, shown["client_reference"], status["biz_opaque_callback_data"])
			told := status["errors"].([]any)[0].(map[string]any)
			require.Equal(t, []any{-1.0, reason["message"]}, []any{told["code"], told["message"]})
			require.Equal(t, []string{id}, listed(t, f.number, "status=failed"))
		})
	}
	require.Zero(t, s.Network.Calls("POST", "/messages"))
}

// listed are the ids of the messages of a list.
func listed(t *testing.T, n number, query string) (all []string) {
	t.Helper()
	for _, one := range n.Get(t, n.path+"/messages?"+query).List(t) {
		all = append(all, one["id"].(string))
	}
	return all
}
