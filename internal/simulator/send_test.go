package simulator_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

func TestSend_Accepted_ReportsSentDeliveredRead(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		status, answer := f.send(message(ada, object{"biz_opaque_callback_data": "msg_1:1"}))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "+"+ada, dig(answer, "contacts", 0, "input"))
		require.Equal(t, ada, dig(answer, "contacts", 0, "wa_id"))
		id := dig(answer, "messages", 0, "id")
		f.advance(3 * time.Second)
		posts := f.takePosts()
		require.Len(t, posts, 3)
		for i, want := range []string{"sent", "delivered", "read"} {
			status := dig(posts[i].body, "entry", 0, "changes", 0, "value", "statuses", 0)
			require.Equal(t, want, dig(status, "status"))
			require.Equal(t, id, dig(status, "id"))
			require.Equal(t, "msg_1:1", dig(status, "biz_opaque_callback_data"))
			mac := hmac.New(sha256.New, []byte(canary.AppSecret))
			mac.Write(posts[i].raw)
			require.Equal(t, "sha256="+hex.EncodeToString(mac.Sum(nil)), posts[i].signature)
		}
		_, listed := f.call(http.MethodGet, "/sim/sent?to="+ada, "", nil)
		require.Equal(t, id, dig(listed, "data", 0, "id"))
		require.Equal(t, "msg_1:1", dig(listed, "data", 0, "opaque"))
		require.Equal(t, "text", dig(listed, "data", 0, "type"))
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, dig(listed, "data", 0, "accepted_at"))
	})
}

func TestSent_ManyEntries_AllListed(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		count := proof.Sized(5_000, 20_000)
		for i := range count {
			f.accepted(message(fmt.Sprintf("155502%05d", i), object{"biz_opaque_callback_data": fmt.Sprint(i)}))
		}
		opaques := map[any]bool{}
		for _, entry := range f.sent("?phone_number_id=" + simulator.DefaultPhoneNumberID) {
			opaques[dig(entry, "opaque")] = true
		}
		require.Len(t, opaques, count)
		require.Len(t, f.sent(""), count)
		require.Len(t, f.sent("?to=15550200042"), 1)
		page := f.sent("?limit=2&skip=3")
		require.Equal(t, []any{fmt.Sprint(count - 4), fmt.Sprint(count - 5)}, []any{dig(page, 0, "opaque"), dig(page, 1, "opaque")})
		for _, query := range []string{"?limit=x", "?skip=-1"} {
			status, _ := f.call(http.MethodGet, "/sim/sent"+query, "", nil)
			require.Equal(t, http.StatusBadRequest, status)
		}
	}, object{"silent": true, "throughput_limit": false})
}

