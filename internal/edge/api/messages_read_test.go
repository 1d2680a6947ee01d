package api_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// inbound stores a text that a contact sent now, and returns its id. Inbound messages are not applied
// yet, so that the rows are written here.
func (n number) inbound(t *testing.T, contact contacts.ID, providerID string) string {
	t.Helper()
	now := n.s.Clock.Now()
	thread := n.received(t, contact, now)
	id, err := postgres.InTx(t.Context(), n.s.DB, n.Org, func(tx *postgres.Tx) (messages.ID, error) {
		return postgres.One[messages.ID](t.Context(), tx, `
WITH said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, content)
    VALUES (@org_id, @id, @account_id, @conversation_id, @contact_id, 'inbound', 'text', 'contact', '{"body":"Hi"}')
), named AS (
    INSERT INTO provider_messages (org_id, provider_id, message_id) VALUES (@org_id, @provider_id, @id)
)
INSERT INTO message_states (org_id, id, status, provider_id, sent_at) VALUES (@org_id, @id, 'delivered', @provider_id, @now)
RETURNING id`, postgres.Args{
			"id": ids.NewOrg(now), "account_id": n.account.ID, "conversation_id": thread.ID, "contact_id": contact,
			"provider_id": providerID, "now": now,
		})
	})
	require.NoError(t, err)
	return id.String()
}

