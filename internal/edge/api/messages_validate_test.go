package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// validation is the answer of validate.
type validation struct {
	Valid             bool
	Errors, Unchecked []struct{ Code, Message, Param string }
}

// place is a code with its field.
type place struct{ code, param string }

func (v validation) places() (all []place) {
	for _, one := range v.Errors {
		all = append(all, place{one.Code, one.Param})
	}
	return all
}

func (v validation) doubts() (all []string) {
	for _, one := range v.Unchecked {
		all = append(all, one.Code)
	}
	return all
}

func (n number) validate(t *testing.T, body string, header ...string) (found validation) {
	t.Helper()
	answer := n.Post(t, n.path+"/messages/validate", body, header...)
	require.Equal(t, 200, answer.Status, "%s", answer.Body)
	var envelope struct{ Data *validation }
	envelope.Data = &found
	require.NoError(t, json.Unmarshal(answer.Body, &envelope))
	require.Equal(t, len(found.Errors) == 0, found.Valid)
	return found
}

// rows are all rows of the organization, except for the log of calls.
func (n number) rows(t *testing.T) (all []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), n.s.DatabaseURL(n.s.Name))
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	require.NoError(t, pgtest.EachRow(t.Context(), conn, func(row pgtest.Row) {
		if row.Org == n.Org.String() && row.Table != "api_log" {
			all = append(all, row.Table+" "+string(row.Text))
		}
	}))
	slices.Sort(all)
	return all
}

// TestValidate_Refusals_EachAndEachPair: of two reasons both are answered, in the order of the checks. Nothing is stored.
func TestValidate_Refusals_EachAndEachPair(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	require.True(t, newSendFixture(t, s).validate(t, newSendFixture(t, s).body()).Valid)
	all := sendRefusals()[1:] // an organization that is suspended is refused
	for i, first := range all {
		for j, second := range all[i:] {
			name, want := first.name, []place{{first.want.code, first.want.param}}
			if j > 0 {
				name += " and " + second.name
				want = append(want, place{second.want.code, second.want.param})
			}
			t.Run(name, func(t *testing.T) {
				f := newSendFixture(t, s)
				if j > 0 {
					second.make(t, f)
				}
				first.make(t, f)
				before := f.rows(t)
				found := f.validate(t, f.body())
				require.Equal(t, before, f.rows(t))
				if first.name == "unknown template" { // what category it has is not known
					for _, code := range []fault.Code{fault.ConsentRequired, fault.MarketingOptedOut} {
						want = slices.DeleteFunc(want, func(p place) bool { return p.code == string(code) })
						require.Contains(t, found.doubts(), string(code))
					}
				}
				require.Equal(t, want, found.places())
				require.Equal(t, first.want.code, f.send(t, f.body()).Code())
			})
		}
	}
}

