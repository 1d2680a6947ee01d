package e2e_test

import (
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/browser"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// talk is a conversation between a business that uses the API and a person at the simulator's phone page.
type talk struct {
	*inbox

	phone *browser.Browser
}

// says posts a message to the person and returns its id and the provider's.
func (c *talk) says(content string) (id, providerID string) {
	c.t.Helper()
	body := fmt.Sprintf(`{"messaging_product":"chat","to":"+15550100001",%s}`, content)
	id = c.do(http.StatusAccepted, http.MethodPost, "/"+c.ready["phone_number_id"]+"/messages", body).data(c.t)["id"].(string)
	proc.Eventually(c.t, proc.Patience, "the provider took it", func() bool {
		providerID, _ = c.message(id)["message_id"].(string)
		return providerID != ""
	})
	return id, providerID
}

// hears waits for a message of the person with a text in its event, and returns what it is known by here.
func (c *talk) hears(text string) (known map[string]any, providerID string) {
	c.t.Helper()
	event := c.told("message.received", text)
	value := event["entry"].([]any)[0].(map[string]any)["changes"].([]any)[0].(map[string]any)["value"].(map[string]any)
	return event["svc"].(map[string]any), value["messages"].([]any)[0].(map[string]any)["id"].(string)
}

// awaits waits until a message has a status.
func (c *talk) awaits(id, status string) {
	c.t.Helper()
	proc.Eventually(c.t, proc.Patience, status, func() bool { return c.message(id)["status"] == status })
}

func attachments(t *testing.T) (picture, voice string) {
	t.Helper()
	drawn := image.NewRGBA(image.Rect(0, 0, 480, 320))
	for y := range 320 {
		for x := range 480 {
			drawn.Set(x, y, color.RGBA{R: uint8(x / 2), G: uint8(160 - y/4), B: uint8(y / 2), A: 255})
		}
	}
	folder := t.TempDir()
	picture, voice = filepath.Join(folder, "sunset.png"), filepath.Join(folder, "voice.ogg")
	file, err := os.Create(picture)
	require.NoError(t, err)
	require.NoError(t, png.Encode(file, drawn))
	require.NoError(t, file.Close())
	require.NoError(t, os.WriteFile(voice, []byte("OggS\x00\x02 a voice note"), 0o600))
	return picture, voice
}

// TestDev_Conversation_InABrowser is a whole conversation: the business uses the API, the person uses
// the phone page.
func TestDev_Conversation_InABrowser(t *testing.T) {
	t.Parallel()
	i, _ := newInbox(t, newFixture(t).missingDatabase(t))
	c := &talk{inbox: i, phone: browser.Open(t)}
	c.phone.Do(chromedp.EmulateViewport(1280, 1400), chromedp.Navigate(c.ready["simulator_url"]+"/"))
	c.phone.Sees(`document.querySelector("#live").textContent === "live"`)
	c.phone.Do(chromedp.Click(`.person[data-phone="15550100001"]`))

	// The person writes; the business reads it and types.
	c.phone.Do(chromedp.SendKeys("#text", "Is my order ready?\r"))
	known, question := c.hears("Is my order ready?")
	c.do(http.StatusOK, http.MethodPost, "/"+c.ready["phone_number_id"]+"/messages",
		fmt.Sprintf(`{"messaging_product":"chat","status":"read","message_id":%q,"typing_indicator":{"type":"text"}}`, question))
	c.phone.Sees(`document.querySelector(".typing") !== null`)
	c.phone.Sees(fmt.Sprintf(`document.querySelector('[data-id=%q] .tick').dataset.status === "read"`, question))
	c.phone.Screenshot("conversation-typing")
	require.EqualValues(t, 0, c.do(http.StatusOK, http.MethodGet,
		"/"+c.ready["phone_number_id"]+"/conversations/"+known["conversation_id"].(string), "").data(t)["unread_count"])

	// A reply, whose ticks turn blue, and a reaction to it.
	reply, shown := c.says(fmt.Sprintf(`"type":"text","text":{"body":"Yes, it is."},"context":{"message_id":%q}`, question))
	c.phone.Sees(`document.querySelector("#thread .quoted").textContent.includes("Is my order ready?")`)
	c.awaits(reply, "read")
	c.phone.Sees(fmt.Sprintf(`document.querySelector('[data-id=%q] .tick').dataset.status === "read"`, shown))
	c.phone.Do(chromedp.Click(fmt.Sprintf(`[data-id=%q] .act`, shown)), chromedp.Click(`dialog[open] [aria-label="❤️"]`))
	c.hears("❤️")
	c.says(fmt.Sprintf(`"type":"reaction","reaction":{"message_id":%q,"emoji":"👍"}`, question))
	c.phone.Sees(fmt.Sprintf(`document.querySelector('[data-id=%q] .reactions').textContent === "👍"`, question))

	// A picture from the phone, which the business sends back, and voice notes in both directions.
	picture, voice := attachments(t)
	c.phone.Do(chromedp.SetUploadFiles("#file", []string{picture}))
	known, _ = c.hears(`"type":"image"`)
	c.says(fmt.Sprintf(`"type":"image","image":{"link":%q,"caption":"This one?"}`, known["media_url"]))
	c.phone.Sees(`[...document.querySelectorAll("#thread img")].filter((one) => one.naturalWidth === 480).length === 2`)
	c.phone.Do(chromedp.SetUploadFiles("#file", []string{voice}))
	known, _ = c.hears(`"type":"audio"`)
	c.says(fmt.Sprintf(`"type":"audio","audio":{"link":%q,"voice":true}`, known["media_url"]))
	c.phone.Sees(`document.querySelectorAll("#thread audio").length === 2`)

	// A template with buttons, and a list.
	_, template := c.says(`"type":"template","template":{"name":"order_update","language":{"code":"en_US"},"components":[` +
		`{"type":"body","parameters":[{"type":"text","text":"Ada"},{"type":"text","text":"A-1042"}]},` +
		`{"type":"button","sub_type":"url","index":"1","parameters":[{"type":"text","text":"A-1042"}]}]}`)
	c.phone.Do(chromedp.Click(fmt.Sprintf(`[data-id=%q] .taps button:first-child`, template)))
	c.hears(`"type":"button"`)
	_, list := c.says(`"type":"interactive","interactive":{"type":"list","body":{"text":"What may it be?"},"action":{"button":"Choose",` +
		`"sections":[{"title":"Warm","rows":[{"id":"soup","title":"Soup","description":"of the day"},{"id":"pie","title":"Pie"}]}]}}`)
	c.phone.Do(chromedp.Click(fmt.Sprintf(`[data-id=%q] .taps button`, list)), chromedp.WaitVisible(`dialog[open] .option`))
	c.phone.Screenshot("conversation-list")
	c.phone.Do(chromedp.Click(`dialog[open] .option:last-child`))
	_, chosen := c.hears(`"list_reply"`)
	c.phone.Sees(fmt.Sprintf(`document.querySelector('[data-id=%q]') !== null`, chosen))
	c.phone.Screenshot("conversation")

	var page struct{ Data []map[string]any }
	require.NoError(t, json.Unmarshal(c.do(http.StatusOK, http.MethodGet, "/"+c.ready["phone_number_id"]+"/messages?limit=100", "").body, &page))
	require.Len(t, page.Data, 12)
}
