package page_test

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const grace = "15550100002"

func TestPhone_OtherChats_ShowHowManyAreUnread(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post("/sim/settings", object{"pair_limit": false, "window": "off", "sent_delay_ms": 10, "delivered_delay_ms": 20, "read_delay_ms": 30})
	var other struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal(f.post("/sim/numbers", object{"verified_name": "Corner Shop"}), &other))
	write := func(number, to, body string) {
		f.post("/v24.0/"+number+"/messages", object{"messaging_product": "whatsapp", "to": to, "type": "text", "text": object{"body": body}})
	}
	badge := func(phone, count string) {
		f.t.Helper()
		f.Sees(`(document.querySelector('.person[data-phone="` + phone + `"] .badge')?.textContent ?? "") === "` + count + `"`)
	}
	const mine = "100000000000001"
	f.open(1280, 800)
	write(mine, ada, "You see this one.")
	f.Sees(has("You see this one."))
	write(mine, grace, "First")
	badge(grace, "1")
	write(mine, grace, "Second")
	badge(grace, "2")
	write(mine, "15550100042", "A user who was not listed")
	badge("15550100042", "1")
	write(other.ID, ada, "From the other number")
	f.Sees(`document.querySelector('#number option[value="` + other.ID + `"]').textContent.startsWith("(1) Corner Shop")`)
	f.Sees(`document.querySelector("#elsewhere").textContent === "1"`)
	f.Sees(`document.title === "(4) Phone · simulator"`)
	badge(ada, "")
	f.Screenshot("unread")

	f.post("/sim/script", object{"match": object{"to": grace}, "outcome": object{"async_code": 131026}, "times": 1})
	write(mine, grace, "It never arrives")
	f.Sees(`document.querySelector('.person[data-phone="` + grace + `"] .last').textContent === "not delivered"`)
	badge(grace, "2")

	f.Do(chromedp.Reload())
	badge(grace, "2") // the page keeps them
	f.Do(chromedp.EmulateViewport(390, 844))
	f.Sees(`document.querySelector("#back .badge").textContent === "4"`)
	f.Screenshot("unread-phone")
	f.Do(chromedp.Click("#back"), chromedp.Click(`.person[data-phone="`+grace+`"]`))
	f.Sees(has("Second") + ` && document.title === "(2) Phone · simulator"`)
	badge(grace, "")
	f.Do(chromedp.EmulateViewport(1280, 800), chromedp.SetValue("#number", other.ID))
	f.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#number").dispatchEvent(new Event("change"))`))
	badge(ada, "1")
	f.Do(chromedp.Click(`.person[data-phone="` + ada + `"]`))
	f.Sees(has("From the other number") + ` && document.title === "(1) Phone · simulator"`)
	f.post("/sim/reset", object{})
	f.Sees(`document.title === "Phone · simulator"`)
}

// TestPhone_ListAnsweredLate_NewerMessageStays holds an answer about the list back until a message has arrived.
func TestPhone_ListAnsweredLate_NewerMessageStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(1280, 800)
	preview := func(text string) {
		f.t.Helper()
		f.Sees(`document.querySelector('.person[data-phone="` + ada + `"] .last').textContent === ` + quoted(text))
	}
	f.inbound(object{"text": object{"body": "first"}})
	preview("first")
	f.Do(chromedp.Evaluate[chromedp.Void](`((usual) => {
		window.fetch = async (path, options) => {
			const answer = await usual(path, options);
			if (path === "/sim/state") await new Promise((release) => { window.held = release; });
			return answer;
		};
	})(window.fetch)`))
	f.post("/sim/settings", object{}) // has the page load the list
	f.Sees(`typeof window.held === "function"`)
	f.inbound(object{"text": object{"body": "second"}})
	preview("second")
	f.Do(chromedp.Evaluate[chromedp.Void](`held()`))
	f.Do(chromedp.Evaluate[chromedp.Void](`new Promise((done) => setTimeout(done, 0))`, chromedp.EvalAwaitPromise))
	preview("second")
}