// TestValidate_ManyReasons_AllInOrder: faults of the body are answered beside everything else.
func TestValidate_ManyReasons_AllInOrder(t *testing.T) {
	t.Parallel()
	f := newSendFixture(t, apitest.New(t))
	f.useUpQuota(t, 0)
	f.accountBecomes(t, "status", "disconnected")
	require.Equal(t, 200, f.Do(t, "PATCH", "/customers/"+f.customer.String(), `{"status":"suspended"}`).Status)
	f.set(t, orgs.Change{Subscription: new(orgs.Inactive)})
	before := f.rows(t)
	rest := []place{{"upstream_error", ""}, {"customer_suspended", ""}, {"quota_exceeded", ""}}
	for _, test := range []struct {
		name, body string
		faults     []place
		rest       []place
	}{
		{
			"text", message("text", `{"body":"`+strings.Repeat("a", 4097)+`","preview_url":1}`, "to", `"12"`, "zz", `1`, "aa", `2`),
			[]place{
				{"invalid_phone_number", "to"},
				{"invalid_field_value", "text.body"},
				{"invalid_field_value", "text.preview_url"},
				{"invalid_field_value", "aa"},
				{"invalid_field_value", "zz"},
			},
			rest,
		},
		{
			"text to somebody who never wrote", message("text", `{"body":""}`, "context", `{"message_id":"msg_1"}`),
			[]place{{"invalid_field_value", "text.body"}, {"invalid_field_value", "context.message_id"}},
			append(slices.Clone(rest), place{"outside_24h_window", ""}),
		},
		{"no recipient", message("text", `{}`, "to", ""), []place{{"missing_required_field", "text.body"}, {"missing_required_field", "to"}}, rest},
		{"recipient of another type", message("text", `{"body":"a"}`, "to", "", "recipient", `7`), []place{{"invalid_field_value", "recipient"}}, rest},
		{"BSUID that is none", message("text", `{"body":"a"}`, "to", "", "recipient", `"7"`), []place{{"invalid_field_value", "recipient"}}, rest},
		{
			"number of another type beside a BSUID", message("text", `{"body":"a"}`, "to", `[]`, "recipient", `"PT.1"`),
			[]place{{"invalid_phone_number", "to"}},
			rest,
		},
		{
			"context of another type", message("text", `{"body":"a"}`, "context", `"pmid.1"`),
			[]place{{"invalid_field_value", "context"}},
			append(slices.Clone(rest), place{"outside_24h_window", ""}),
		},
		{"content of another type", message("text", `"a"`, "to", `"1"`), []place{{"invalid_phone_number", "to"}, {"invalid_field_value", "text"}}, rest},
		{
			"library file", message("image", `{"id":"med_01M6GZZ6GNTM9XW2PD78P3QHPM","caption":7}`),
			[]place{{"invalid_field_value", "image.caption"}},
			[]place{rest[0], rest[1], {"media_not_found", "image.id"}, rest[2], {"outside_24h_window", ""}},
		},
		{
			"malformed id of a library file", message("image", `{"id":"med_1"}`),
			[]place{{"invalid_field_value", "image.id"}},
			append(slices.Clone(rest), place{"outside_24h_window", ""}),
		},
		{
			"template", message("template", `{"name":"promo","language":"en_US","components":[{"type":"button","index":0},{"type":"body","parameters":[{"type":"text"}]}]}`),
			[]place{{"missing_required_field", "template.components[0].sub_type"}, {"missing_required_field", "template.components[1].parameters[0].text"}},
			rest,
		},
		{
			"template that is not known", message("template", `{"name":"nothing","language":"en_US","components":7}`),
			[]place{{"invalid_field_value", "template.components"}},
			[]place{rest[0], rest[1], {"invalid_template_name", "template.name"}, rest[2]},
		},
		{
			"template that the message does not fit",
			message("template", `{"name":"promo","language":"en_US","components":[{"type":"body","parameters":[{"type":"text","text":"a"}]}]}`), nil,
			[]place{
				rest[0], rest[1], {"missing_required_field", "template.components"}, {"invalid_field_value", "template.components[0].parameters"}, rest[2],
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := slices.Concat([]place{{"subscription_inactive", ""}}, test.faults, test.rest)
			require.Equal(t, want, f.validate(t, test.body).places())
		})
	}
	require.Equal(t, before, f.rows(t))
}

// TestValidate_FaultyBodies_FirstAsSend: the first reason is what a send is refused with.
func TestValidate_FaultyBodies_FirstAsSend(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.template(t, "order_ready", "UTILITY", orderTemplate)
	broken := []string{`null`, `7`, `""`, `{}`, `[]`, `{"x":1}`, `"x"`}
	tried := 0
	for _, one := range contents() {
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(one[1]), &fields))
		for name := range fields {
			for _, value := range broken {
				changed := maps.Clone(fields)
				changed[name] = json.RawMessage(value)
				encoded, err := json.Marshal(changed)
				require.NoError(t, err)
				tried += n.firstAsSend(t, message(one[0], string(encoded)))
			}
		}
		for _, field := range []string{"messaging_product", "recipient_type", "to", "recipient", "context", "biz_opaque_callback_data", "other", "status", "message_id", one[0]} {
			for _, value := range broken {
				tried += n.firstAsSend(t, message(one[0], one[1], field, value))
			}
		}
	}
	t.Logf("%d bodies are refused", tried)
	require.Greater(t, tried, 500)
}

// firstAsSend compares validate with a send, and returns 1 if the send is refused.
func (n number) firstAsSend(t *testing.T, body string) int {
	t.Helper()
	n.s.Clock.Move(10 * time.Millisecond) // refills the bucket
	sent, found := n.send(t, body), n.validate(t, body)
	if sent.Status == 202 {
		for _, one := range found.places() {
			require.Equal(t, "outside_24h_window", one.code, body)
		}
		return 0
	}
	refused := sent.Error(t)
	param, _ := refused["param"].(string)
	require.NotEmpty(t, found.Errors, body)
	require.Equal(t, []any{refused["code"], param, refused["message"]},
		[]any{found.Errors[0].Code, found.Errors[0].Param, found.Errors[0].Message}, body)
	return 1
}

