package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// sendFixture is a number of a customer, a marketing template with an image, and a contact that never
// wrote.
type sendFixture struct {
	number

	customer customers.ID
	// template and image are what the next send uses.
	template, image string
}

const promoTemplate = `[{"type":"HEADER","format":"IMAGE"},{"type":"BODY","text":"Summer sale"}]`

func newSendFixture(t *testing.T, s *apitest.Server) *sendFixture {
	t.Helper()
	client := s.Client(t)
	customer := s.Customer(t, client.Org).ID
	account := s.AccountOf(t, client.Org, &customer)
	f := &sendFixture{
		number: number{Client: client, s: s, account: account, path: "/" + *account.PhoneNumberID}, customer: customer,
		template: "promo", image: `{"link":"https://harbour.example/a.jpg"}`,
	}
	f.number.template(t, "promo", "MARKETING", promoTemplate)
	return f
}

func (f *sendFixture) body() string {
	return message("template", fmt.Sprintf(
		`{"name":%q,"language":"en_US","components":[{"type":"header","parameters":[{"type":"image","image":%s}]}]}`, f.template, f.image))
}

// accountBecomes changes a column of the number's account.
func (n number) accountBecomes(t *testing.T, column, value string) {
	t.Helper()
	n.exec(t, `UPDATE accounts SET `+column+` = @value WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": n.account.ID, "value": value})
}

// restrict opens a restriction of a scope until a time.
func (n number) restrict(t *testing.T, scope string, until time.Time) {
	t.Helper()
	n.exec(t, `
UPDATE accounts
SET notices = notices || jsonb_build_object('restriction:' || @scope, jsonb_build_object('word', @until::text, 'at', @at::text))
WHERE org_id = @org_id AND id = @id`, postgres.Args{
		"id": n.account.ID, "scope": scope, "until": until.Format(time.RFC3339), "at": n.s.Clock.Now().Format(time.RFC3339),
	})
}

func (n number) set(t *testing.T, change orgs.Change) {
	t.Helper()
	_, err := n.s.Orgs.Set(t.Context(), n.Org, audit.Operator(), change)
	require.NoError(t, err)
}

// useUpQuota makes the month's count reach the limit of the plan.
func (n number) useUpQuota(t *testing.T, left int) {
	t.Helper()
	now := n.s.Clock.Now()
	n.exec(t, `
INSERT INTO quota_usage (org_id, month, used, due_at)
SELECT @org_id, @month, p.messages_per_month - @free::bigint, @due
FROM plans p JOIN organizations o ON o.plan = p.name
WHERE o.org_id = @org_id`, postgres.Args{
		"month": time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC), "free": left, "due": now.Add(24 * time.Hour),
	})
}

// sendRefusal is a state in which a send of the fixture is refused.
type sendRefusal struct {
	name string
	want refusal
	make func(t *testing.T, f *sendFixture)
}

func unprocessable(code string) refusal { return refusal{422, "invalid_request_error", code, ""} }

// sendRefusals are in the order in which they are checked. Each can be combined with each.
func sendRefusals() []sendRefusal {
	return []sendRefusal{
		{"organization suspended", refusal{403, "permission_error", "organization_suspended", ""}, func(t *testing.T, f *sendFixture) {
			_, err := f.s.Orgs.Suspend(t.Context(), f.Org, audit.Operator())
			require.NoError(t, err)
		}},
		{"subscription inactive", refusal{402, "permission_error", "subscription_inactive", ""}, func(t *testing.T, f *sendFixture) {
			f.set(t, orgs.Change{Subscription: new(orgs.Inactive)})
		}},
		{"number not verified", unprocessable("whatsapp_number_not_verified"), func(t *testing.T, f *sendFixture) {
			f.accountBecomes(t, "provider_status", "PENDING")
		}},
		{"account restricted", unprocessable("account_restricted"), func(t *testing.T, f *sendFixture) {
			f.restrict(t, "initiated", f.s.Clock.Now().Add(time.Hour))
		}},
		{"account disconnected", unprocessable("upstream_error"), func(t *testing.T, f *sendFixture) {
			f.accountBecomes(t, "status", "disconnected")
		}},
		{"customer suspended", unprocessable("customer_suspended"), func(t *testing.T, f *sendFixture) {
			require.Equal(t, 200, f.Do(t, "PATCH", "/customers/"+f.customer.String(), `{"status":"suspended"}`).Status)
		}},
		{"unknown template", refusal{400, "invalid_request_error", "invalid_template_name", "template.name"}, func(_ *testing.T, f *sendFixture) {
			f.template = "unknown"
		}},
		{
			"unknown media",
			refusal{422, "invalid_request_error", "media_not_found", "template.components[0].parameters[0].image.id"},
			func(_ *testing.T, f *sendFixture) { f.image = `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPM"}` },
		},
		{"quota used up", refusal{402, "permission_error", "quota_exceeded", ""}, func(t *testing.T, f *sendFixture) { f.useUpQuota(t, 0) }},
		{"no consent", unprocessable("consent_required"), func(t *testing.T, f *sendFixture) {
			f.set(t, orgs.Change{RequireOptIn: new(true)})
		}},
		{"opted out", unprocessable("marketing_opted_out"), func(t *testing.T, f *sendFixture) {
			require.Equal(t, 201, f.Post(t, f.path+"/contacts", `{"phone_number":"+351910000001","marketing":"opted_out"}`).Status)
		}},
	}
}

