package e2e_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/browser"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// author submits templates of the demo number.
type author struct{ *inbox }

func (a author) path(name string) string {
	return "/" + a.ready["phone_number_id"] + "/templates/" + name
}

func (a author) create(body string) map[string]any {
	a.t.Helper()
	return a.do(http.StatusCreated, http.MethodPost, "/"+a.ready["phone_number_id"]+"/templates", body).data(a.t)
}

// becomes waits until a template has a value.
func (a author) becomes(name, field string, want any) map[string]any {
	a.t.Helper()
	var now map[string]any
	require.Eventually(a.t, func() bool {
		now = a.do(http.StatusOK, http.MethodGet, a.path(name), "").data(a.t)
		return now[field] == want
	}, proc.Patience, 50*time.Millisecond, "%s of %s is not %v", field, name, want)
	return now
}

// review has the network decide about a template; it tells us by a callback.
func (a author) review(template map[string]any, event, reason string) {
	a.t.Helper()
	a.sim("templates/"+template["provider_template_id"].(string)+"/review", fmt.Sprintf(`{"event":%q,"reason":%q}`, event, reason))
}

func plainTemplate(name string) string {
	return fmt.Sprintf(`{"name":%q,"language":"en_US","category":"UTILITY","components":[
		{"type":"BODY","text":"Your order {{1}} is ready. See you.","example":{"body_text":[["1042"]]}}]}`, name)
}

// TestTemplates_Reviews_FollowTheNetwork goes through what the network can decide about a template.
func TestTemplates_Reviews_FollowTheNetwork(t *testing.T) {
	t.Parallel()
	inbox, _ := newInbox(t, newFixture(t).missingDatabase(t))
	a := author{inbox}
	a.sim("settings", `{"review_delay_ms":-1}`)
	template := a.create(plainTemplate("story"))
	require.Equal(t, "pending", template["status"])

	a.review(template, "REJECTED", "INVALID_FORMAT")
	require.Equal(t, "INVALID_FORMAT", a.becomes("story", "status", "rejected")["rejection_reason"])
	edited := a.do(http.StatusOK, http.MethodPatch, a.path("story"),
		`{"components":[{"type":"BODY","text":"Order {{1}} is ready now.","example":{"body_text":[["7"]]}}]}`).data(t)
	require.Equal(t, []any{"pending", "Order {{1}} is ready now.", nil}, []any{edited["status"], edited["content"], edited["rejection_reason"]})
	a.review(template, "APPROVED", "")
	a.becomes("story", "status", "approved")

	a.do(http.StatusAccepted, http.MethodPost, "/"+a.ready["phone_number_id"]+"/messages", `{"messaging_product":"chat","to":"+15550100001","type":"template",
		"template":{"name":"story","language":{"code":"en_US"},"components":[{"type":"body","parameters":[{"type":"text","text":"42"}]}]}}`)
	a.told("message.sent", "Order 42 is ready now.")

	a.review(template, "PAUSED", "")
	require.Equal(t, "PAUSED", a.becomes("story", "status", "rejected")["provider_status"])
	a.review(template, "APPROVED", "")
	a.becomes("story", "status", "approved")
	a.sim("templates/"+template["provider_template_id"].(string)+"/category", `{"new_category":"MARKETING"}`)
	a.becomes("story", "category", "MARKETING")

	refused, err := a.caller.do(t.Context(), call{method: http.MethodPost, path: "/" + a.ready["phone_number_id"] + "/templates", body: plainTemplate("story")})
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, refused.status, "a duplicate")
	a.remove("story")
	a.do(http.StatusOK, http.MethodPost, "/"+a.ready["phone_number_id"]+"/templates/sync", "")
	a.do(http.StatusNotFound, http.MethodGet, a.path("story"), "")
}

// remove deletes a template at the network, as its own console does.
func (a author) remove(name string) {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodDelete,
		a.ready["simulator_url"]+"/v24.0/400000000000001/message_templates?name="+url.QueryEscape(name), http.NoBody)
	require.NoError(a.t, err)
	request.Header.Set("Authorization", "Bearer simulator-token")
	response, err := http.DefaultClient.Do(request)
	require.NoError(a.t, err)
	_ = response.Body.Close()
	require.Equal(a.t, http.StatusOK, response.StatusCode)
}

// TestTemplates_HeaderAndCarousel_SeenOnThePhone submits templates with files, sends them, and looks at the phone.
func TestTemplates_HeaderAndCarousel_SeenOnThePhone(t *testing.T) {
	t.Parallel()
	window := browser.Open(t)
	inbox, _ := newInbox(t, newFixture(t).missingDatabase(t))
	a := author{inbox}
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, image.NewGray(image.Rect(0, 0, 64, 48))))
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Content-Length", fmt.Sprint(file.Len()))
		_, _ = w.Write(file.Bytes())
	}))
	t.Cleanup(host.Close)
	header := fmt.Sprintf(`{"type":"HEADER","format":"IMAGE","example":{"header_url":%q}}`, host.URL+"/a.png")
	a.create(fmt.Sprintf(`{"name":"with_picture","language":"en","category":"MARKETING","components":[%s,{"type":"BODY","text":"Look at this."}]}`, header))
	card := fmt.Sprintf(`{"components":[%s,{"type":"BODY","text":"A card."},{"type":"BUTTONS","buttons":[{"type":"QUICK_REPLY","text":"I want it"}]}]}`, header)
	a.create(fmt.Sprintf(`{"name":"with_cards","language":"en","category":"MARKETING","components":[{"type":"BODY","text":"Choose one."},{"type":"CAROUSEL","cards":[%s]}]}`,
		strings.Repeat(card+",", 2)+card))
	a.becomes("with_picture", "status", "approved")
	a.becomes("with_cards", "status", "approved")

	picture := fmt.Sprintf(`{"type":"header","parameters":[{"type":"image","image":{"link":%q}}]}`, host.URL+"/a.png")
	var cards []string
	for i := range 3 {
		cards = append(cards, fmt.Sprintf(`{"card_index":%d,"components":[%s,{"type":"button","sub_type":"quick_reply","index":"0","parameters":[{"type":"payload","payload":"c%d"}]}]}`,
			i, picture, i))
	}
	for _, template := range []string{
		fmt.Sprintf(`{"name":"with_picture","language":{"code":"en"},"components":[%s]}`, picture),
		fmt.Sprintf(`{"name":"with_cards","language":{"code":"en"},"components":[{"type":"carousel","cards":[%s]}]}`, strings.Join(cards, ",")),
	} {
		a.do(http.StatusAccepted, http.MethodPost, "/"+a.ready["phone_number_id"]+"/messages",
			`{"messaging_product":"chat","to":"+15550100001","type":"template","template":`+template+`}`)
	}
	window.Do(chromedp.EmulateViewport(390, 844), chromedp.Navigate(a.ready["simulator_url"]+"/#"+a.ready["phone_number_id"]+"/15550100001"))
	window.Sees(`document.body.textContent.includes("Look at this.") && document.body.textContent.includes("Choose one.")`)
	window.Sees(`document.body.textContent.split("I want it").length > 3`)
	window.Sees(`[...document.images].filter((one) => one.complete && one.naturalWidth === 64).length >= 4`)
	window.Screenshot("phone-templates")
}
