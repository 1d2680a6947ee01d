package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/browser"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// platform is an organization that onboards a customer, its own site, and a window of the customer's browser.
type platform struct {
	*inbox
	*browser.Browser

	customer, database string
	process            *proc.Process
	// site is where the platform's redirects lead, visited what was opened there, and referers from where.
	site     string
	mu       sync.Mutex
	visited  []url.Values
	referers []string
	order    []string
}

func newPlatform(t *testing.T) *platform {
	t.Helper()
	p := &platform{Browser: browser.Open(t)}
	p.database = newFixture(t).missingDatabase(t)
	p.inbox, p.process = newInbox(t, p.database)
	site := httptest.NewServer(http.HandlerFunc(p.serveSite))
	t.Cleanup(site.Close)
	p.site = site.URL
	p.do(http.StatusCreated, http.MethodPost, "/webhook_subscriptions", fmt.Sprintf(`{"url":%q,"events":["customer.created","customer.updated",
		"customer.archived","customer.onboarded","customer.setup_link.created","customer.setup_link.consumed"]}`, p.site+"/events"))
	p.customer = p.do(http.StatusCreated, http.MethodPost, "/customers", `{"name":"Bay Bakery"}`).data(t)["id"].(string)
	return p
}

// serveSite is the platform's own site: its webhook endpoint, and the pages that end the onboarding.
func (p *platform) serveSite(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/events":
		p.order = append(p.order, r.Header.Get("X-Svc-Event"))
	case "/connected", "/failed":
		p.visited, p.referers = append(p.visited, r.URL.Query()), append(p.referers, r.Header.Get("Referer"))
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<h1>The platform: %s</h1>", r.URL.Path)
	}
}

func (p *platform) link(body string) (setupURL, id string) {
	p.t.Helper()
	made := p.do(http.StatusCreated, http.MethodPost, "/customers/"+p.customer+"/setup_links", body).data(p.t)
	return made["setup_url"].(string), made["id"].(string)
}

// heading waits for a page by its title.
func (p *platform) heading(title string) {
	p.t.Helper()
	p.Sees(fmt.Sprintf(`document.readyState === "complete" && document.querySelector("h1").textContent.includes(%q)`, title))
}

// shoot takes pictures of a page on a phone and on a desktop, light and dark, and checks that it is accessible.
func (p *platform) shoot(name string) {
	p.t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		p.Scheme(scheme)
		for size, view := range map[string][2]int64{"phone": {390, 844}, "desktop": {1280, 800}} {
			p.Do(chromedp.EmulateViewport(view[0], view[1]))
			p.Screenshot("setup-" + name + "-" + size + "-" + scheme)
			require.Empty(p.t, p.Violations(), "%s on a %s, %s", name, size, scheme)
		}
	}
}

// open opens a link and goes to the dialog of the network.
func (p *platform) open(setupURL string) {
	p.t.Helper()
	p.Do(chromedp.Navigate(setupURL))
	p.heading("Connect your number to")
	p.Do(chromedp.Click("a.button"), chromedp.WaitVisible("#finish"))
	p.Sees(`document.querySelector("#account").options.length > 0`)
}

// grant finishes the dialog with a new number. The kind is "" for one that needs a PIN, or "coexistence".
func (p *platform) grant(kind string) {
	p.t.Helper()
	p.Do(chromedp.SetValue("#kind", kind), chromedp.Click("#finish"))
	p.heading("Which number do you want to connect?")
}

func (p *platform) lastVisit() url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.visited[len(p.visited)-1]
}