// TestMessages_Refusals_EachAndEachPair: of two reasons the first in the order is answered. A refused
// send leaves nothing behind.
func TestMessages_Refusals_EachAndEachPair(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	accepted := newSendFixture(t, s)
	accepted.mustSend(t, accepted.body())
	all := sendRefusals()
	for i, first := range all {
		for j, second := range all[i:] {
			name := first.name
			if j > 0 {
				name += " and " + second.name
			}
			t.Run(name, func(t *testing.T) {
				f := newSendFixture(t, s)
				if j > 0 {
					second.make(t, f) // the first may close the API
				}
				first.make(t, f)
				before := f.stored(t)
				requireRefusal(t, first.want, f.send(t, f.body()))
				requireRefusal(t, first.want, f.send(t, f.body(), "Idempotency-Key", "k"))
				require.Equal(t, before, f.stored(t))
			})
		}
	}
}

func TestMessages_Refusals_StatesOfTheNumber(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	for _, test := range []struct{ column, value, code string }{
		{"provider_status", "PENDING", "whatsapp_number_not_verified"},
		{"provider_status", "UNVERIFIED", "whatsapp_number_not_verified"},
		{"provider_status", "RESTRICTED", "account_restricted"},
		{"status", "disconnected", "upstream_error"},
		{"status", "degraded", "upstream_error"},
		{"status", "onboarding", "upstream_error"},
	} {
		t.Run(test.value, func(t *testing.T) {
			n := numberOf(t, s)
			n.accountBecomes(t, test.column, test.value)
			for _, one := range contents() {
				requireRefusal(t, unprocessable(test.code), n.send(t, message(one[0], one[1])))
			}
			requireRefusal(t, unprocessable(test.code), n.send(t, `{"status":"read","message_id":"pmid.1"}`))
			require.Equal(t, []int{0, 0, 0, 0, 0, 0}, n.stored(t))
			require.Equal(t, 200, n.Get(t, n.path+"/messages").Status, "reading needs no connected number")
		})
	}
}

func TestMessages_Refusals_RestrictionsByKind(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	templates := map[string]string{"promo": "MARKETING", "order": "UTILITY", "code": "AUTHENTICATION", "unsynced": ""}
	for scope, refused := range map[string]string{
		"initiated": "promo order code unsynced", "replies": "text", "utility": "order",
	} {
		t.Run(scope, func(t *testing.T) {
			n := numberOf(t, s)
			for name, category := range templates {
				n.template(t, name, category, plainBody)
			}
			n.restrict(t, scope, n.s.Clock.Now().Add(time.Hour))
			bodies := map[string]string{"text": message("text", `{"body":"Hello"}`)}
			for name := range templates {
				bodies[name] = message("template", `{"name":"`+name+`","language":"en_US"}`)
			}
			for name, body := range bodies {
				if slices.Contains(strings.Fields(refused), name) {
					requireRefusal(t, unprocessable("account_restricted"), n.send(t, body))
				} else {
					require.Equal(t, 202, n.send(t, body).Status, name)
				}
			}
			n.s.Clock.Move(time.Hour)
			for name, body := range bodies {
				require.Equal(t, 202, n.send(t, body).Status, "%s after the end of the restriction", name)
			}
		})
	}
}