// TestValidate_NothingToJudge_Refused: a body of which nothing can be judged is refused as a send is.
func TestValidate_NothingToJudge_Refused(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	missing := refusal{400, "invalid_request_error", "missing_required_field", "type"}
	for body, want := range map[string]refusal{
		`{`: faulty(""), `[]`: faulty(""), ``: faulty(""), `{"to":1,"to":2}`: faulty("to"),
		`{}`: missing, `{"messaging_product":"chat","to":"+351910000001"}`: missing,
		`{"messaging_product":"chat","status":"read","message_id":"pmid.1"}`: missing,
		`{"type":"sticker"}`: faulty("type"), `{"type":7}`: faulty("type"),
	} {
		requireRefusal(t, want, n.Post(t, n.path+"/messages/validate", body))
	}
	requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, n.Post(t, "/999999999999/messages/validate", message("text", `{}`)))
}

func TestValidate_EveryType_ValidAndNothingStored(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.template(t, "order_ready", "UTILITY", orderTemplate)
	to := *n.s.Conversation(t, n.Org, n.account).ContactNumber
	before := n.rows(t)
	has := func(codes []string, some ...string) []bool {
		return []bool{slices.Contains(codes, some[0]), slices.Contains(codes, some[1]), slices.Contains(codes, some[2]), slices.Contains(codes, some[3])}
	}
	for _, one := range contents() {
		found := n.validate(t, message(one[0], one[1], "to", `"`+to+`"`))
		require.True(t, found.Valid, "%v", found.Errors)
		require.Equal(t, []bool{
			one[0] == "template", strings.Contains(one[1], `"flow"`), strings.Contains(one[1], `"link"`), strings.Contains(one[1], `"link"`),
		}, has(found.doubts(), "template_paused", "flow_blocked", "media_upload_failed", "media_download_failed"), one[1])
		require.NotContains(t, found.doubts(), "marketing_blocked_by_user")
		require.NotContains(t, found.doubts(), "outside_24h_window")
	}
	require.Equal(t, before, n.rows(t))
	require.Zero(t, n.s.Network.Calls("POST", "/messages"))
}

func TestValidate_Window_ByLastInbound(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	to := `"` + *n.s.Conversation(t, n.Org, n.account).ContactNumber + `"`
	n.template(t, "order_ready", "UTILITY", plainBody)
	n.s.Clock.Move(24*time.Hour - time.Millisecond)
	text, template := message("text", `{"body":"a"}`, "to", to), message("template", `{"name":"order_ready","language":"en_US"}`, "to", to)
	require.True(t, n.validate(t, text).Valid)
	n.s.Clock.Move(time.Millisecond)
	require.Equal(t, []place{{"outside_24h_window", ""}}, n.validate(t, text).places())
	require.Equal(t, []place{{"outside_24h_window", ""}}, n.validate(t, message("reaction", `{"message_id":"pmid.1","emoji":"👍"}`, "to", to)).places())
	require.True(t, n.validate(t, template).Valid, "a template needs no window")
	n.mustSend(t, text) // the provider is the judge
}

// TestValidate_Authentication_NeedsANumber: a known number is used instead of the BSUID.
func TestValidate_Authentication_NeedsANumber(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.template(t, "code", "AUTHENTICATION", plainBody)
	n.template(t, "order", "UTILITY", plainBody)
	to := func(name, bsuid string) string {
		return message("template", `{"name":"`+name+`","language":"en_US"}`, "to", "", "recipient", `"`+bsuid+`"`)
	}
	unsupported := []place{{"unsupported_message_type", "recipient"}}
	require.Equal(t, unsupported, n.validate(t, to("code", "PT.1")).places())
	require.Equal(t, unsupported, n.validate(t, to("code", "PT.ENT.1")).places())
	require.True(t, n.validate(t, to("order", "PT.1")).Valid)
	n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1"})
	require.True(t, n.validate(t, to("code", "PT.1")).Valid)
	require.True(t, n.validate(t, message("template", `{"name":"code","language":"en_US"}`)).Valid)
}

