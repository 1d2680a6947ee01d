package page_test

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func value(id, want string) string {
	return `document.querySelector("#` + id + `").value === ` + quoted(want)
}

// emptyPhone empties the field for the number of a user.
var emptyPhone = chromedp.Evaluate[chromedp.Void](`document.querySelector("#phone").value = ""`)

func TestPhone_BadNumber_IdentityAndTextStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(1280, 800)
	f.inbound(object{"type": "text", "text": object{"body": "Is anybody there?"}})
	f.Sees(has("Is anybody there?"))
	f.Do(chromedp.SendKeys("#text", "I have typed this"))
	for _, bad := range []string{"12", "+1 555 abc 0001", "1234567890123456"} {
		f.Do(emptyPhone, chromedp.SendKeys("#phone", bad+"\r"))
		f.Sees(`document.querySelector("#phone-problem").textContent.includes(` + quoted(bad) + `)`)
		f.Sees(value("phone", bad) + ` && document.querySelector("#phone").getAttribute("aria-invalid") === "true"`)
		f.Sees(value("text", "I have typed this") + ` && ` + has("Is anybody there?"))
		f.Sees(`document.querySelector("#identity").textContent.includes("Ada Lovelace") && location.hash.endsWith("/` + ada + `")`)
	}
	f.Screenshot("bad-number")
	f.Do(chromedp.SendKeys("#text", "\r"))
	require.Equal(t, ada, f.callback("text")["from"])
	require.Equal(t, ada, f.callback("text")["from"], "the second message is Ada's too")

	f.Do(emptyPhone, chromedp.SendKeys("#phone", "+55 41 99999 1234\r")) // its wa_id has no ninth digit
	f.Sees(`location.hash.endsWith("/554199991234") && document.querySelector("#identity").textContent.includes("+554199991234")`)
	f.Sees(value("phone", "") + ` && document.querySelector("#phone-problem").textContent === ""`)
}

func TestPhone_AddressWithABadNumber_ShowsTheList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(f.url+"/#100000000000001/12"))
	f.Sees(`document.querySelector("#live").textContent === "live"`)
	f.Sees(`document.querySelectorAll(".person").length === 3 && document.querySelector("#app").classList.contains("listing")`)
}

func TestPhone_SendRefused_TextStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(1280, 800)
	f.Do(chromedp.Evaluate[chromedp.Void](`window.fetch = async () => new Response('{"error":{"message":"no such number"}}', { status: 400 }), undefined`))
	f.Do(chromedp.SendKeys("#text", "Do not lose this\r"))
	f.Sees(`document.querySelector("#toast").textContent === "no such number"`)
	f.Sees(value("text", "Do not lose this"))
}

// TestPhone_SeveralLines_AreTypedSentAndShown types with the keyboard: Shift+Enter starts a line, Enter sends.
func TestPhone_SeveralLines_AreTypedSentAndShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(1280, 800)
	height := func(id string) float64 {
		tall, err := chromedp.Run(f.Context, chromedp.Evaluate[float64](`document.querySelector('`+id+`').getBoundingClientRect().height`))
		require.NoError(t, err)
		return tall
	}
	before := height("#text")
	f.Do(chromedp.SendKeys("#text", "Two soups"), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierShift)), chromedp.KeyEvent("One salad"))
	f.Sees(value("text", "Two soups\nOne salad"))
	require.Greater(t, height("#text"), before+15, "the field grows with its lines")
	f.Screenshot("lines-typed")
	f.Do(chromedp.KeyEvent("\r"))
	require.Equal(t, object{"body": "Two soups\nOne salad"}, f.callback("text")["text"])
	f.Sees(value("text", ""))
	require.InDelta(t, before, height("#text"), 1, "empty again")

	two := func(id string) string {
		return `[...document.querySelectorAll('` + id + ` p')].some((p) => p.innerText.split("\n").length === 2 && p.getClientRects()[0].height > 35)`
	}
	f.Sees(two(".bubble.mine"))
	sent := f.send(object{"type": "text", "text": object{"body": "Thank you.\nIt takes ten minutes."}})
	f.Sees(two(`[data-id="` + sent + `"]`))

	f.Do(chromedp.Click(".bubble.mine .act"))
	f.Do(chromedp.Click(`dialog[open] [data-act="Edit"]`), chromedp.WaitVisible("dialog[open] .words"))
	f.Sees(`document.querySelector("dialog[open] .words").value === "Two soups\nOne salad"`)
	f.Do(chromedp.SendKeys("dialog[open] .words", "\rNo pie"))
	f.Screenshot("edit")
	f.Do(chromedp.Click("dialog[open] .main"))
	require.Equal(t, object{"body": "Two soups\nOne salad\nNo pie"}, f.callback("edit")["edit"].(object)["message"].(object)["text"])
}

func TestPhone_FailedSend_IsTheBusinesssViewOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post("/sim/settings", object{"pair_limit": false, "sent_delay_ms": 10, "delivered_delay_ms": 20, "read_delay_ms": 30})
	f.open(1280, 800)
	asked := object{"type": "interactive", "interactive": object{
		"type": "button", "body": object{"text": "Shall we bring it today?"},
		"action": object{"buttons": []object{{"type": "reply", "reply": object{"id": "yes", "title": "Yes, please"}}}},
	}}
	arrived := f.send(asked)
	f.shows(arrived, `it.querySelector(".tick").dataset.status === "read" && !it.textContent.includes("Not delivered")`)
	f.post("/sim/script", object{"match": object{"to": ada}, "outcome": object{"async_code": 131049}, "times": 1})
	failed := f.send(asked)
	f.shows(failed, `it.textContent.includes("Not delivered. Only the business sees this message.") && it.textContent.includes("131049: This message was not delivered")`)
	f.shows(failed, `it.matches(".undelivered") && it.querySelector(".act") === null && it.querySelector(".taps[inert] button") !== null`)
	f.shows(arrived, `!it.matches(".undelivered") && it.querySelector(".act") !== null && it.querySelector(".taps[inert]") === null`)
	f.Sees(`document.querySelector('.person[data-phone="` + ada + `"] .last').textContent === "not delivered"`)
	f.Screenshot("failed")
}

func TestPhone_TicksOfOwnMessage_FollowTheCallback(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post("/sim/settings", object{"redeliver_after_ms": 50, "redeliver_max_ms": 50})
	f.open(1280, 800)
	tick := func(id, status, words string) {
		f.t.Helper()
		f.shows(id, `it.querySelector(".tick").dataset.status === `+quoted(status)+` && it.querySelector(".fate").textContent.includes(`+quoted(words)+`)`)
	}
	f.answer(0) // waits
	id := f.inbound(object{"text": object{"body": "Is it ready?"}})
	tick(id, "waiting", "")
	f.answer(http.StatusServiceUnavailable)
	tick(id, "retrying", "The business has not got this yet: the callback was answered with 503.")
	f.Screenshot("retrying")
	f.answer(http.StatusOK)
	tick(id, "delivered", "")
	f.post("/sim/settings", object{"drop": 1})
	id = f.inbound(object{"text": object{"body": "Are you there?"}})
	tick(id, "dropped", "The business never gets this: its callback was dropped by the setting drop.")
	f.Screenshot("dropped")
}
