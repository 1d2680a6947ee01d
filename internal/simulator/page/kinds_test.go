package page_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

const ada = "15550100001"

// upload uploads a file of the business and returns its id.
func (f *fixture) upload(mimeType, filename string, data []byte) string {
	f.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	require.NoError(f.t, form.WriteField("messaging_product", "whatsapp"))
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="` + filename + `"`}, "Content-Type": {mimeType},
	})
	require.NoError(f.t, err)
	_, err = part.Write(data)
	require.NoError(f.t, err)
	require.NoError(f.t, form.Close())
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+"/v24.0/100000000000001/media", &body)
	require.NoError(f.t, err)
	request.Header.Set("Content-Type", form.FormDataContentType())
	request.Header.Set("Authorization", "Bearer "+simulator.DefaultToken)
	response, err := http.DefaultClient.Do(request)
	require.NoError(f.t, err)
	defer response.Body.Close()
	var uploaded struct {
		ID string `json:"id"`
	}
	require.NoError(f.t, json.NewDecoder(response.Body).Decode(&uploaded))
	return uploaded.ID
}

// inbound has Ada write, and returns the id of the message.
func (f *fixture) inbound(message object) string {
	f.t.Helper()
	message["from"] = ada
	var answer struct {
		ID string `json:"id"`
	}
	require.NoError(f.t, json.Unmarshal(f.post("/sim/inbound", message), &answer))
	return answer.ID
}

func (f *fixture) sendTemplate(name string, components ...object) string {
	return f.send(object{"type": "template", "template": object{"name": name, "language": object{"code": "en_US"}, "components": components}})
}

func (f *fixture) sendInteractive(kind string, action object, more ...object) string {
	content := object{"type": kind, "body": object{"text": "What may we do for you?"}, "action": action}
	for _, fields := range more {
		maps.Copy(content, fields)
	}
	return f.send(object{"type": "interactive", "interactive": content})
}

// open opens Ada's phone.
func (f *fixture) open(width, height int64) {
	f.t.Helper()
	f.Do(chromedp.EmulateViewport(width, height), chromedp.Navigate(f.url+"/#100000000000001/"+ada))
	f.Sees(`document.querySelector("#live").textContent === "live"`)
}

// shows waits until the bubble of a message fulfils an expression of `it`.
func (f *fixture) shows(id, expression string) {
	f.t.Helper()
	f.Sees(`((it) => (` + expression + `))(document.querySelector('[data-id="` + id + `"]'))`)
}

func texts(values ...string) (parameters []object) {
	for _, value := range values {
		parameters = append(parameters, object{"type": "text", "text": value})
	}
	return parameters
}

func TestPhone_TextAndFiles_AreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post("/sim/settings", object{"pair_limit": false, "sent_delay_ms": 10, "delivered_delay_ms": 20, "read_delay_ms": 30})
	picture, err := os.ReadFile(photo(t))
	require.NoError(t, err)
	f.open(1180, 1480)
	image := f.upload("image/png", "red.png", picture)
	asked := f.inbound(object{"type": "text", "text": object{"body": "Is the red one still available?"}})
	file := func(kind string, content object) string { return f.send(object{"type": kind, kind: content}) }

	id := f.send(object{"type": "text", "text": object{"body": "Yes, it is: https://example.com/red"}, "context": object{"message_id": asked}})
	f.shows(id, `it.querySelector(".quoted").textContent.includes("Is the red one still available?") && it.querySelector("a").href === "https://example.com/red"`)
	f.shows(id, `it.querySelector(".tick").dataset.status === "read"`)
	id = file("image", object{"id": image, "caption": "Seen from the front"})
	f.shows(id, `it.querySelector("img").naturalWidth === 480 && it.textContent.includes("Seen from the front")`)
	f.post("/sim/inbound", object{"from": ada, "type": "reaction", "reaction": object{"message_id": id, "emoji": "❤️"}})
	id = f.send(object{"type": "text", "text": object{"body": "The picture is from today."}, "context": object{"message_id": id}})
	f.shows(id, `it.querySelector(".quoted img") !== null`)
	pdf := object{"id": f.upload("application/pdf", "invoice.pdf", []byte("%PDF-1.1")), "filename": "invoice-2026-0042.pdf", "caption": "Your invoice"}
	f.shows(file("document", pdf), `it.querySelector("a.file").textContent.includes("invoice-2026-0042.pdf") && it.textContent.includes("Your invoice")`)
	video := object{"id": f.upload("video/mp4", "v.mp4", []byte("\x00\x00\x00\x18ftypmp42")), "caption": "How to put it together"}
	f.shows(file("video", video), `it.querySelector("video[controls]") !== null && it.textContent.includes("How to put it together")`)
	sound := f.upload("audio/ogg", "v.ogg", []byte("OggS"))
	f.shows(file("audio", object{"id": sound}), `it.querySelector("audio[controls]") !== null && it.querySelector(".voice") === null`)
	voice := file("audio", object{"id": sound, "voice": true})
	f.shows(voice, `it.querySelector(".voice audio[controls]") !== null`)
	f.shows(voice, `it.querySelector(".tick").dataset.status === "played"`)

	f.send(object{"type": "reaction", "reaction": object{"message_id": asked, "emoji": "👍"}})
	f.shows(asked, `it.querySelector(".reactions").textContent === "👍"`)
	f.Sees(`document.querySelector(".bubble[data-type=reaction]") === null`)
	f.shows(asked, `it.querySelector(".tick").dataset.status === "delivered"`)
	last := f.inbound(object{"type": "text", "text": object{"body": "Great, I take it!"}})
	f.post("/v24.0/100000000000001/messages", object{
		"messaging_product": "whatsapp", "status": "read", "message_id": last, "typing_indicator": object{"type": "text"},
	})
	for _, read := range []string{asked, last} {
		f.shows(read, `it.querySelector(".tick.read") !== null`)
	}
	f.Sees(`document.querySelector("#thread > .typing:last-child") !== null`)
	f.Screenshot("files")
	f.send(object{"type": "text", "text": object{"body": "Thank you!"}})
	f.Sees(`document.querySelector(".typing") === null`)
}

func TestPhone_TemplatesAndInteractives_AreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post("/sim/settings", object{"pair_limit": false, "sent_delay_ms": 10, "delivered_delay_ms": 20, "read_delay_ms": 30})
	picture, err := os.ReadFile(photo(t))
	require.NoError(t, err)
	f.open(1180, 2180)
	image := object{"type": "image", "image": object{"id": f.upload("image/png", "sale.png", picture)}}
	pdf := object{"type": "document", "document": object{"id": f.upload("application/pdf", "terms.pdf", []byte("%PDF-1.1")), "filename": "terms.pdf"}}

	f.shows(f.sendTemplate("hello_world"), `it.querySelector(".head").textContent === "Hello World" && it.querySelector(".foot").textContent === "Parley sample message"`)
	id := f.sendTemplate("order_update", object{"type": "body", "parameters": texts("Ada", "A-1042")},
		object{"type": "button", "sub_type": "url", "index": "1", "parameters": texts("A-1042")})
	f.shows(id, `it.textContent.includes("Hi Ada, your order A-1042 is on its way.") && it.querySelectorAll(".taps > *").length === 2`)
	f.shows(id, `it.querySelector(".taps a").href === "https://example.com/track/A-1042"`)
	f.shows(f.sendTemplate("spring_sale", object{"type": "header", "parameters": []object{image}}, object{"type": "body", "parameters": texts("Ada")}),
		`it.querySelector("img").naturalWidth === 480`)
	f.shows(f.sendTemplate("login_code", object{"type": "body", "parameters": texts("483920")},
		object{"type": "button", "sub_type": "url", "index": "0", "parameters": texts("483920")}), `it.querySelector("strong").textContent === "483920"`)

	button := func(title string) object {
		return object{"type": "reply", "reply": object{"id": title, "title": title}}
	}
	f.shows(f.sendInteractive("button", object{"buttons": []object{button("Yes, please"), button("Tomorrow"), button("No")}},
		object{"header": image, "footer": object{"text": "Between 9 and 17"}}), `it.querySelector("img") !== null && it.querySelectorAll(".taps button").length === 3`)
	f.shows(f.sendInteractive("list", object{"button": "Choose a dish", "sections": []object{{"rows": []object{{"id": "1", "title": "Soup"}}}}},
		object{"header": object{"type": "text", "text": "Lunch"}, "footer": object{"text": "until 15:00"}}), `it.querySelector(".taps button").textContent.includes("Choose a dish")`)
	f.shows(f.sendInteractive("cta_url", object{"name": "cta_url", "parameters": object{"display_text": "Show", "url": "https://example.com/"}},
		object{"header": pdf}), `it.querySelector(".taps a").href === "https://example.com/" && it.querySelector("a.file").textContent.includes("terms.pdf")`)
	f.shows(f.sendInteractive("flow", object{"name": "flow", "parameters": object{"flow_message_version": "3", "flow_id": "1", "flow_cta": "Book a table"}}),
		`it.querySelector(".taps button").textContent.includes("Book a table")`)
	for status, outcome := range map[string]object{
		"accepted": {"no_status": true}, "sent": {"last_status": "sent"}, "delivered": {"last_status": "delivered"}, "read": {"twice": true},
		"failed": {"async_code": 131049},
	} {
		f.post("/sim/script", object{"match": object{"to": ada}, "outcome": outcome, "times": 1})
		f.shows(f.send(object{"type": "text", "text": object{"body": "This message is " + status + "."}}), `it.querySelector(".tick").dataset.status === "`+status+`"`)
	}
	f.Screenshot("interactives")
}

func TestPhone_EveryMessageType_IsShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, chromedp.Flag("blink-settings", "preferredColorScheme=0"))
	f.open(1180, 1500)
	f.post("/sim/settings", object{"fetch_links": false})
	for _, message := range []object{
		{"type": "location", "location": object{"latitude": 38.7, "longitude": -9.1, "name": "Our shop", "address": "Praça do Comércio 1"}},
		{"type": "document", "document": object{"link": f.url + "/page/icon.svg", "filename": "invoice.pdf", "caption": "Your invoice"}},
		{"type": "contacts", "contacts": []object{{"name": object{"formatted_name": "Grace Hopper"}, "phones": []object{{"phone": "+1 555 010 0002"}}}}},
		{"type": "interactive", "interactive": object{
			"type": "cta_url", "header": object{"type": "text", "text": "Opening hours"}, "body": object{"text": "See when we are open."},
			"action": object{"name": "cta_url", "parameters": object{"display_text": "Show", "url": "https://example.com"}},
		}},
	} {
		f.send(message)
	}
	for _, kind := range []string{"image", "video", "audio", "document", "sticker", "location", "contacts", "order", "unsupported"} {
		f.post("/sim/inbound", object{"from": ada, "type": kind})
		f.callback(kind)
	}
	f.post("/sim/echo", object{"to": ada, "type": "text", "text": object{"body": "Typed in the phone app"}})
	f.Sees(`document.querySelectorAll(".bubble").length === 14`)
	f.Sees(`[...document.querySelectorAll(".bubble")].at(-1).textContent.includes("Typed in the phone app")`)
	f.Sees(`[...document.querySelectorAll(".bubble")].slice(0, 5).map((one) => one.dataset.type).join() === "location,document,contacts,interactive,image"`)
	f.Sees(`document.querySelector(".bubble[data-type=order] .card b").textContent === "1 item"`)
	f.Screenshot("kinds")
}