func TestMessages_Refusals_Customer(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	f := newSendFixture(t, s)
	text := message("text", `{"body":"Hello"}`)
	path := "/customers/" + f.customer.String()
	f.mustSend(t, text) // the customer is pending
	require.Equal(t, 200, f.Do(t, "PATCH", path, `{"status":"suspended"}`).Status)
	requireRefusal(t, unprocessable("customer_suspended"), f.send(t, text, "Idempotency-Key", "k"))
	require.Equal(t, 200, f.Do(t, "PATCH", path, `{"status":"active"}`).Status)
	f.mustSend(t, text, "Idempotency-Key", "k") // a refusal releases the key
	require.Equal(t, 200, f.Do(t, "DELETE", path, nil).Status)
	requireRefusal(t, unprocessable("customer_suspended"), f.send(t, text))
}

func TestMessages_Refusals_Templates(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.template(t, "order_ready", "UTILITY", orderTemplate)
	other := numberOf(t, n.s)
	other.template(t, "theirs", "UTILITY", plainBody)
	unknown := refusal{400, "invalid_request_error", "invalid_template_name", "template.name"}
	missing := func(param string) refusal {
		return refusal{400, "invalid_request_error", "missing_required_field", param}
	}
	one := `{"type":"text","text":"1042"}`
	for _, test := range []struct {
		name, content string
		want          refusal
	}{
		{"unknown name", `{"name":"nothing","language":"en_US"}`, unknown},
		{"other language", `{"name":"order_ready","language":"pt_PT"}`, unknown},
		{"template of another number", `{"name":"theirs","language":"en_US"}`, unknown},
		{"no components", `{"name":"order_ready","language":"en_US"}`, missing("template.components")},
		{"no parameters", `{"name":"order_ready","language":"en_US","components":[{"type":"body"}]}`, missing("template.components[0].parameters")},
		{
			"two parameters", `{"name":"order_ready","language":"en_US","components":[{"type":"body","parameters":[` + one + `,` + one + `]}]}`,
			faulty("template.components[0].parameters"),
		},
		{"no name", `{"language":"en_US"}`, missing("template.name")},
		{"no language", `{"name":"order_ready"}`, missing("template.language")},
	} {
		t.Run(test.name, func(t *testing.T) { requireRefusal(t, test.want, n.send(t, message("template", test.content))) })
	}
	require.Equal(t, []int{0, 0, 0, 0, 0, 0}, n.stored(t))
	sent := n.mustSend(t, message("template",
		`{"name":" order_ready ","language":"en_US","components":[{"type":"body","parameters":[`+one+`]}]}`))
	require.Equal(t, "order_ready", sent["template"].(map[string]any)["name"], "without the blanks around it")
	n.exec(t, `UPDATE templates SET status = 'rejected', provider_status = 'REJECTED' WHERE org_id = @org_id AND name = 'order_ready'`, nil)
	n.mustSend(t, message("template", `{"name":"order_ready","language":"en_US","components":[{"type":"body","parameters":[`+one+`]}]}`))
}

func TestMessages_Refusals_LibraryMedia(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	unknown := "med_01M6GZZ6GNTM9XW2PD78P3QHPM"
	malformed := []string{
		"1234567890", "", "med_", "med_1", "med_01M6GZZ6GNTM9XW2PD78P3QHP", "med_01M6GZZ6GNTM9XW2PD78P3QHPMM", "med_01m6gzz6gntm9xw2pd78p3qhpm",
		"lbl_01M6GZZ6GNTM9XW2PD78P3QHPM", " " + unknown, "med_01M6GZZ6GNTM9XW2PD78P3QHPU", "med_81M6GZZ6GNTM9XW2PD78P3QHPM",
	}
	interactive := func(id string) string {
		return message("interactive", `{"type":"button","header":{"type":"image","image":{"id":"`+id+`"}},"body":{"text":"a"},
			"action":{"buttons":[{"type":"reply","reply":{"id":"y","title":"Yes"}}]}}`)
	}
	bodies := map[string]func(id string) string{"interactive.header.image.id": interactive}
	for _, kind := range []string{"image", "document", "video", "audio"} {
		bodies[kind+".id"] = func(id string) string { return message(kind, `{"id":"`+id+`"}`) }
	}
	for param, body := range bodies {
		requireRefusal(t, refusal{422, "invalid_request_error", "media_not_found", param}, n.send(t, body(unknown)))
		for _, id := range malformed {
			requireRefusal(t, faulty(param), n.send(t, body(id)))
			require.Contains(t, n.validate(t, body(id)).places(), place{"invalid_field_value", param}, id)
			require.NotContains(t, n.validate(t, body(id)).places(), place{"media_not_found", param}, id)
		}
	}
	require.Equal(t, []int{0, 0, 0, 0, 0, 0}, n.stored(t))
}