func TestSend_InvalidBodies_AreRefused(t *testing.T) {
	t.Parallel()
	interactive := func(content object) object {
		return message(ada, object{"type": "interactive", "interactive": content})
	}
	button := func(title string) object {
		return object{"type": "reply", "reply": object{"id": title, "title": title}}
	}
	text := func(s string) object { return object{"type": "text", "text": s} }
	long := strings.Repeat("x", 4097)
	cases := map[string]struct {
		body object
		code int
	}{
		"without the product":           {object{"to": ada, "type": "text", "text": object{"body": "Hi"}}, 100},
		"without a recipient":           {object{"messaging_product": "whatsapp", "type": "text", "text": object{"body": "Hi"}}, 100},
		"to a group":                    {message(ada, object{"recipient_type": "group"}), 100},
		"of an unknown type":            {message(ada, object{"type": "poem"}), 100},
		"without content":               {message(ada, object{"type": "image"}), 131008},
		"with empty text":               {message(ada, object{"text": object{"body": ""}}), 131008},
		"with long text":                {message(ada, object{"text": object{"body": long}}), 131009},
		"with text that is a number":    {message(ada, object{"text": object{"body": 1}}), 131009},
		"to a short number":             {message("12"), 131009},
		"to itself":                     {message("15550199001"), 131021},
		"to a foreign user id":          {message(ada, object{"to": nil, "recipient": "US.13491208655302741918"}), 131009},
		"image without source":          {message(ada, object{"type": "image", "image": object{"caption": "x"}}), 131008},
		"image with two sources":        {message(ada, object{"type": "image", "image": object{"id": "1", "link": "https://x.test/a.png"}}), 131009},
		"image with an unknown id":      {message(ada, object{"type": "image", "image": object{"id": "1"}}), 100},
		"location off the globe":        {message(ada, object{"type": "location", "location": object{"latitude": 91, "longitude": 0}}), 131009},
		"contact without a name":        {message(ada, object{"type": "contacts", "contacts": []any{object{"phones": []any{}}}}), 131008},
		"reaction in a context":         {message(ada, object{"type": "reaction", "reaction": object{"message_id": "x"}, "context": object{"message_id": "x"}}), 131009},
		"four buttons":                  {interactive(object{"type": "button", "body": text("b"), "action": object{"buttons": []any{button("1"), button("2"), button("3"), button("4")}}}), 131009},
		"two equal buttons":             {interactive(object{"type": "button", "body": text("b"), "action": object{"buttons": []any{button("1"), button("1")}}}), 131009},
		"a list without its button":     {interactive(object{"type": "list", "body": text("b"), "action": object{"sections": []any{object{"rows": []any{object{"id": "1", "title": "1"}}}}}}), 131008},
		"an unknown interactive":        {interactive(object{"type": "dance", "body": text("b"), "action": object{}}), 131009},
		"a template that is not there":  {template(ada, "nothing"), 132001},
		"a template without parameters": {template(ada, "order_update"), 132000},
		"a template with too few":       {template(ada, "order_update", object{"type": "body", "parameters": []any{text("x")}}), 132000},
		"a template with a wrong kind":  {template(ada, "spring_sale", object{"type": "header", "parameters": []any{text("x")}}), 132012},
		"a code to a user id":           {object{"messaging_product": "whatsapp", "recipient": "?", "type": "template", "template": object{"name": "login_code", "language": object{"code": "en_US"}}}, 131062},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(f *fixture) {
				if c.body["recipient"] == "?" {
					c.body["recipient"] = dig(f.control("users", object{"phone": ada}), "user_ids", simulator.DefaultAccountID)
				}
				code, _ := f.refused(c.body)
				require.Equal(t, c.code, code)
			})
		})
	}
}

func TestSend_WindowClosed_FailsLater(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.accepted(message(stranger))
		f.advance(time.Second)
		failed := f.statuses()
		require.Equal(t, "failed", names(failed))
		require.InDelta(t, 131047, dig(failed[0], "errors", 0, "code"), 0)

		f.accepted(template(stranger, "hello_world"))
		f.advance(3 * time.Second)
		require.Equal(t, "sent delivered read", names(f.statuses()), "templates need no window")

		f.control("inbound", object{"from": stranger, "type": "text"})
		f.advance(0)
		f.changes()
		f.accepted(message(stranger))
		f.advance(3 * time.Second)
		require.Equal(t, "sent delivered read", names(f.statuses()))

		f.control("clock", object{"advance_seconds": 24 * 3600})
		f.accepted(message(stranger))
		f.advance(time.Second)
		require.Equal(t, "failed", names(f.statuses()), "closed again after a day")

		f.control("settings", object{"window": "sync"})
		code, _ := f.refused(message(stranger))
		require.Equal(t, 131047, code)
		f.control("settings", object{"window": "off"})
		f.accepted(message(stranger))
		f.advance(3 * time.Second)
		require.Equal(t, "sent delivered read", names(f.statuses()))
	})
}

