package app_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/network"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

const publicURL = "https://parley.example"

// visitor is a browser with a setup link of a customer of its own.
type visitor struct {
	*tenant

	network        *network.Network
	customer, link string
	setupURL       string
	browser        http.Client
}

func (o *tenant) visitor(t *testing.T, of *network.Network) *visitor {
	t.Helper()
	v := &visitor{tenant: o, network: of}
	v.customer = o.resource(t, http.MethodPost, "/customers", `{"name":"Bay Bakery"}`)["id"].(string)
	link := o.resource(t, http.MethodPost, "/customers/"+v.customer+"/setup_links", `{}`)
	v.link, v.setupURL = link["id"].(string), link["setup_url"].(string)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	v.browser = http.Client{Jar: jar, Transport: v, CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		if to.URL.Host != "parley.example" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return v
}

// resource is the data of an answer.
func (o *tenant) resource(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	got := o.askUntilServed(t, method, path, body)
	require.Less(t, got.status, 300, "%v", got.body)
	return got.body["data"].(map[string]any)
}

// RoundTrip sends a request for the public address to the process.
func (v *visitor) RoundTrip(request *http.Request) (*http.Response, error) {
	there := request.Clone(request.Context())
	there.URL.Scheme, there.URL.Host = "http", strings.TrimPrefix(v.api.URL, "http://")
	return http.DefaultTransport.RoundTrip(there)
}

// send sends a request once, and returns the page or where it redirects to.
func (v *visitor) send(ctx context.Context, method, address string, values url.Values) (status int, shown string, err error) {
	if strings.HasPrefix(address, "/") {
		address = publicURL + address
	}
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(values.Encode()))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := v.browser.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header.Get("Location") + string(body), err
}

// shows is send, repeated while the answer is 503: a process answers so when its machine stands still for a second.
func (v *visitor) shows(t *testing.T, method, address string, values url.Values) (shown string) {
	t.Helper()
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		status, shown, err := v.send(t.Context(), method, address, values)
		require.NoError(t, err)
		if status != http.StatusServiceUnavailable || time.Now().After(until) {
			return shown
		}
	}
}

// chooses goes from the link to the number page and returns the number.
func (v *visitor) chooses(t *testing.T) (number string) {
	t.Helper()
	page := v.shows(t, http.MethodGet, v.setupURL, nil)
	require.Contains(t, page, "Connect your number to")
	to := v.shows(t, http.MethodGet, "/setup/links/"+v.link+"/dialog", nil)
	dialog, err := url.Parse(strings.TrimSpace(to))
	require.NoError(t, err)
	done := v.network.Control(t, "signup", map[string]any{})
	page = v.shows(t, http.MethodGet, "/setup/callback?"+url.Values{
		"state": {dialog.Query().Get("state")}, "code": {done["code"].(string)},
	}.Encode(), nil)
	require.Contains(t, page, "Which number do you want to connect?")
	return done["data"].(map[string]any)["phone_number_id"].(string)
}

func (v *visitor) numberPage() string { return "/setup/links/" + v.link + "/number" }

// form is that of the number page.
func form(number string) url.Values { return url.Values{"phone_number_id": {number}} }

// connects posts the number, and checks what has come of it.
func (v *visitor) connects(t *testing.T, number string) {
	t.Helper()
	require.Contains(t, v.shows(t, http.MethodPost, v.numberPage(), form(number)), "Activate")
	v.connected(t)
}

func (v *visitor) connected(t *testing.T) {
	t.Helper()
	customer := v.resource(t, http.MethodGet, "/customers/"+v.customer, "")
	require.Equal(t, "active", customer["status"])
	require.Len(t, customer["whatsapp_accounts"], 1)
	require.Equal(t, "consumed", v.resource(t, http.MethodGet, "/customers/"+v.customer+"/setup_links/"+v.link, "")["status"])
	require.Contains(t, v.shows(t, http.MethodGet, v.setupURL, nil), "Activate", "the same browser sees the outcome")
}

// posts sends the form of the number page, and returns once the provider is asked. The provider answers when release is closed.
func (v *visitor) posts(t *testing.T, number string) (release, ended chan struct{}) {
	t.Helper()
	release, ended = make(chan struct{}), make(chan struct{})
	asked := make(chan struct{}, 9)
	v.network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/subscribed_apps") {
			asked <- struct{}{}
			<-release
		}
		network.ServeHTTP(w, r)
	})
	go func() {
		defer close(ended)
		for {
			status, _, err := v.send(t.Context(), http.MethodPost, v.numberPage(), form(number))
			if err != nil || status != http.StatusServiceUnavailable || len(asked) > 0 {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return len(asked) > 0 }, 3*time.Minute, 5*time.Millisecond)
	return release, ended
}

// TestMove_SetupLinks_VisitsContinue: visitors are at each step of a visit when the organization moves to another cell.
func TestMove_SetupLinks_VisitsContinue(t *testing.T) {
	t.Parallel()
	messaging := network.New(t, clock.NewSynced())
	f := &fixture{urls: map[string]string{"main": pgtest.URL(t), "second": pgtest.URL(t)}, more: map[string]string{
		"PARLEY_PROVIDER_BASE_URL": messaging.URL, "PARLEY_PROVIDER_APP_ID": simulator.DefaultAppID, "PARLEY_PUBLIC_URL": publicURL,
	}}
	f.start(t)
	mover := f.tenant(t)
	unopened, chosen, done, stuck := mover.visitor(t, messaging), mover.visitor(t, messaging), mover.visitor(t, messaging), mover.visitor(t, messaging)
	number := chosen.chooses(t)
	done.connects(t, done.chooses(t))

	held := stuck.chooses(t)
	release, ended := stuck.posts(t, held)
	moved, err := f.cells.Move(t.Context(), mover.id, audit.Operator(), mover.elsewhere())
	require.NoError(t, err)
	mover.cell = moved.To
	close(release)
	<-ended
	messaging.Twist(nil)

	unopened.connects(t, unopened.chooses(t))
	chosen.connects(t, number)
	done.connected(t)
	// The former cell refused what it had begun. The lease moved along and lapses after a minute; here it is ended.
	if strings.Contains(stuck.shows(t, http.MethodPost, stuck.numberPage(), form(held)), "Connecting your number") {
		f.sql(t, mover.cell, `UPDATE setup_links SET completing_until = now() WHERE org_id = $1`, mover.id.String())
	}
	stuck.connects(t, held)
}