func TestMessages_Refusals_QuotaToTheLastMessage(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.useUpQuota(t, 2)
	text := message("text", `{"body":"Hello"}`)
	n.mustSend(t, text)
	requireRefusal(t, refusal{422, "invalid_request_error", "media_not_found", "image.id"}, n.send(t, message("image", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPM"}`)))
	n.mustSend(t, text, "Idempotency-Key", "k")
	exceeded := refusal{402, "permission_error", "quota_exceeded", ""}
	requireRefusal(t, exceeded, n.send(t, text))
	require.Equal(t, 202, n.send(t, text, "Idempotency-Key", "k").Status, "a replay spends nothing")
	n.s.Clock.Move(31 * 24 * time.Hour)
	n.mustSend(t, text)
}

// TestMessages_Refusals_RefusedSendGivesQuotaBack: consent and opt-out are checked after the quota.
func TestMessages_Refusals_RefusedSendGivesQuotaBack(t *testing.T) {
	t.Parallel()
	f := newSendFixture(t, apitest.New(t))
	f.useUpQuota(t, 1)
	f.set(t, orgs.Change{RequireOptIn: new(true)})
	for range 3 {
		requireRefusal(t, unprocessable("consent_required"), f.send(t, f.body()))
	}
	f.mustSend(t, message("text", `{"body":"Hello"}`))
	requireRefusal(t, refusal{402, "permission_error", "quota_exceeded", ""}, f.send(t, message("text", `{"body":"Hello"}`)))
}

func TestMessages_Refusals_ConsentAndOptOut(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	for name, category := range map[string]string{"promo": "MARKETING", "order": "UTILITY", "code": "AUTHENTICATION", "unsynced": ""} {
		n.template(t, name, category, plainBody)
	}
	contact := func(phone, marketing string) {
		body := map[string]any{"phone_number": phone}
		if marketing != "" {
			body["marketing"] = marketing
		}
		require.Equal(t, 201, n.Post(t, n.path+"/contacts", body).Status)
	}
	contact("+351910000011", "opted_in")
	contact("+351910000012", "opted_out")
	contact("+351910000013", "")
	wrote := *n.s.Conversation(t, n.Org, n.account).ContactNumber
	unknown := "+351910000014"
	send := func(template, to string) apitest.Answer {
		return n.send(t, message("template", `{"name":"`+template+`","language":"en_US"}`, "to", `"`+to+`"`))
	}
	check := func(to, code string) {
		t.Helper()
		for _, template := range []string{"promo", "unsynced"} {
			if code == "" {
				require.Equal(t, 202, send(template, to).Status, "%s to %s", template, to)
			} else {
				requireRefusal(t, unprocessable(code), send(template, to))
			}
		}
		for _, template := range []string{"order", "code"} {
			require.Equal(t, 202, send(template, to).Status, "%s to %s", template, to)
		}
		n.mustSend(t, message("text", `{"body":"Hello"}`, "to", `"`+to+`"`))
	}
	check("+351910000011", "")
	check("+351910000012", "marketing_opted_out")
	check("+351910000013", "")
	check(wrote, "")
	check(unknown, "")
	n.set(t, orgs.Change{RequireOptIn: new(true)})
	check("+351910000011", "")
	check("+351910000012", "consent_required")
	check("+351910000013", "consent_required")
	check(wrote, "")
	check(unknown, "consent_required")
}
