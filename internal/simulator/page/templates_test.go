package page_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

// template creates a template and approves it.
func (f *fixture) template(name, category string, components ...object) {
	f.t.Helper()
	answer := f.post("/v24.0/"+simulator.DefaultAccountID+"/message_templates", object{
		"name": name, "language": "en_US", "category": category, "components": components,
	})
	_, rest, _ := strings.Cut(string(answer), `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	f.post("/sim/templates/"+id+"/review", object{"event": "APPROVED"})
}

// urlButton is a component of a send: the parameter of the URL button at an index.
func urlButton(index, value string) object {
	return object{"type": "button", "sub_type": "url", "index": index, "parameters": texts(value)}
}

func TestPhone_TemplateURLButtons_AreFilledAndOpenTheLink(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	link := func(path string) object {
		return object{"type": "URL", "text": "Open", "url": f.url + path, "example": []any{"1"}}
	}
	f.template("two_links", "UTILITY", object{"type": "BODY", "text": "Choose one."}, object{"type": "BUTTONS", "buttons": []object{
		link("/page/{{1}}"), link("/page/style.css?of={{1}}"),
		{"type": "PHONE_NUMBER", "text": "Call us", "phone_number": "+15550199001"},
	}})
	card := func(body string) object {
		return object{"components": []object{
			{"type": "HEADER", "format": "IMAGE", "example": object{"header_handle": []any{"4::x"}}},
			{"type": "BODY", "text": body},
			{"type": "BUTTONS", "buttons": []object{link("/page/{{1}}")}},
		}}
	}
	f.template("two_cards", "MARKETING", object{"type": "BODY", "text": "Look at our shop."},
		object{"type": "CAROUSEL", "cards": []object{card("The first card."), card("The second card.")}})
	f.open(1280, 800)

	sent := f.sendTemplate("two_links", urlButton("0", "icon.svg"), urlButton("1", "a b&c"))
	f.shows(sent, `[...it.querySelectorAll(".taps a")].map((a) => a.href).join(" ") === "`+f.url+`/page/icon.svg `+f.url+`/page/style.css?of=a%20b&c"`)
	f.Do(chromedp.Click(`[data-id="` + sent + `"] .taps button`))
	f.Sees(`document.querySelector("#toast").textContent === "Calls +15550199001"`)
	f.opens(`[data-id="`+sent+`"] .taps a`, "/page/icon.svg")

	image := object{"type": "header", "parameters": []object{{"type": "image", "image": object{"link": f.url + "/page/icon.svg"}}}}
	sent = f.sendTemplate("two_cards", object{"type": "carousel", "cards": []object{
		{"card_index": 0, "components": []object{image, urlButton("0", "app.js")}},
		{"card_index": 1, "components": []object{image, urlButton("0", "content.js")}},
	}})
	f.shows(sent, `[...it.querySelectorAll(".slide p")].map((p) => p.textContent).join(" ") === "The first card. The second card."`)
	f.shows(sent, `[...it.querySelectorAll(".slide .taps a")].map((a) => a.pathname).join(" ") === "/page/app.js /page/content.js"`)
	f.Screenshot("cards")
	f.opens(`[data-id="`+sent+`"] .slide:last-child .taps a`, "/page/content.js")
}

// opens clicks a link, and waits for the tab that it opens.
func (f *fixture) opens(link, path string) {
	f.t.Helper()
	opened := chromedp.WaitNewTarget(f.Context, func(info *target.Info) bool { return strings.HasSuffix(info.URL, path) })
	f.Do(chromedp.Click(link))
	tab, closeTab := chromedp.NewContext(f.Context, chromedp.WithTargetID(<-opened))
	location, err := chromedp.Run(tab, chromedp.Location())
	closeTab()
	require.NoError(f.t, err)
	require.Equal(f.t, f.url+path, location)
}
