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
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/simulator"
)

type object = map[string]any

// stage is a browser in front of a simulator, with an app that hears its callbacks.
type stage struct {
	t       *testing.T
	browser context.Context //nolint:containedctx // the browser is one
	url     string

	mu    sync.Mutex
	heard []object // messages of users
}

// patience is how long the browser may take for anything, on a machine that is busy with others.
const patience = time.Minute

// chromium is found, or installed, once for all tests.
var chromium = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("../../../scripts/browser.sh").Output()
	return strings.TrimSpace(string(path)), err
})

func setUp(t *testing.T, more ...chromedp.ExecAllocatorOption) *stage {
	t.Helper()
	if os.Getenv("PARLEY_BROWSER") == "none" {
		t.Skip("PARLEY_BROWSER=none")
	}
	path, err := chromium()
	require.NoError(t, err, "scripts/browser.sh finds or installs Chromium")
	s := &stage{t: t}
	app := httptest.NewServer(http.HandlerFunc(s.hear))
	t.Cleanup(app.Close)
	sim := simulator.New(simulator.Config{CallbackURL: app.URL})
	server := httptest.NewServer(sim.Handler())
	s.url = server.URL
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		server.CloseClientConnections()
		server.Close()
	})
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience))
	options = append(options, more...)
	allocator, free := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(free)
	browser, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(closeBrowser)
	limited, cancel := context.WithTimeout(browser, 4*patience)
	t.Cleanup(cancel)
	s.browser = limited
	return s
}

func (s *stage) hear(_ http.ResponseWriter, r *http.Request) {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range body.Entry {
		for _, change := range entry.Changes {
			s.heard = append(s.heard, change.Value.Messages...)
		}
	}
}

// told waits until the app heard a message of a type from the user, and returns it.
func (s *stage) told(kind string) (message object) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, one := range s.heard {
			if one["type"] == kind {
				message, s.heard = one, append(s.heard[:i:i], s.heard[i+1:]...)
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond, "the app hears of a %s", kind)
	return message
}

// do makes the browser do something.
func (s *stage) do(steps ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	require.NoError(s.t, chromedp.Do(s.browser, steps...))
}

// sees waits until an expression is true on the page.
func (s *stage) sees(expression string) {
	s.t.Helper()
	_, err := chromedp.Run(s.browser, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience)))
	require.NoError(s.t, err, expression)
}

// picture keeps a screenshot where PARLEY_SCREENSHOTS says, for a person to look at.
func (s *stage) picture(name string) {
	s.t.Helper()
	shot, err := chromedp.Run(s.browser, chromedp.CaptureScreenshot())
	require.NoError(s.t, err)
	if folder := os.Getenv("PARLEY_SCREENSHOTS"); folder != "" {
		require.NoError(s.t, os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o600))
	}
}

// send sends through the network's API, as a business does.
func (s *stage) send(message object) string {
	s.t.Helper()
	message["messaging_product"], message["to"] = "whatsapp", "+15550100001"
	answer := s.post("/v24.0/100000000000001/messages", message)
	var accepted struct {
		Messages []struct {
			ID string `json:"id"`
		} `json:"messages"`
	}
	require.NoError(s.t, json.Unmarshal(answer, &accepted))
	return accepted.Messages[0].ID
}

func (s *stage) post(path string, what object) []byte {
	s.t.Helper()
	body, err := json.Marshal(what)
	require.NoError(s.t, err)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	request.Header.Set("Authorization", "Bearer "+simulator.DefaultToken)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, string(answer))
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

