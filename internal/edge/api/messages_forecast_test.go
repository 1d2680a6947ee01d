package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/network"
	"github.com/parley-chat/parley/openapi"
)

// foretold is a state in which a send fails with a code that validate predicts.
type foretold struct {
	code        fault.Code
	when, param string
	// make brings the state about and returns the body.
	make func(t *testing.T, f *sendFixture) string
	// later says that the send is accepted and its message fails.
	later bool
}

// allForetold has the refusals of sends, and then what messages fail with.
func allForetold() (all []foretold) {
	for _, one := range sendRefusals() {
		if one.want.code == string(fault.OrganizationSuspended) {
			continue // refuses validate, too
		}
		all = append(all, foretold{code: fault.Code(one.want.code), when: one.name, param: one.want.param, make: func(t *testing.T, f *sendFixture) string {
			one.make(t, f)
			return f.body()
		}})
	}
	body := func(body string) func(*testing.T, *sendFixture) string {
		return func(*testing.T, *sendFixture) string { return body }
	}
	text := `{"body":"Hello"}`
	return append(all, []foretold{
		{code: fault.InvalidPhoneNumber, when: "`to` is no number in E.164", param: "to", make: body(message("text", text, "to", `"12"`))},
		{code: fault.MissingRequiredField, when: "a field is missing", param: "text.body", make: body(message("text", `{}`))},
		{code: fault.MissingRequiredField, when: "there is no recipient", param: "to", make: body(message("text", text, "to", ""))},
		{code: fault.InvalidFieldValue, when: "a field has a wrong value", param: "text.body", make: body(message("text", `{"body":""}`))},
		{code: fault.InvalidFieldValue, when: "a field is not known", param: "txt", make: body(message("text", text, "txt", `{}`))},
		{code: provider.OutsideWindow, when: "the contact never wrote", make: body(message("text", text)), later: true},
		{
			code: provider.OutsideWindow, when: "the contact wrote 24 hours ago", later: true,
			make: func(t *testing.T, f *sendFixture) string {
				to := f.wrote(t)
				f.s.Clock.Move(24 * time.Hour)
				return message("text", text, "to", to)
			},
		},
		{
			code: provider.AccountRateLimited, when: "the number is in a long cool-down", later: true,
			make: func(t *testing.T, f *sendFixture) string {
				f.exec(t, `UPDATE accounts SET cooldown_until = @until WHERE org_id = @org_id AND id = @id`,
					postgres.Args{"id": f.account.ID, "until": f.s.Clock.Now().Add(time.Hour)})
				return f.body()
			},
		},
		{
			code: provider.Undeliverable, when: "the number sends to itself", param: "to", later: true,
			make: func(_ *testing.T, f *sendFixture) string {
				return message("text", text, "to", `"`+*f.account.PhoneNumber+`"`)
			},
		},
		{
			code: provider.UnsupportedMessageType, when: "an authentication template goes to a BSUID without a known number", param: "recipient",
			later: true, make: func(t *testing.T, f *sendFixture) string {
				f.review(t, "AUTHENTICATION", "APPROVED")
				return message("template", `{"name":"reviewed","language":"en_US","components":[
					{"type":"body","parameters":[{"type":"text","text":"1234"}]},
					{"type":"button","sub_type":"url","index":"0","parameters":[{"type":"text","text":"1234"}]}]}`,
					"to", "", "recipient", `"`+f.bsuid(t)+`"`)
			},
		},
		{
			code: provider.MediaUploadFailed, when: "a voice note is no OGG file", param: "audio.voice", later: true,
			make: func(t *testing.T, f *sendFixture) string {
				id := uploadFile(t, f.Client, "a.mp3", mp3).Data(t)["id"].(string)
				return message("audio", `{"id":"`+id+`","voice":true}`, "to", f.wrote(t))
			},
		},
		{code: provider.TemplateNotFound, when: "the template is pending", param: "template.name", make: reviewed("PENDING"), later: true},
		{code: provider.TemplateNotFound, when: "the template is rejected", param: "template.name", make: reviewed("REJECTED"), later: true},
		{code: provider.TemplatePaused, when: "the template is paused", param: "template.name", make: reviewed("PAUSED"), later: true},
		{code: provider.TemplatePaused, when: "the template is disabled", param: "template.name", make: reviewed("DISABLED"), later: true},
	}...)
}