// TestSetupLink_Browser_CustomerConnectsItsNumber is the whole story: link, page, dialog, number, PIN, redirect, events, message.
func TestSetupLink_Browser_CustomerConnectsItsNumber(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	setupURL, id := p.link(fmt.Sprintf(`{"success_redirect_url":%q}`, p.site+"/connected?from=parley&status=old"))
	p.Do(chromedp.Navigate(setupURL))
	p.heading("Connect your number to")
	p.Sees(`!location.href.includes("` + setupURL[len(setupURL)-20:] + `") && document.body.textContent.includes("Bay Bakery")`)
	p.shoot("welcome")
	p.open(setupURL)
	p.grant("")
	p.shoot("number")
	p.Do(chromedp.Click("button.button"))
	p.heading("Activate")
	p.shoot("pin")
	p.Do(chromedp.SendKeys("#pin", "135790"), chromedp.Click("button.button"))
	p.heading("The platform: /connected")

	account := p.account()
	require.Equal(t, url.Values{
		"from": {"parley"}, "customer_id": {p.customer}, "account_id": {account["id"].(string)}, "status": {"success"},
	}, p.lastVisit())
	require.Equal(t, "connected", account["status"])
	link := p.do(http.StatusOK, http.MethodGet, "/customers/"+p.customer+"/setup_links/"+id, "").data(t)
	require.Equal(t, "consumed", link["status"])
	want := []string{"customer.created", "customer.setup_link.created", "customer.onboarded", "customer.setup_link.consumed"}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.order) >= len(want)
	}, proc.Patience, 20*time.Millisecond)
	require.Equal(t, want, p.order)

	number := account["phone_number_id"].(string)
	p.do(http.StatusAccepted, http.MethodPost, "/"+number+"/messages",
		`{"messaging_product":"chat","to":"+15550100001","type":"text","text":{"body":"Hello from Bay Bakery"}}`)
	require.Eventually(t, func() bool { return strings.Contains(p.sent(number), "15550100001") }, proc.Patience, 50*time.Millisecond)
}

// account is the customer's only number.
func (p *platform) account() map[string]any {
	p.t.Helper()
	all := p.do(http.StatusOK, http.MethodGet, "/customers/"+p.customer, "").data(p.t)["whatsapp_accounts"].([]any)
	require.Len(p.t, all, 1)
	return all[0].(map[string]any)
}

// sent is what the simulator's numbers have sent.
func (p *platform) sent(number string) string {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.ready["simulator_url"]+"/sim/sent?phone_number_id="+number, http.NoBody)
	require.NoError(p.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer func() { _ = response.Body.Close() }()
	var body json.RawMessage
	require.NoError(p.t, json.NewDecoder(response.Body).Decode(&body))
	return string(body)
}

// TestSetupLink_Browser_EveryEnd shows each page on which a visit can end.
func TestSetupLink_Browser_EveryEnd(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	here := func(end, title string) {
		t.Helper()
		p.heading(title)
		p.shoot(end)
	}
	cancelled, _ := p.link(`{}`)
	p.open(cancelled)
	p.Do(chromedp.Click("#cancel"))
	here("cancelled", "You did not finish")
	p.Do(chromedp.Click("a.button"), chromedp.WaitVisible("#finish")) // the link still works

	p.Do(chromedp.Navigate(cancelled), chromedp.Click("a.button"), chromedp.WaitVisible("#finish"))
	p.Sees(`document.querySelector("#account").options.length > 0`)
	p.Do(chromedp.SetValue("#kind", "account"), chromedp.Click("#finish"))
	here("none", "No number was added")

	p.open(cancelled)
	p.Do(chromedp.NavigateBack()) // left half-way
	p.heading("Connect your number to")
	state := p.state()
	p.Do(chromedp.Navigate(p.ready["public_url"] + "/setup/callback?code=wrong&state=" + url.QueryEscape(state)))
	here("provider_error", "The messaging network did not let us in")

	used, _ := p.link(`{}`)
	p.open(used)
	p.grant("coexistence")
	p.Do(chromedp.Click("button.button"))
	here("done", "Your number is connected")
	p.Do(chromedp.NavigateBack())
	p.heading("Your number is connected") // the number page leads to where the visit is
	p.Do(chromedp.Navigate(used))
	p.heading("Your number is connected")
	other := &platform{inbox: p.inbox, Browser: browser.Open(t)} // a browser without the cookie
	other.Do(chromedp.Navigate(used))
	other.heading("This link was used already")
	other.shoot("link_consumed")

	p.open(cancelled)
	p.Sees(`document.querySelector("#number").options.length > 1`)
	p.Do(chromedp.SetValue("#number", p.ready["phone_number_id"]), chromedp.Click("#finish"))
	here("number_in_use", "This number is connected already")

	revoked, id := p.link(`{}`)
	p.do(http.StatusOK, http.MethodDelete, "/customers/"+p.customer+"/setup_links/"+id, "")
	p.Do(chromedp.Navigate(revoked))
	here("link_revoked", "This link was withdrawn")

	away, _ := p.link(fmt.Sprintf(`{"failure_redirect_url":%q}`, p.site+"/failed?status=old"))
	p.open(away)
	p.Do(chromedp.Click("#cancel"))
	p.heading("The platform: /failed")
	require.Equal(t, url.Values{"customer_id": {p.customer}, "status": {"failed"}, "reason": {"cancelled"}}, p.lastVisit())

	expired, _ := p.link(`{}`)
	database, err := pgx.Connect(t.Context(), p.database)
	require.NoError(t, err)
	defer func() { _ = database.Close(t.Context()) }()
	_, err = database.Exec(t.Context(), `UPDATE setup_links SET expires_at = now() - interval '1 minute' WHERE token_last4 = right($1, 4)`, expired)
	require.NoError(t, err)
	p.Do(chromedp.Navigate(expired))
	here("link_expired", "This link has expired")

	p.do(http.StatusOK, http.MethodPatch, "/customers/"+p.customer, `{"status":"suspended"}`)
	p.Do(chromedp.Navigate(cancelled))
	here("customer_inactive", "This invitation is on hold")
	p.Do(chromedp.Navigate(p.ready["public_url"] + "/setup/" + strings.Repeat("x", 43)))
	here("unknown", "This link is not valid")
	p.Do(chromedp.Navigate(p.ready["public_url"] + "/setup/links/" + id + "x"))
	here("session", "This page has been open too long")
}

