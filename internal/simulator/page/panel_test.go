package page_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/browser"
)

func TestPanel_Callbacks_ShowBodyAnswerAndRetries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post("/sim/settings", object{"redeliver_after_ms": 50, "redeliver_max_ms": 50})
	f.open(1280, 800)
	f.Do(chromedp.Click("#tools"), chromedp.WaitVisible("#panel"))
	f.Sees(`!document.querySelector("#no-callbacks").hidden`)
	f.inbound(object{"text": object{"body": "Is it ready?"}})
	first := func(expression string) string {
		return `((it) => (` + expression + `))(document.querySelector("#callbacks .callback"))`
	}
	f.Sees(first(`it.dataset.fate === "answered" && it.querySelector(".what").textContent === "message: text" && it.querySelector(".answer").textContent === "200"`))
	f.Press("#callbacks .callback summary")
	f.Sees(first(`it.open && it.querySelector("pre").textContent.includes('"body": "Is it ready?"')`))
	f.answer(http.StatusServiceUnavailable)
	f.inbound(object{"text": object{"body": "Hello?"}})
	f.Sees(first(`it.dataset.fate === "retrying" && it.querySelector(".answer").textContent === "503" && Number(it.dataset.retries) > 1`))
	f.Sees(`document.querySelectorAll("#callbacks .callback").length === 2 && document.querySelectorAll("#callbacks [open]").length === 1`)
	f.Screenshot("panel")
	f.answer(http.StatusOK)
	f.Sees(first(`it.dataset.fate === "answered" && it.querySelector(".retries") !== null`))
	f.Sees(`document.querySelector("#counts").textContent.includes("0 waiting")`)
}

func TestPanel_Switches_ChangeTheNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(390, 844)
	f.Do(chromedp.Click("#more"), chromedp.Click(`dialog[open] [data-act="Callbacks"]`), chromedp.WaitVisible("#panel"))
	settings := func(want object) {
		t.Helper()
		require.Eventually(t, func() bool {
			has := object{}
			_ = json.Unmarshal(f.post("/sim/settings", object{}), &has) // changes nothing
			for name, value := range want {
				if has[name] != value {
					return false
				}
			}
			return true
		}, browser.Patience, 10*time.Millisecond, "%v", want)
	}
	f.Do(chromedp.Click("#drop"))
	settings(object{"drop": 1.0})
	f.inbound(object{"text": object{"body": "It is lost."}})
	f.Sees(`document.querySelector('.callback[data-fate="dropped"] .answer').textContent === "not posted"`)
	f.Screenshot("panel-phone")
	f.Do(chromedp.Click("#drop"), chromedp.Click("#duplicate"))
	settings(object{"drop": 0.0, "duplicate": 1.0})
	f.inbound(object{"text": object{"body": "It comes twice."}})
	f.callback("text")
	f.callback("text")
	f.Do(chromedp.Click("#duplicate"))
	f.Do(chromedp.SendKeys("#delay", "\b2.5\t"))
	settings(object{"callback_delay_ms": 2500.0, "duplicate": 0.0})
	f.post("/sim/settings", object{"drop": 0.25, "callback_delay_ms": 0}) // changed elsewhere
	f.Sees(`document.querySelector("#drop").indeterminate && document.querySelector("#drop-share").textContent.includes("25 %")`)
	f.Sees(`document.querySelector("#delay").value === "0"`)
	f.post("/sim/settings", object{"drop": 0})

	f.Do(chromedp.Click("#forward"))
	f.Sees(`document.querySelector("#network-time").textContent.includes("+25 h")`)
	f.Do(chromedp.Click("#close"))
	late := f.send(object{"type": "text", "text": object{"body": "The window is closed."}})
	f.shows(late, `it.textContent.includes("131047")`)
}