func TestPhone_APersonAnswersTheBusiness(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	s.do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.url+"/"))
	s.sees(`document.querySelector("#live").textContent === "live"`)
	s.do(chromedp.Click(`.person[data-phone="15550100001"]`))

	id := s.send(object{"type": "text", "text": object{"body": "Hello Ada, <b>how</b> are you? 🌞"}})
	s.sees(has("Hello Ada, <b>how</b> are you? 🌞")) // shown as text, without a reload
	s.sees(`document.querySelector('[data-id="` + id + `"] .tick')?.dataset.status === "read"`)

	s.do(chromedp.SendKeys("#text", "Very well, thank you!\r"))
	require.Equal(t, "Very well, thank you!", s.told("text")["text"].(object)["body"])

	asked := s.send(object{"type": "interactive", "interactive": object{
		"type": "button", "header": object{"type": "text", "text": "Your order A-1042"}, "body": object{"text": "Shall we bring it today?"},
		"footer": object{"text": "Between 9 and 17"}, "action": object{"buttons": []object{
			{"type": "reply", "reply": object{"id": "yes", "title": "Yes, please"}}, {"type": "reply", "reply": object{"id": "no", "title": "Tomorrow"}},
		}},
	}})
	s.do(chromedp.Click(`[data-id="` + asked + `"] .taps button:first-child`))
	tapped := s.told("interactive")
	require.Equal(t, object{"type": "button_reply", "button_reply": object{"id": "yes", "title": "Yes, please"}}, tapped["interactive"])
	require.Equal(t, asked, tapped["context"].(object)["id"])
	require.Equal(t, "15550199001", tapped["context"].(object)["from"])

	listed := s.send(object{"type": "interactive", "interactive": object{
		"type": "list", "body": object{"text": "What may it be?"}, "action": object{"button": "Choose a dish", "sections": []object{
			{"title": "Warm", "rows": []object{{"id": "soup", "title": "Soup", "description": "of the day"}, {"id": "pie", "title": "Pie"}}},
			{"title": "Cold", "rows": []object{{"id": "salad", "title": "Salad", "description": "with olives"}}},
		}},
	}})
	s.do(chromedp.Click(`[data-id="`+listed+`"] .taps button`), chromedp.WaitVisible(`dialog[open] .option`))
	s.picture("list")
	s.do(chromedp.Click(`dialog[open] .option:last-child`))
	require.Equal(t, object{"id": "salad", "title": "Salad", "description": "with olives"}, s.told("interactive")["interactive"].(object)["list_reply"])

	s.do(chromedp.Click(`[data-id="`+id+`"] .act`), chromedp.Click(`dialog[open] [aria-label="❤️"]`))
	require.Equal(t, object{"message_id": id, "emoji": "❤️"}, s.told("reaction")["reaction"])
	s.sees(`document.querySelector('[data-id="` + id + `"] .reactions')?.textContent === "❤️"`)

	s.do(chromedp.SetUploadFiles("#file", []string{photo(t)}))
	sent := s.told("image")["image"].(object)
	require.Equal(t, "image/png", sent["mime_type"])
	s.sees(`document.querySelector(".bubble.mine img")?.naturalWidth === 480`)

	template := s.send(object{"type": "template", "template": object{"name": "order_update", "language": object{"code": "en_US"}, "components": []object{
		{"type": "body", "parameters": []object{{"type": "text", "text": "Ada"}, {"type": "text", "text": "A-1042"}}},
		{"type": "button", "sub_type": "url", "index": "1", "parameters": []object{{"type": "text", "text": "A-1042"}}},
	}}})
	s.do(chromedp.Click(`[data-id="` + template + `"] .taps button:first-child`))
	require.Equal(t, object{"payload": "Thanks", "text": "Thanks"}, s.told("button")["button"])
	s.sees(has("Hi Ada, your order A-1042 is on its way."))
	s.post("/sim/script", object{"match": object{"to": "15550100001"}, "outcome": object{"async_code": 131049}, "times": 1})
	s.send(object{"type": "text", "text": object{"body": "You will not get this one."}})
	s.sees(has("131049: This message was not delivered"))
	s.picture("laptop")

	s.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2)))
	s.sees(`getComputedStyle(document.querySelector("aside")).display === "none"`)
	s.picture("phone")
	s.do(chromedp.Click("#back"), chromedp.WaitVisible(".person"))
	s.picture("phone-list")
	s.sees(`performance.getEntriesByType("resource").every((one) => one.name.startsWith(location.origin))`) // no other host
}