func TestSend_ReservedNumbers_ForceTheirStatuses(t *testing.T) {
	t.Parallel()
	for _, code := range []int{4, 190, 131056, 130429, 131031, 131042, 368, 132015, 80007, 131000} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			run(t, func(f *fixture) {
				got, _ := f.refused(message(fmt.Sprintf("15554%06d", code)))
				require.Equal(t, code, got)
				f.accepted(message(fmt.Sprintf("15552%06d", code)))
				f.advance(10 * time.Second)
				failed := f.statuses()
				require.Equal(t, "failed", names(failed))
				require.InDelta(t, code, dig(failed[0], "errors", 0, "code"), 0)
			})
		})
	}
	for number, want := range map[string]string{
		"15559000001": "sent delivered read", "15559000002": "failed", "15559000006": "", "15559000008": "sent", "15559000009": "sent delivered",
		"15559000007": "sent sent delivered delivered read read",
	} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			run(t, func(f *fixture) {
				f.accepted(message(number))
				f.advance(10 * time.Second)
				require.Equal(t, want, names(f.statuses()))
			}, object{"window": "off"})
		})
	}
}

func TestSend_ReservedNumbers_ForceTheirAnswers(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		for _, status := range []int{429, 500, 503, 418} {
			_, got := f.refused(message(fmt.Sprintf("15559000%d", status)))
			require.Equal(t, status, got)
		}
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { f.send(message("15559000003")) }, "the connection is cut")
		recorder := f.serve(http.MethodPost, "/v24.0/100000000000001/messages", canary.Token, message("15559000004"))
		require.Equal(t, http.StatusOK, recorder.Code)
		require.Contains(t, recorder.Body.String(), "<html>")
		start := time.Now()
		f.accepted(message("15559000005"))
		require.Equal(t, 5*time.Second, time.Since(start))
		f.advance(10 * time.Second)
		require.Len(t, f.statuses(), 9, "all three were accepted")
	}, object{"window": "off"})
}

func TestSend_ByUserID_OldIDIsRefused(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		id := dig(f.control("users", object{"phone": ada}), "user_ids", simulator.DefaultAccountID).(string)
		require.Regexp(t, `^[A-Z]{2}[.][0-9]{1,128}$`, id)
		status, answer := f.send(message(ada, object{"to": nil, "recipient": id}))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, object{"input": id, "user_id": id}, dig(answer, "contacts", 0))
		f.advance(3 * time.Second)
		for _, status := range f.statuses() {
			require.Equal(t, id, status["recipient_user_id"])
		}
		rotated := f.control("system", object{"from": ada, "type": "user_changed_user_id"})
		code, _ := f.refused(message(ada, object{"to": nil, "recipient": id}))
		require.Equal(t, 131009, code, "the old id is no longer valid")
		f.accepted(message(ada, object{"to": nil, "recipient": rotated["user_id"]}))
	})
}

func TestSend_UserFlags_ChangeTheStatuses(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"no_receipts": "sent delivered", "blocked": "sent", "absent": "failed"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			run(t, func(f *fixture) {
				f.control("users", object{"phone": ada, flag: true})
				f.accepted(message(ada))
				f.advance(5 * time.Second)
				require.Equal(t, want, names(f.statuses()))
			})
		})
	}
	t.Run("stopped marketing", func(t *testing.T) {
		t.Parallel()
		run(t, func(f *fixture) {
			f.control("preferences", object{"from": ada, "value": "stop"})
			f.advance(0)
			require.Equal(t, "user_preferences", f.changes()[0].field)
			sale := template(ada, "spring_sale",
				object{"type": "header", "parameters": []any{object{"type": "image", "image": object{"link": "https://x.test/a.png"}}}},
				object{"type": "body", "parameters": []any{object{"type": "text", "text": "Ada"}}})
			f.accepted(sale)
			f.advance(3 * time.Second)
			require.InDelta(t, 131050, dig(f.statuses()[0], "errors", 0, "code"), 0)
			f.control("preferences", object{"from": ada, "value": "resume"})
			f.accepted(sale)
			f.advance(3 * time.Second)
			require.Equal(t, "sent delivered read", names(f.statuses()))
		})
	})
}