// reviewed sends a template that the provider gave a status.
func reviewed(status string) func(t *testing.T, f *sendFixture) string {
	return func(t *testing.T, f *sendFixture) string {
		f.review(t, "UTILITY", status)
		return message("template", `{"name":"reviewed","language":"en_US"}`)
	}
}

// review makes the template `reviewed` at the provider, gives it a status, and syncs it.
func (f *sendFixture) review(t *testing.T, category, status string) {
	t.Helper()
	components := plainBody
	if category == "AUTHENTICATION" {
		components = `[{"type":"BODY"},{"type":"BUTTONS","buttons":[{"type":"OTP","otp_type":"COPY_CODE"}]}]`
	}
	made, err := f.s.Network.CreateTemplate(t.Context(), provider.BusinessAccount{ID: f.account.BusinessAccountID, Token: network.Token()},
		provider.TemplateDraft{Name: "reviewed", Language: "en_US", Category: category, Components: json.RawMessage(components)})
	require.NoError(t, err)
	f.s.Network.Control(t, "templates/"+made.ID+"/review", map[string]any{"event": status})
	require.Equal(t, 200, f.Post(t, f.path+"/templates/sync", nil).Status)
}

// wrote is the number of a contact that has just written, as it is in a body.
func (f *sendFixture) wrote(t *testing.T) string {
	t.Helper()
	return `"` + *f.s.Conversation(t, f.Org, f.account).ContactNumber + `"`
}

// bsuid is that of a user of the network.
func (f *sendFixture) bsuid(t *testing.T) string {
	t.Helper()
	user := f.s.Network.Control(t, "users", map[string]any{"phone": "351910000001"})
	return user["user_ids"].(map[string]any)[f.account.BusinessAccountID].(string)
}

// refusedAlike brings a state about in which every request is refused before its message is looked at.
// It sends a body to a path.
func refusedAlike() map[fault.Code]func(t *testing.T, f *sendFixture, path string) apitest.Answer {
	text := message("text", `{"body":"Hello"}`)
	set := func(change orgs.Change) func(t *testing.T, f *sendFixture, path string) apitest.Answer {
		return func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			f.set(t, change)
			return f.Post(t, path, text)
		}
	}
	with := func(name, value string) func(t *testing.T, f *sendFixture, path string) apitest.Answer {
		return func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			return f.Post(t, path, text, name, value)
		}
	}
	return map[fault.Code]func(t *testing.T, f *sendFixture, path string) apitest.Answer{
		fault.MissingAPIKey: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			return f.s.Anonymous().Post(t, path, text)
		},
		fault.InvalidAPIKey: with("Authorization", "Bearer svc_live_"+strings.Repeat("A", 24)),
		fault.RevokedAPIKey: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			id, key := f.s.Key(t, f.Org)
			_, err := f.s.Keys.Revoke(t.Context(), f.Org, audit.Operator(), id)
			require.NoError(t, err)
			return f.WithKey(key).Post(t, path, text)
		},
		fault.ExpiredAPIKey: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			ends := f.s.Clock.Now().Add(time.Second)
			_, key, err := f.s.Keys.Issue(t.Context(), f.Org, audit.Operator(), apikeys.Draft{Name: "short", ExpiresAt: &ends})
			require.NoError(t, err)
			f.s.Clock.Move(time.Second)
			return f.WithKey(key).Post(t, path, text)
		},
		fault.FeatureNotAvailable: set(orgs.Change{Plan: new("free")}),
		fault.OrganizationSuspended: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			_, err := f.s.Orgs.Suspend(t.Context(), f.Org, audit.Operator())
			require.NoError(t, err)
			return f.Post(t, path, text)
		},
		fault.ResourceNotFound: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			return f.Post(t, strings.Replace(path, f.path, "/999999999999", 1), text)
		},
		fault.UnsupportedMediaType: with("Content-Type", "text/plain"),
		fault.HeadersTooLarge:      with("X-Long", strings.Repeat("a", 17<<10)),
		fault.RequestTooLarge: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			return f.Post(t, path, strings.Repeat(" ", 1<<20)+text)
		},
		fault.RateLimitExceeded: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			f.set(t, orgs.Change{Plan: new("starter")})
			for range 40 {
				f.Get(t, "/me")
			}
			return f.Post(t, path, text)
		},
		fault.IdempotencyKeyReuse: func(t *testing.T, f *sendFixture, path string) apitest.Answer {
			f.Post(t, path, f.body(), "Idempotency-Key", "k")
			return f.Post(t, path, text, "Idempotency-Key", "k")
		},
	}
}