// state is what the dialog would carry: the page's link to the dialog redirects there.
func (p *platform) state() string {
	p.t.Helper()
	p.Do(chromedp.Click("a.button"), chromedp.WaitVisible("#finish"))
	location, err := chromedp.Run(p.Context, chromedp.Location())
	require.NoError(p.t, err)
	parsed, err := url.Parse(location)
	require.NoError(p.t, err)
	return parsed.Query().Get("state")
}

// TestSetupLink_Keyboard_EnoughForTheWholeJourney uses Tab, Enter, Space and digits.
func TestSetupLink_Keyboard_EnoughForTheWholeJourney(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	setupURL, _ := p.link(`{}`)
	p.Do(chromedp.Navigate(setupURL))
	p.heading("Connect your number to")
	p.Do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	p.Sees(`document.querySelector("#account").options.length > 0`)
	p.grant("") // the simulator's dialog is not ours
	p.Do(chromedp.KeyEvent(kb.Tab))
	p.Sees(`document.activeElement.type === "radio"`)
	p.Do(chromedp.KeyEvent(kb.Tab))
	p.Sees(`document.activeElement.tagName === "BUTTON"`)
	p.Do(chromedp.KeyEvent(kb.Enter))
	p.heading("Activate")
	p.Do(chromedp.KeyEvent(kb.Tab))
	p.Sees(`document.activeElement.id === "pin"`)
	p.Do(chromedp.KeyEvent("246802"), chromedp.KeyEvent(kb.Enter))
	p.heading("Your number is connected")
}

// TestSetupLink_TwoTabs_OneNumber: both tabs go to the dialog, and both come back.
func TestSetupLink_TwoTabs_OneNumber(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	setupURL, _ := p.link(`{}`)
	p.open(setupURL)
	second := p.Tab()
	other := &platform{inbox: p.inbox, Browser: second, customer: p.customer}
	other.open(setupURL)
	p.grant("")
	other.grant("")
	first, err := chromedp.Run(p.Context, chromedp.Evaluate[string](`document.querySelector("[type=radio]").value`))
	require.NoError(t, err)
	p.Do(chromedp.Click("button.button"))
	p.Sees(fmt.Sprintf(`document.querySelector("[type=radio]").value !== %q`, first)) // the second tab was granted another one
	p.Do(chromedp.Click("button.button"))
	p.heading("Activate")
	other.Do(chromedp.Click("button.button"))
	other.heading("Activate")
	p.account()
}
