package page_test

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// contrast is the ratio of the luminances of an element's text and background, as WCAG defines it.
const contrast = `(id) => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const { color, backgroundColor } = getComputedStyle(document.querySelector(id));
  const [most, least] = [light(color), light(backgroundColor)].sort((a, b) => b - a);
  return (most + 0.05) / (least + 0.05);
}`

func TestPhone_SheetsAndToasts_LookRight(t *testing.T) {
	t.Parallel()
	for name, scheme := range map[string]string{"dark": "preferredColorScheme=0", "light": "preferredColorScheme=1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, chromedp.Flag("blink-settings", scheme))
			number := func(expression string) float64 {
				value, err := chromedp.Run(f.Context, chromedp.Evaluate[float64](expression))
				require.NoError(t, err)
				return value
			}
			f.open(390, 844)
			f.Sees(`matchMedia("(prefers-color-scheme: dark)").matches === ` + map[string]string{"dark": "true", "light": "false"}[name])
			f.showStatuses()
			f.Screenshot(name + "-chat-phone")
			f.Do(chromedp.Click("#more"), chromedp.WaitVisible("dialog[open] .option"))
			space := `((sheet) => sheet.getBoundingClientRect().bottom - sheet.lastElementChild.getBoundingClientRect().bottom)(document.querySelector("dialog[open]"))`
			require.GreaterOrEqual(t, number(space), 8.0, "space below the last option")
			f.Screenshot(name + "-sheet-phone")

			f.Do(chromedp.Evaluate[chromedp.Void](`window.fetch = async () => new Response('{"error":{"message":"The network refused this."}}', { status: 400 }), undefined`))
			f.Do(chromedp.Click("dialog[open] .option:nth-of-type(1)"))
			f.Sees(`document.querySelector("#toast.failed").checkVisibility()`)
			require.GreaterOrEqual(t, number(`(`+contrast+`)("#toast")`), 4.5, "a toast about a failure is readable")
			f.Do(chromedp.Click("#more"), chromedp.WaitVisible("dialog[open] .option"))
			f.Sees(`document.querySelector("#toast").matches(":popover-open")`) // in the top layer, as the sheet is
			f.Screenshot(name + "-toast-phone")
			f.Do(chromedp.EmulateViewport(1280, 800))
			f.Screenshot(name + "-sheet-desktop")
			require.GreaterOrEqual(t, number(`(`+contrast+`)("dialog")`), 7.0)
		})
	}
}

// showStatuses has messages with every kind of mark in Ada's chat.
func (f *fixture) showStatuses() {
	f.t.Helper()
	f.post("/sim/settings", object{"redeliver_after_ms": 3_600_000, "redeliver_max_ms": 3_600_000})
	f.post("/sim/script", object{"match": object{"to": ada}, "outcome": object{"async_code": 131049}, "times": 1})
	failed := f.send(object{"type": "text", "text": object{"body": "Spring is here:\neverything is half price."}})
	f.shows(failed, `it.matches(".undelivered")`)
	f.answer(http.StatusServiceUnavailable)
	retried := f.inbound(object{"text": object{"body": "Is it ready?"}})
	f.shows(retried, `it.querySelector(".tick").dataset.status === "retrying"`)
	f.post("/v24.0/100000000000001/messages", object{
		"messaging_product": "whatsapp", "to": grace, "type": "text", "text": object{"body": "Good morning"},
	})
	f.Sees(`document.querySelector('.person[data-phone="` + grace + `"] .badge').textContent === "1"`)
}

func TestPanel_BothColourSchemes_Screenshots(t *testing.T) {
	t.Parallel()
	for name, scheme := range map[string]string{"dark": "preferredColorScheme=0", "light": "preferredColorScheme=1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, chromedp.Flag("blink-settings", scheme))
			f.open(1440, 860)
			f.showStatuses()
			f.Do(chromedp.Click("#tools"), chromedp.WaitVisible("#panel"))
			f.Press("#callbacks .callback:last-child summary")
			f.Screenshot(name + "-desktop")
			f.Do(chromedp.EmulateViewport(390, 844))
			f.Sees(`document.querySelector("#panel").getBoundingClientRect().width === 390`)
			f.Screenshot(name + "-panel-phone")
			f.Do(chromedp.Click("#close"), chromedp.Click("#back"))
			f.Screenshot(name + "-list-phone")
		})
	}
}