// notOfSends has the codes that no message fails with, and why.
func notOfSends() map[fault.Code]string {
	const (
		lists     = "only lists answer it"
		webhooks  = "only routes of webhook subscriptions answer it"
		register  = "only registrations answer it"
		resources = "only routes that create or change resources answer it"
		moment    = "it says nothing about the message: repeat the request"
	)
	return map[fault.Code]string{
		fault.InvalidLimit: lists, fault.InvalidCursor: lists,
		fault.InvalidWebhookURL: webhooks, fault.InvalidEventType: webhooks, fault.WebhookSubscriptionDisabled: webhooks,
		fault.CannotRevokeLastSecret: webhooks, fault.SetupLinkInactive: "only routes of setup links answer it",
		fault.RegistrationInProgress: register, fault.RegistrationFailed: register,
		fault.AlreadyExists: resources, fault.LimitReached: resources, fault.CustomerArchived: resources,
		fault.FeatureNotEntitled:    "only routes of customers answer it",
		fault.ProviderUpstreamError: "only routes that call the provider before they answer have it",
		fault.IdempotencyInProgress: moment, fault.InternalError: moment, fault.ServiceUnavailable: moment,
		fault.NotImplemented: "only operations that are not served answer it", fault.MethodNotAllowed: "only other methods than POST get it",
	}
}

// providerCodes are codes of the provider with which it refuses a send. Limits are retried for a quarter of an hour before the
// message fails.
func providerCodes() map[fault.Code]int {
	return map[fault.Code]int{
		provider.AppRateLimited: 4, provider.AccountRateLimited: 130429,
		provider.MarketingBlockedByUser: 131050, provider.RecipientUnavailable: 131026, provider.UnsupportedMessageType: 131051,
		fault.AccountRestricted: 131042, provider.AccountLocked: 131031, provider.PermissionRevoked: 10, provider.AuthExpired: 190,
		provider.TemplateNotFound: 132001, provider.TemplatePaused: 132015, provider.TemplatePolicyViolation: 132007,
		provider.FlowBlocked: 132068, provider.MediaUploadFailed: 131053, provider.MediaDownloadFailed: 131052,
		provider.Undeliverable: 131049, provider.PolicyViolation: 130497, fault.UpstreamError: 131009,
	}
}

// forecast is what the test has found out about the codes.
type forecast struct {
	s *apitest.Server
	// known is when a code is in `errors`, doubted the sentence with which it is in `unchecked`.
	known   map[fault.Code][]string
	doubted map[fault.Code]string
}