// becomes sets the status of a message, as a callback would.
func (n number) becomes(t *testing.T, id, status string) {
	t.Helper()
	var parsed messages.ID
	require.NoError(t, parsed.UnmarshalText([]byte(id)))
	n.exec(t, `UPDATE message_states SET status = @status WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": parsed, "status": status})
}

func receiptOf(providerID string) string {
	return `{"messaging_product":"chat","status":"read","message_id":"` + providerID + `"}`
}

func TestMessages_Receipt_MarksThisAndEarlierRead(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	contact := n.s.Contact(t, n.Org, n.account)
	var all []string
	for i := range 3 {
		all = append(all, n.inbound(t, contact.ID, fmt.Sprint("pmid.", i)))
		n.s.Clock.Move(time.Second)
	}
	status := func(id string) any { return n.Get(t, n.path+"/messages/"+id).Data(t)["status"] }
	unread := func() int { return int(n.Get(t, n.path+"/conversations").List(t)[0]["unread_count"].(float64)) }
	require.Equal(t, 3, unread())

	before := n.Get(t, n.path+"/messages/"+all[1]).Data(t)
	require.Equal(t, map[string]any{
		"id": all[1], "object": "message", "to": *n.account.PhoneNumber, "from": *contact.PhoneNumber, "bsuid": nil, "parent_bsuid": nil,
		"username": nil, "type": "text", "status": "delivered", "created_at": before["created_at"], "sent_at": before["created_at"],
		"conversation_id": before["conversation_id"], "message_id": "pmid.1", "direction": "inbound", "contact_id": contact.ID.String(),
		"text": map[string]any{"body": "Hi"},
	}, before)
	marked := n.send(t, receiptOf("pmid.1"))
	require.Equal(t, 200, marked.Status, "%s", marked.Body)
	before["status"], before["read_at"] = "read", n.now()
	require.Equal(t, before, marked.Data(t))
	require.Equal(t, before, n.Get(t, n.path+"/messages/"+all[1]).Data(t))
	require.Equal(t, []any{"read", "read", "delivered", 1}, []any{status(all[0]), status(all[1]), status(all[2]), unread()})

	n.s.Clock.Move(time.Second)
	again := n.send(t, `{"status":"read","message_id":"pmid.1","typing_indicator":{"type":"text"}}`)
	require.Equal(t, []any{200, before}, []any{again.Status, again.Data(t)}, "the time of the first receipt stays")
	require.Equal(t, 1, unread())
	require.Equal(t, 200, n.send(t, receiptOf("pmid.2")).Status)
	require.Equal(t, []any{"read", 0}, []any{status(all[2]), unread()})
}

func TestMessages_Receipt_IdempotencyKey(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.inbound(t, n.s.Contact(t, n.Org, n.account).ID, "pmid.1")
	first := n.send(t, receiptOf("pmid.1"), "Idempotency-Key", "k")
	again := n.send(t, receiptOf("pmid.1"), "Idempotency-Key", "k")
	require.Equal(t, []any{200, string(first.Body), "true"}, []any{again.Status, string(again.Body), again.Header.Get("Idempotent-Replayed")})
	requireRefusal(t, unprocessable("idempotency_key_reuse"), n.send(t, receiptOf("pmid.2"), "Idempotency-Key", "k"))
}

func TestMessages_Receipt_OtherIDs_Refused(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	other, foreign := n, numberOf(t, n.s)
	other.account = n.s.Account(t, n.Org)
	id := n.inbound(t, n.s.Contact(t, n.Org, n.account).ID, "pmid.1")
	other.inbound(t, n.s.Contact(t, n.Org, other.account).ID, "pmid.other")
	foreign.inbound(t, n.s.Contact(t, foreign.Org, foreign.account).ID, "pmid.foreign")
	missing := refusal{404, "not_found", "resource_not_found", "message_id"}
	for _, unknown := range []string{"pmid.0", "pmid.other", "pmid.foreign", id} {
		requireRefusal(t, missing, n.send(t, receiptOf(unknown)))
	}
	sent := n.mustSend(t, message("text", `{"body":"Hello"}`))["id"].(string)
	var outbound messages.ID
	require.NoError(t, outbound.UnmarshalText([]byte(sent)))
	n.exec(t, `INSERT INTO provider_messages (org_id, provider_id, message_id) VALUES (@org_id, 'pmid.out', @id)`,
		postgres.Args{"id": outbound})
	requireRefusal(t, faulty("message_id"), n.send(t, receiptOf("pmid.out")))
	requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""},
		n.Post(t, foreign.path+"/messages", receiptOf("pmid.foreign")))
	require.Equal(t, "delivered", n.Get(t, n.path+"/messages/"+id).Data(t)["status"])
}

func TestMessages_List_OrderFiltersAndPages(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	n.template(t, "order_ready", "UTILITY", plainBody)
	ana, rui := n.s.Contact(t, n.Org, n.account), n.s.Contact(t, n.Org, n.account)
	made, stamps := []string{}, []string{}
	add := func(id string) {
		made, stamps = append(made, id), append(stamps, url.QueryEscape(n.now()))
		n.s.Clock.Move(time.Second)
	}
	to := func(contact contacts.Contact, kind, content string) string {
		return n.mustSend(t, message(kind, content, "to", `"`+*contact.PhoneNumber+`"`))["id"].(string)
	}
	add(to(ana, "text", `{"body":"0"}`))
	add(n.inbound(t, ana.ID, "pmid.1"))
	add(to(rui, "image", `{"link":"https://harbour.example/a.jpg"}`))
	add(to(rui, "template", `{"name":"order_ready","language":"en_US"}`))
	add(n.inbound(t, rui.ID, "pmid.4"))
	add(to(ana, "text", `{"body":"5"}`))
	n.becomes(t, made[2], "sent")
	n.becomes(t, made[5], "failed")
	n.exec(t, `UPDATE message_states SET error_code = 'upstream_error', error_message = 'x', failed_at = @now
WHERE org_id = @org_id AND status = 'failed'`, postgres.Args{"now": n.s.Clock.Now()})
	second := n
	second.account = n.s.Account(t, n.Org)
	second.inbound(t, n.s.Contact(t, n.Org, second.account).ID, "pmid.second")
	foreign := numberOf(t, n.s)
	theirs := foreign.mustSend(t, message("text", `{"body":"Hello"}`))
	conversation := func(i int) string { return n.Get(t, n.path+"/messages/"+made[i]).Data(t)["conversation_id"].(string) }
	for query, want := range map[string]string{
		"":                                   "543210",
		"conversation_id=" + conversation(0): "510",
		"conversation_id=" + conversation(2): "432",
		"conversation_id=" + theirs["conversation_id"].(string):                 "",
		"conversation_id=cnv_01M6B1Z2YTSTSEJFBCW1HAVEDG":                        "",
		"contact_id=" + ana.ID.String():                                         "510",
		"contact_id=" + theirs["contact_id"].(string):                           "",
		"contact_id=ctc_01M6B1Z2YTSTSEJFBCW1HAVEDG":                             "",
		"contact_id=" + rui.ID.String() + "&conversation_id=" + conversation(2): "432",
		"contact_id=" + rui.ID.String() + "&conversation_id=" + conversation(0): "",
		"direction=inbound":           "41",
		"direction=outbound":          "5320",
		"status=queued":               "30",
		"status=sent":                 "2",
		"status=failed":               "5",
		"status=delivered":            "41",
		"status=read":                 "",
		"status=pending":              "",
		"type=text":                   "5410",
		"type=image":                  "2",
		"type=template":               "3",
		"type=audio":                  "",
		"created_after=" + stamps[3]:  "54",
		"created_before=" + stamps[3]: "210",
		"created_after=" + stamps[1] + "&created_before=" + stamps[4]:             "32",
		"created_after=" + stamps[2] + "&created_before=" + stamps[2]:             "",
		"created_after=0001-01-01T00:00:00Z":                                      "543210",
		"created_before=0001-01-01T00:00:00Z":                                     "",
		"created_after=9999-12-31T23:59:59.999Z":                                  "",
		"created_before=9999-12-31T23:59:59.999Z":                                 "543210",
		"direction=outbound&type=text":                                            "50",
		"direction=outbound&type=text&status=queued":                              "0",
		"conversation_id=" + conversation(0) + "&direction=inbound":               "1",
		"contact_id=" + ana.ID.String() + "&type=text&created_after=" + stamps[0]: "51",
	} {
		ids := []string{}
		for _, place := range want {
			ids = append(ids, made[place-'0'])
		}
		for _, limit := range []int{1, 2, 100} {
			require.Equal(t, ids, walk(t, n.Client, fmt.Sprintf("%s/messages?limit=%d&%s", n.path, limit, query)), query)
		}
	}
	for _, one := range n.Get(t, n.path+"/messages").List(t) {
		require.Equal(t, n.Get(t, n.path+"/messages/"+one["id"].(string)).Data(t), one, "the list shows what GET shows")
	}
}

func TestMessages_List_BadFiltersAndCursors(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	for range 3 {
		n.mustSend(t, message("text", `{"body":"Hello"}`))
	}
	for query, param := range map[string]string{
		"conversation_id=x": "conversation_id", "conversation_id=": "conversation_id",
		"conversation_id=ctc_01M6B1Z2YTSTSEJFBCW1HAVEDG": "conversation_id",
		"contact_id=x": "contact_id", "contact_id=cnv_01M6B1Z2YTSTSEJFBCW1HAVEDG": "contact_id",
		"direction=both": "direction", "direction=": "direction", "status=played": "status", "type=fax": "type",
		"created_after=yesterday": "created_after", "created_after=2026-03-14": "created_after", "created_before=2026-02-30T00:00:00Z": "created_before",
		"status=sent&status=read": "status", "sort=created_at": "sort", "to=%2B351910000001": "to",
	} {
		requireRefusal(t, faulty(param), n.Get(t, n.path+"/messages?"+query))
	}
	for _, limit := range []string{"0", "101", "x"} {
		requireRefusal(t, refusal{400, "invalid_request_error", "invalid_limit", "limit"}, n.Get(t, n.path+"/messages?limit="+limit))
	}
	page := n.Get(t, n.path+"/messages?limit=2&direction=outbound").JSON(t)
	require.Equal(t, true, page["has_more"])
	cursor := url.QueryEscape(page["next_cursor"].(string))
	last := n.Get(t, n.path+"/messages?limit=2&direction=outbound&cursor="+cursor)
	require.Len(t, last.List(t), 1)
	require.Equal(t, []any{false, nil}, []any{last.JSON(t)["has_more"], last.JSON(t)["next_cursor"]})
	bad := refusal{400, "invalid_request_error", "invalid_cursor", "cursor"}
	second := "/" + *n.s.Account(t, n.Org).PhoneNumberID
	for _, path := range []string{
		n.path + "/messages?cursor=x", n.path + "/messages?cursor=" + cursor, n.path + "/messages?direction=inbound&cursor=" + cursor,
		second + "/messages?direction=outbound&cursor=" + cursor,
	} {
		requireRefusal(t, bad, n.Get(t, path))
	}
}

func TestMessages_Get_ETagFollowsTheState(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	id := n.mustSend(t, message("text", `{"body":"Hello"}`))["id"].(string)
	path := n.path + "/messages/" + id
	tags := map[string]bool{}
	tag := func() string {
		t.Helper()
		read := n.Get(t, path)
		require.Equal(t, 200, read.Status)
		etag := read.Header.Get("ETag")
		require.Regexp(t, `^W/"[A-Za-z0-9_-]+"$`, etag)
		require.Equal(t, etag, n.Get(t, path).Header.Get("ETag"), "the same state has the same tag")
		for _, sent := range []string{etag, etag[2:], `"x", ` + etag, "*"} {
			same := n.Get(t, path, "If-None-Match", sent)
			require.Equal(t, []any{304, etag, 0}, []any{same.Status, same.Header.Get("ETag"), len(same.Body)}, sent)
		}
		for old := range tags {
			require.Equal(t, 200, n.Get(t, path, "If-None-Match", old).Status)
		}
		require.NotContains(t, tags, etag)
		tags[etag] = true
		return etag
	}
	tag()
	for _, status := range []string{"pending", "sent", "delivered", "read"} {
		n.becomes(t, id, status)
		tag()
	}
	for _, change := range []string{
		`provider_id = 'pmid.1'`, `sent_at = @now`, `delivered_at = @now`, `read_at = @now`, `played_at = @now`, `is_revoked = true`,
		`status = 'failed', failed_at = @now, error_code = 'undeliverable', error_message = 'x'`, `provider_code = 131026`,
		`error_code = 'policy_violation'`,
	} {
		n.exec(t, `UPDATE message_states SET `+change+` WHERE org_id = @org_id`, postgres.Args{"now": n.s.Clock.Now()})
		tag()
	}
	failed := n.Get(t, path).Data(t)["error"]
	require.Equal(t, map[string]any{"code": "policy_violation", "message": "x", "provider_code": 131026.0}, failed)
}

func TestMessages_Get_OtherNumberOrOrganization_NotFound(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	foreign := numberOf(t, n.s)
	mine, theirs := n.mustSend(t, message("text", `{"body":"a"}`)), foreign.mustSend(t, message("text", `{"body":"b"}`))
	second := "/" + *n.s.Account(t, n.Org).PhoneNumberID
	missing := refusal{404, "not_found", "resource_not_found", ""}
	for _, path := range []string{
		n.path + "/messages/" + theirs["id"].(string), second + "/messages/" + mine["id"].(string),
		foreign.path + "/messages/" + theirs["id"].(string), n.path + "/messages/msg_x", n.path + "/messages/msg_01M6B1Z2YTSTSEJFBCW1HAVEDG",
	} {
		requireRefusal(t, missing, n.Get(t, path))
		requireRefusal(t, missing, n.Get(t, path, "If-None-Match", "*"))
	}
	requireRefusal(t, missing, n.Get(t, foreign.path+"/messages"))
	requireRefusal(t, missing, n.Post(t, foreign.path+"/messages", message("text", `{"body":"Hello"}`)))
	require.Equal(t, 200, n.Get(t, n.path+"/messages/"+mine["id"].(string)).Status)
}