func TestSignup_GivesACode(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	s.do(chromedp.EmulateViewport(520, 760),
		chromedp.Navigate(s.url+"/v24.0/dialog/oauth?client_id="+simulator.DefaultAppID+"&state=st4te&redirect_uri="+s.url+"/page/icon.svg"))
	s.sees(`document.querySelectorAll("#account option").length > 1`)
	s.picture("signup")
	s.do(chromedp.SetValue("#name", "Corner Shop"), chromedp.Click("#finish"))
	code := ""
	require.Eventually(t, func() bool { // a poll on the page would not survive that it goes elsewhere
		location, _ := chromedp.Run(s.browser, chromedp.Location())
		reached, _ := url.Parse(location)
		code = reached.Query().Get("code")
		return code != "" && reached.Query().Get("state") == "st4te"
	}, patience, 50*time.Millisecond)
	response, err := http.Get(s.url + "/v24.0/oauth/access_token?client_id=" + simulator.DefaultAppID +
		"&client_secret=" + simulator.DefaultAppSecret + "&code=" + code)
	require.NoError(t, err)
	defer response.Body.Close()
	var answer object
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.NotEmpty(t, answer["access_token"])
}

func TestSignup_InAPopup(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	opener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><button onclick="FB.login((answer) => { window.answer = answer }, { config_id: '1', response_type: 'code' })">Go</button>
			<script>window.heard = []; addEventListener("message", (event) => heard.push(event.data));
			window.fbAsyncInit = () => FB.init({ appId: "`+simulator.DefaultAppID+`", version: "v24.0" })</script>
			<script src="`+s.url+`/en_US/sdk.js"></script>`)
	}))
	defer opener.Close()
	s.do(chromedp.Navigate(opener.URL))
	opened := chromedp.WaitNewTarget(s.browser, func(info *target.Info) bool { return strings.Contains(info.URL, "/dialog/oauth") })
	s.do(chromedp.Click("button"))
	popup, closePopup := chromedp.NewContext(s.browser, chromedp.WithTargetID(<-opened))
	defer closePopup()
	_, err := chromedp.Run(popup, chromedp.Poll[bool](`document.querySelectorAll("#account option").length > 1`, chromedp.WithPollingTimeout(patience)))
	require.NoError(t, err)
	_ = chromedp.Do(popup, chromedp.Click("#finish")) // closes the popup under the driver's feet
	s.sees(`window.answer?.authResponse?.code?.length > 20`)
	s.sees(`heard.some((data) => typeof data === "string" && JSON.parse(data).type === "WA_EMBEDDED_SIGNUP" && JSON.parse(data).data.phone_number_id)`)
}

func TestPhone_ShowsEveryKind(t *testing.T) {
	t.Parallel()
	s := setUp(t, chromedp.Flag("blink-settings", "preferredColorScheme=0"))
	s.do(chromedp.EmulateViewport(1180, 1500), chromedp.Navigate(s.url+"/#100000000000001/15550100001"))
	s.sees(`document.querySelector("#live").textContent === "live"`)
	s.post("/sim/settings", object{"fetch_links": false})
	for _, message := range []object{
		{"type": "location", "location": object{"latitude": 38.7, "longitude": -9.1, "name": "Our shop", "address": "Praça do Comércio 1"}},
		{"type": "document", "document": object{"link": s.url + "/page/icon.svg", "filename": "invoice.pdf", "caption": "Your invoice"}},
		{"type": "contacts", "contacts": []object{{"name": object{"formatted_name": "Grace Hopper"}, "phones": []object{{"phone": "+1 555 010 0002"}}}}},
		{"type": "interactive", "interactive": object{
			"type": "cta_url", "header": object{"type": "text", "text": "Opening hours"}, "body": object{"text": "See when we are open."},
			"action": object{"name": "cta_url", "parameters": object{"display_text": "Show", "url": "https://example.com"}},
		}},
	} {
		s.send(message)
	}
	for _, kind := range []string{"image", "video", "audio", "document", "sticker", "location", "contacts", "order", "unsupported"} {
		s.post("/sim/inbound", object{"from": "15550100001", "type": kind})
		s.told(kind)
	}
	s.post("/sim/echo", object{"to": "15550100001", "type": "text", "text": object{"body": "Typed in the phone app"}})
	s.sees(`document.querySelectorAll(".bubble").length === 14`)
	s.sees(`[...document.querySelectorAll(".bubble")].at(-1).textContent.includes("Typed in the phone app")`)
	s.sees(`[...document.querySelectorAll(".bubble")].slice(0, 5).map((one) => one.dataset.type).join() === "location,document,contacts,interactive,image"`)
	s.picture("kinds")
}