// TestValidate_EveryCode_PredictedOrNamed makes the table of docs/validate.md: of every code of a refusal or of a message it finds out
// whether validate predicts it, names it as one that it cannot know, or whether no send can get it.
func TestValidate_EveryCode_PredictedOrNamed(t *testing.T) {
	t.Parallel()
	f := &forecast{s: apitest.New(t), known: map[fault.Code][]string{}, doubted: map[fault.Code]string{}}
	f.s.Network.Control(t, "settings", map[string]any{"window": "sync"})
	f.s.Work(t)
	for _, one := range allForetold() {
		t.Run(string(one.code)+", "+one.when, func(t *testing.T) { f.predict(t, one) })
		f.known[one.code] = append(f.known[one.code], one.when)
	}
	f.doubt(t)
	alike := refusedAlike()
	for code, try := range alike {
		t.Run(string(code), func(t *testing.T) {
			for _, path := range []string{"/messages/validate", "/messages"} {
				own := f.fixture(t)
				require.Equal(t, string(code), try(t, own, own.path+path).Code(), path)
			}
		})
	}
	table := f.table(t, alike, notOfSends())
	t.Log("\n" + table)
	guide, err := os.ReadFile("../../../docs/validate.md")
	require.NoError(t, err)
	require.Contains(t, string(guide), table, "docs/validate.md has another table")
}

// fixture is a number that the simulated network has, too.
func (f *forecast) fixture(t *testing.T) *sendFixture {
	t.Helper()
	made := newSendFixture(t, f.s)
	f.s.Network.Number(t, made.account.BusinessAccountID, *made.account.PhoneNumberID, map[string]any{"display_phone_number": *made.account.PhoneNumber})
	return made
}

// predict sees a code in `errors`, and then sees the send fail with it.
func (f *forecast) predict(t *testing.T, one foretold) {
	t.Helper()
	own := f.fixture(t)
	body := one.make(t, own)
	before := own.rows(t)
	found := own.validate(t, body)
	require.False(t, found.Valid)
	require.Contains(t, found.places(), place{string(one.code), one.param})
	require.NotContains(t, found.doubts(), string(one.code))
	require.Equal(t, before, own.rows(t), "something was stored")
	sent := own.send(t, body)
	if one.later {
		require.Equal(t, 202, sent.Status, "%s", sent.Body)
		require.Equal(t, string(one.code), own.failure(t, sent.Data(t)["id"].(string), soon))
		return
	}
	refused := sent.Error(t)
	param, _ := refused["param"].(string)
	require.Equal(t, place{string(one.code), one.param}, place{refused["code"].(string), param})
	require.Equal(t, refused["message"], found.Errors[0].Message, "validate has the reason of the send first")
}

// doubt collects `unchecked` of messages that are valid, and has the provider refuse one of them with each code.
func (f *forecast) doubt(t *testing.T) {
	t.Helper()
	codes := providerCodes()
	for _, content := range [][2]string{
		{"text", `{"body":"Hello"}`},
		{"image", `{"link":"https://harbour.example/a.jpg"}`},
		{"template", ""},
		{"interactive", `{"type":"flow","body":{"text":"Well?"},"action":{"name":"flow","parameters":{"flow_message_version":"3","flow_id":"1","flow_cta":"Book"}}}`},
	} {
		own := f.fixture(t)
		body := own.body()
		if content[0] != "template" {
			body = message(content[0], content[1], "to", own.wrote(t))
		}
		found := own.validate(t, body)
		require.True(t, found.Valid, "%v", found.Errors)
		for _, one := range found.Unchecked {
			if _, seen := f.doubted[fault.Code(one.Code)]; seen {
				continue
			}
			f.doubted[fault.Code(one.Code)] = one.Message
			t.Run(one.Code+", unchecked", func(t *testing.T) {
				f.refuse(t, content, codes[fault.Code(one.Code)], one.Code)
			})
		}
	}
	for code := range codes {
		require.Contains(t, f.doubted, code)
	}
}