// TestValidate_IdempotencyKey_StoredAnswer: it works as for every POST.
func TestValidate_IdempotencyKey_StoredAnswer(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	validate := func(body string) apitest.Answer {
		return n.Post(t, n.path+"/messages/validate", body, "Idempotency-Key", "k")
	}
	text := message("text", `{"body":"a"}`)
	first := validate(text)
	n.accountBecomes(t, "status", "disconnected")
	again := validate(text)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Equal(t, string(first.Body), string(again.Body))
	requireRefusal(t, refusal{422, "invalid_request_error", "idempotency_key_reuse", ""}, validate(message("text", `{"body":"b"}`)))
	require.Equal(t, []int{0, 0, 0, 0, 0, 1}, n.stored(t))
}

// TestValidate_Quota_AskedAndNotSpent: the last message of the month can be validated often, and sent.
func TestValidate_Quota_AskedAndNotSpent(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	to := `"` + *n.s.Conversation(t, n.Org, n.account).ContactNumber + `"`
	n.useUpQuota(t, 1)
	text := message("text", `{"body":"a"}`, "to", to)
	for range 3 {
		require.True(t, n.validate(t, text).Valid)
	}
	n.mustSend(t, text)
	require.Equal(t, []place{{"quota_exceeded", ""}}, n.validate(t, text).places())
}

// TestValidate_HugeBodies_BoundedAnswer: a body with thousands of faults gets a short answer.
func TestValidate_HugeBodies_BoundedAnswer(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.template(t, "order_ready", "UTILITY", orderTemplate)
	items := func(item string) string { return "[" + strings.TrimSuffix(strings.Repeat(item+",", 2_000), ",") + "]" }
	fields := []string{}
	for i := range 900 {
		fields = append(fields, fmt.Sprintf("f%d", i), "1")
	}
	for _, body := range []string{
		message("text", `{"body":"a"}`, fields...),
		message("template", `{"name":"order_ready","language":"en_US","components":`+items(`7`)+`}`),
		message("template", `{"name":"order_ready","language":"en_US","components":[{"type":"body","parameters":`+items(`{"type":"image","image":{"link":"https://a.example"}}`)+`}]}`),
	} {
		found := n.validate(t, body)
		require.GreaterOrEqual(t, len(found.Errors), 20)
		require.LessOrEqual(t, len(found.Errors), 25)
	}
}

// TestValidate_Library_EveryFile: files of the library are found as a send finds them, and every one that cannot be sent is named.
func TestValidate_Library_EveryFile(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	to := `"` + *n.s.Conversation(t, n.Org, n.account).ContactNumber + `"`
	id := uploadFile(t, n.Client, "a.pdf", pdf).Data(t)["id"].(string)
	before := n.rows(t)
	found := n.validate(t, message("document", `{"id":"`+id+`"}`, "to", to))
	require.True(t, found.Valid, "%v", found.Errors)
	require.Contains(t, found.doubts(), "media_upload_failed")
	require.NotContains(t, found.doubts(), "media_download_failed")
	require.Equal(t, []place{{"invalid_field_value", "image.id"}}, n.validate(t, message("image", `{"id":"`+id+`"}`, "to", to)).places())
	require.Equal(t, before, n.rows(t))

	n.template(t, "cards", "UTILITY", `[{"type":"BODY","text":"a"},{"type":"CAROUSEL","cards":[
		{"components":[{"type":"HEADER","format":"IMAGE"}]},{"components":[{"type":"HEADER","format":"IMAGE"}]},{"components":[{"type":"HEADER","format":"IMAGE"}]}]}]`)
	card := func(id string) string {
		return `{"components":[{"type":"header","parameters":[{"type":"image","image":{"id":"` + id + `"}}]}]}`
	}
	body := message("template", `{"name":"cards","language":"en_US","components":[{"type":"carousel","cards":[`+
		card("med_01M6GZZ6GNTM9XW2PD78P3QHPM")+`,`+card(id)+`,`+card("med_01M6GZZ6GNTM9XW2PD78P3QHPN")+`]}]}`)
	param := func(i int) string {
		return fmt.Sprintf("template.components[0].cards[%d].components[0].parameters[0].image.id", i)
	}
	want := []place{{"media_not_found", param(0)}, {"invalid_field_value", param(1)}, {"media_not_found", param(2)}}
	require.Equal(t, want, n.validate(t, body).places())
	requireRefusal(t, refusal{422, "invalid_request_error", "media_not_found", param(0)}, n.send(t, body))
}
