package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/browser"
)

type object = map[string]any

// fixture is a browser, a simulator and an app that receives its callbacks.
type fixture struct {
	*browser.Browser

	t   *testing.T
	url string

	mu       sync.Mutex
	received []object      // messages of users
	status   int           // of the app's answers; 0: no answer until it is changed
	changed  chan struct{} // closed when status is changed
}

func newFixture(t *testing.T, more ...chromedp.ExecAllocatorOption) *fixture {
	t.Helper()
	f := &fixture{Browser: browser.Open(t, more...), t: t, status: http.StatusOK, changed: make(chan struct{})}
	app := httptest.NewServer(http.HandlerFunc(f.receive))
	t.Cleanup(app.Close)
	sim := simulator.New(simulator.Config{CallbackURL: app.URL})
	server := httptest.NewServer(sim.Handler())
	f.url = server.URL
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		server.CloseClientConnections()
		server.Close()
	})
	return f
}

// answer sets the status of the app's answers to callbacks; with 0 it does not answer until that is changed.
func (f *fixture) answer(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.status, f.changed = status, make(chan struct{})
}

func (f *fixture) receive(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Entry []struct {
			Changes []struct {
				Value struct {
					Messages []object `json:"messages"`
				} `json:"value"`
			} `json:"changes"`
		} `json:"entry"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.status == 0 && r.Context().Err() == nil {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		f.mu.Lock()
	}
	if f.status != http.StatusOK {
		w.WriteHeader(f.status)
		return
	}
	for _, entry := range body.Entry {
		for _, change := range entry.Changes {
			f.received = append(f.received, change.Value.Messages...)
		}
	}
}

// callback waits until the app received a user's message of a type, and returns it.
func (f *fixture) callback(kind string) (message object) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, one := range f.received {
			if one["type"] == kind {
				message, f.received = one, append(f.received[:i:i], f.received[i+1:]...)
				return true
			}
		}
		return false
	}, browser.Patience, 10*time.Millisecond, "the app receives a %s", kind)
	return message
}

// send sends a message of the business through the provider's API.
func (f *fixture) send(message object) string {
	f.t.Helper()
	message["messaging_product"], message["to"] = "whatsapp", "+15550100001"
	answer := f.post("/v24.0/100000000000001/messages", message)
	var accepted struct {
		Messages []struct {
			ID string `json:"id"`
		} `json:"messages"`
	}
	require.NoError(f.t, json.Unmarshal(answer, &accepted))
	return accepted.Messages[0].ID
}

func (f *fixture) post(path string, what object) []byte {
	f.t.Helper()
	body, err := json.Marshal(what)
	require.NoError(f.t, err)
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+path, bytes.NewReader(body))
	require.NoError(f.t, err)
	request.Header.Set("Authorization", "Bearer "+simulator.DefaultToken)
	response, err := http.DefaultClient.Do(request)
	require.NoError(f.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	require.Equal(f.t, http.StatusOK, response.StatusCode, string(answer))
	return answer
}

func photo(t *testing.T) string {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, 480, 320))
	for y := range 320 {
		for x := range 480 {
			picture.Set(x, y, color.RGBA{R: uint8(x / 2), G: uint8(160 - y/4), B: uint8(y / 2), A: 255})
		}
	}
	path := filepath.Join(t.TempDir(), "sunset.png")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, png.Encode(file, picture))
	require.NoError(t, file.Close())
	return path
}

func has(text string) string {
	return `document.querySelector("#thread").textContent.includes(` + quoted(text) + `)`
}

func quoted(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}

func TestPhone_UserAnswers_BusinessReceivesCallbacks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(f.url+"/"))
	f.Sees(`document.querySelector("#live").textContent === "live"`)
	f.Do(chromedp.Click(`.person[data-phone="15550100001"]`))

	id := f.send(object{"type": "text", "text": object{"body": "Hello Ada, <b>how</b> are you? 🌞"}})
	f.Sees(has("Hello Ada, <b>how</b> are you? 🌞")) // shown as text, without a reload
	f.Sees(`document.querySelector('[data-id="` + id + `"] .tick')?.dataset.status === "read"`)

	f.Do(chromedp.SendKeys("#text", "Very well, thank you!\r"))
	require.Equal(t, "Very well, thank you!", f.callback("text")["text"].(object)["body"])

	asked := f.send(object{"type": "interactive", "interactive": object{
		"type": "button", "header": object{"type": "text", "text": "Your order A-1042"}, "body": object{"text": "Shall we bring it today?"},
		"footer": object{"text": "Between 9 and 17"}, "action": object{"buttons": []object{
			{"type": "reply", "reply": object{"id": "yes", "title": "Yes, please"}}, {"type": "reply", "reply": object{"id": "no", "title": "Tomorrow"}},
		}},
	}})
	f.Do(chromedp.Click(`[data-id="` + asked + `"] .taps button:first-child`))
	tapped := f.callback("interactive")
	require.Equal(t, object{"type": "button_reply", "button_reply": object{"id": "yes", "title": "Yes, please"}}, tapped["interactive"])
	require.Equal(t, asked, tapped["context"].(object)["id"])
	require.Equal(t, "15550199001", tapped["context"].(object)["from"])

	listed := f.send(object{"type": "interactive", "interactive": object{
		"type": "list", "body": object{"text": "What may it be?"}, "action": object{"button": "Choose a dish", "sections": []object{
			{"title": "Warm", "rows": []object{{"id": "soup", "title": "Soup", "description": "of the day"}, {"id": "pie", "title": "Pie"}}},
			{"title": "Cold", "rows": []object{{"id": "salad", "title": "Salad", "description": "with olives"}}},
		}},
	}})
	f.Do(chromedp.Click(`[data-id="`+listed+`"] .taps button`), chromedp.WaitVisible(`dialog[open] .option`))
	f.Screenshot("list")
	f.Do(chromedp.Click(`dialog[open] .option:last-child`))
	require.Equal(t, object{"id": "salad", "title": "Salad", "description": "with olives"}, f.callback("interactive")["interactive"].(object)["list_reply"])

	f.Do(chromedp.Click(`[data-id="`+id+`"] .act`), chromedp.Click(`dialog[open] [aria-label="❤️"]`))
	require.Equal(t, object{"message_id": id, "emoji": "❤️"}, f.callback("reaction")["reaction"])
	f.Sees(`document.querySelector('[data-id="` + id + `"] .reactions')?.textContent === "❤️"`)

	f.Do(chromedp.SetUploadFiles("#file", []string{photo(t)}))
	sent := f.callback("image")["image"].(object)
	require.Equal(t, "image/png", sent["mime_type"])
	f.Sees(`document.querySelector(".bubble.mine img")?.naturalWidth === 480`)

	template := f.send(object{"type": "template", "template": object{"name": "order_update", "language": object{"code": "en_US"}, "components": []object{
		{"type": "body", "parameters": []object{{"type": "text", "text": "Ada"}, {"type": "text", "text": "A-1042"}}},
		{"type": "button", "sub_type": "url", "index": "1", "parameters": []object{{"type": "text", "text": "A-1042"}}},
	}}})
	f.Do(chromedp.Click(`[data-id="` + template + `"] .taps button:first-child`))
	require.Equal(t, object{"payload": "Thanks", "text": "Thanks"}, f.callback("button")["button"])
	f.Sees(has("Hi Ada, your order A-1042 is on its way."))
	f.post("/sim/script", object{"match": object{"to": "15550100001"}, "outcome": object{"async_code": 131049}, "times": 1})
	f.send(object{"type": "text", "text": object{"body": "You will not get this one."}})
	f.Sees(has("131049: This message was not delivered"))
	f.Screenshot("laptop")

	f.Do(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2)))
	f.Sees(`getComputedStyle(document.querySelector("aside")).display === "none"`)
	f.Screenshot("phone")
	f.Do(chromedp.Click("#back"), chromedp.WaitVisible(".person"))
	f.Screenshot("phone-list")
	f.Sees(`performance.getEntriesByType("resource").every((one) => one.name.startsWith(location.origin))`) // no other host
}

func TestSignup_Redirect_CarriesACode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Do(chromedp.EmulateViewport(520, 760),
		chromedp.Navigate(f.url+"/v24.0/dialog/oauth?client_id="+simulator.DefaultAppID+"&state=st4te&redirect_uri="+f.url+"/page/icon.svg"))
	f.Sees(`document.querySelectorAll("#account option").length > 1`)
	f.Screenshot("signup")
	f.Do(chromedp.SetValue("#name", "Corner Shop"), chromedp.Click("#finish"))
	code := ""
	require.Eventually(t, func() bool { // a poll in the page would end with the redirect
		location, _ := chromedp.Run(f.Context, chromedp.Location())
		reached, _ := url.Parse(location)
		code = reached.Query().Get("code")
		return code != "" && reached.Query().Get("state") == "st4te"
	}, browser.Patience, 50*time.Millisecond)
	response, err := http.Get(f.url + "/v24.0/oauth/access_token?client_id=" + simulator.DefaultAppID +
		"&client_secret=" + simulator.DefaultAppSecret + "&code=" + code)
	require.NoError(t, err)
	defer response.Body.Close()
	var answer object
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.NotEmpty(t, answer["access_token"])
}

func TestSignup_Popup_PostsACode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	opener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><button onclick="FB.login((answer) => { window.answer = answer }, { config_id: '1', response_type: 'code' })">Go</button>
			<script>window.heard = []; addEventListener("message", (event) => heard.push(event.data));
			window.fbAsyncInit = () => FB.init({ appId: "`+simulator.DefaultAppID+`", version: "v24.0" })</script>
			<script src="`+f.url+`/en_US/sdk.js"></script>`)
	}))
	defer opener.Close()
	f.Do(chromedp.Navigate(opener.URL))
	opened := chromedp.WaitNewTarget(f.Context, func(info *target.Info) bool { return strings.Contains(info.URL, "/dialog/oauth") })
	f.Do(chromedp.Click("button"))
	popup, closePopup := chromedp.NewContext(f.Context, chromedp.WithTargetID(<-opened))
	defer closePopup()
	_, err := chromedp.Run(popup, chromedp.Poll[bool](`document.querySelectorAll("#account option").length > 1`, chromedp.WithPollingTimeout(browser.Patience)))
	require.NoError(t, err)
	_ = chromedp.Do(popup, chromedp.Click("#finish")) // fails, because the click closes the popup
	f.Sees(`window.answer?.authResponse?.code?.length > 20`)
	f.Sees(`heard.some((data) => typeof data === "string" && JSON.parse(data).type === "WA_EMBEDDED_SIGNUP" && JSON.parse(data).data.phone_number_id)`)
}