// refuse sends what validate calls valid, and has the provider refuse it.
func (f *forecast) refuse(t *testing.T, content [2]string, providerCode int, code string) {
	t.Helper()
	own := f.fixture(t)
	body := own.body()
	if content[0] != "template" {
		body = message(content[0], content[1], "to", own.wrote(t))
	}
	require.True(t, own.validate(t, body).Valid)
	f.s.Network.Control(t, "script", map[string]any{
		"match": map[string]any{"phone_number_id": *own.account.PhoneNumberID}, "outcome": map[string]any{"sync_code": providerCode},
	})
	id := own.mustSend(t, body)["id"].(string)
	step := soon
	if strings.HasSuffix(code, "rate_limited") {
		step = time.Minute // it is retried after 1, 2, 4 and 8 minutes
	}
	require.Equal(t, code, own.failure(t, id, step))
	shown := own.Get(t, own.path+"/messages/"+id).Data(t)["error"].(map[string]any)
	require.InDelta(t, providerCode, shown["provider_code"], 0)
	status := own.announced(t, id)
	told := status["errors"].([]any)[0].(map[string]any)
	require.Equal(t, []any{id, "failed", float64(providerCode)}, []any{status["id"], status["status"], told["code"]})
}

// soon is a step in which nothing becomes due but what is due at once.
const soon = 20 * time.Millisecond

// failure lets a message fail while time passes in steps, and returns the code of its error.
func (f *sendFixture) failure(t *testing.T, id string, step time.Duration) string {
	t.Helper()
	for until := time.Now().Add(3 * time.Minute); f.state(t, id) != "failed"; time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(until), "%s is %s", id, f.state(t, id))
		f.s.Pass(t, step)
	}
	return f.Get(t, f.path+"/messages/"+id).Data(t)["error"].(map[string]any)["code"].(string)
}

// table has a row for every code. A code about which nothing is known fails the test.
func (f *forecast) table(
	t *testing.T, alike map[fault.Code]func(*testing.T, *sendFixture, string) apitest.Answer, never map[fault.Code]string,
) string {
	t.Helper()
	rows := []string{"| Code | In `errors` when | In `unchecked` with |", "|---|---|---|"}
	for _, code := range everyCode(t) {
		known, doubted := strings.Join(f.known[code], "; "), f.doubted[code]
		_, same := alike[code]
		reason, none := never[code]
		require.Equal(t, 1, boolToInt(known != "" || doubted != "")+boolToInt(same)+boolToInt(none),
			"%s must be predicted or unchecked, or refuse validate as well, or be no code of sends", code)
		switch {
		case same:
			known = "never: validate is refused with it, too"
		case none:
			known = "never: " + reason
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", code, known, doubted))
	}
	return strings.Join(rows, "\n") + "\n"
}

func boolToInt(value bool) int {
	if value {
		return 1
	}
	return 0
}

// everyCode has the codes of refusals, then those that only messages have.
func everyCode(t *testing.T) []fault.Code {
	t.Helper()
	all := fault.Codes()
	for _, code := range messageCodes(t) {
		if !slices.Contains(all, code) {
			all = append(all, code)
		}
	}
	return all
}

// messageCodes are the known codes of the contract.
func messageCodes(t *testing.T) []fault.Code {
	t.Helper()
	contract, err := openapi.Load()
	require.NoError(t, err)
	var document struct {
		Components struct {
			Schemas struct {
				MessageErrorCode struct {
					Examples []fault.Code `json:"examples"`
				}
			} `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(contract.JSON(), &document))
	return document.Components.Schemas.MessageErrorCode.Examples
}

// TestContract_MessageCodes_KnownInCode: the contract names each code that a message can have, and no other.
func TestContract_MessageCodes_KnownInCode(t *testing.T) {
	t.Parallel()
	named := messageCodes(t)
	for _, code := range provider.Codes() {
		require.Contains(t, named, code)
	}
	for _, code := range named {
		require.Contains(t, slices.Concat(fault.Codes(), provider.Codes()), code)
	}
}
