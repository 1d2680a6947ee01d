package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	devtools "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// granted is the form of the tokens that the simulator grants.
var granted = regexp.MustCompile(`EAAS[A-Z2-7]{52}`)

// traffic is what the browser sent: the addresses, and all headers as they were on the wire.
type traffic struct {
	mu        sync.Mutex
	addresses []string
	headers   []string
}

// listen records the requests of the browser from now on.
func (p *platform) listen() *traffic {
	p.t.Helper()
	seen := &traffic{}
	requests, extras := chromedp.Events(p.Context, devtools.RequestWillBeSent), chromedp.Events(p.Context, devtools.RequestWillBeSentExtraInfo)
	go func() {
		for event, err := range requests {
			if err != nil {
				return
			}
			seen.mu.Lock()
			seen.addresses = append(seen.addresses, event.Request.URL)
			seen.mu.Unlock()
		}
	}()
	go func() {
		for event, err := range extras {
			if err != nil {
				return
			}
			encoded, _ := json.Marshal(event.Headers)
			seen.mu.Lock()
			seen.headers = append(seen.headers, string(encoded))
			seen.mu.Unlock()
		}
	}()
	return seen
}

// code is what the dialog came back with.
func (s *traffic) code() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, address := range s.addresses {
		if parsed, err := url.Parse(address); err == nil && parsed.Path == "/setup/callback" && parsed.Query().Has("code") {
			return parsed.Query().Get("code")
		}
	}
	return ""
}

// TestSetupLink_Secrets_InNoRefererLogOrDump: the link's token, the dialog's code and the granted token are not in a header
// that the browser sends, not in the log and not in the database.
func TestSetupLink_Secrets_InNoRefererLogOrDump(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	setupURL, _ := p.link(fmt.Sprintf(`{"success_redirect_url":%q,"failure_redirect_url":%q}`, p.site+"/connected", p.site+"/failed"))
	_, token, _ := strings.Cut(setupURL, "/setup/")
	require.Len(t, token, 43)
	for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodDelete, "PROPFIND"} {
		for _, address := range []string{setupURL, setupURL + "/", setupURL + "x", setupURL + "/number", p.ready["base_url"] + "/setup/" + token} {
			p.probe(method, address, token)
		}
	}
	seen := p.listen()
	p.open(setupURL)
	p.Do(chromedp.Click("#cancel"))
	p.heading("The platform: /failed")
	p.open(setupURL)
	p.grant("")
	p.Do(chromedp.Click("button.button"))
	p.heading("Activate")
	p.Do(chromedp.SendKeys("#pin", "135790"), chromedp.Click("button.button"))
	p.heading("The platform: /connected")

	code := seen.code()
	require.NotEmpty(t, code)
	second, _ := p.link(`{}`)
	p.open(second)
	p.Do(chromedp.NavigateBack())
	p.heading("Connect your number to")
	address := p.ready["public_url"] + "/setup/callback?code=" + url.QueryEscape(code) + "&state=" + url.QueryEscape(p.state())
	p.Do(chromedp.Navigate(address))
	p.heading("The messaging network did not let us in") // the code was used

	secrets := []string{token, second[len(second)-43:], code}
	p.noReferer(seen, secrets)
	p.noLog(secrets)
	p.noRow(secrets)
}

// probe opens the link as scanners and curious people do: the answer does not repeat the token.
func (p *platform) probe(method, address, token string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, address, http.NoBody)
	require.NoError(p.t, err)
	request.Header.Set("Referer", address)
	direct := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := direct.Do(request)
	require.NoError(p.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	require.NotContains(p.t, fmt.Sprint(response.Header)+string(body), token, "%s %s", method, address)
}

func (p *platform) noReferer(seen *traffic, secrets []string) {
	p.t.Helper()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Greater(p.t, len(seen.headers), 10)
	for _, secret := range secrets {
		require.NotContains(p.t, strings.Join(seen.headers, "\n"), secret)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(p.t, []string{"", ""}, p.referers, "the platform's site")
}

func (p *platform) noLog(secrets []string) {
	p.t.Helper()
	for _, name := range p.process.Files() {
		text, err := os.ReadFile(name)
		require.NoError(p.t, err)
		for _, secret := range secrets {
			require.NotContains(p.t, string(text), secret)
		}
		require.False(p.t, granted.Match(text), "a granted token is logged")
	}
	require.Contains(p.t, p.process.Log(p.t), "onboarding.refused", "the used code was refused")
}

func (p *platform) noRow(secrets []string) {
	p.t.Helper()
	database, err := pgx.Connect(p.t.Context(), p.database)
	require.NoError(p.t, err)
	defer func() { _ = database.Close(p.t.Context()) }()
	tables := map[string]int{}
	require.NoError(p.t, pgtest.EachRow(p.t.Context(), database, func(row pgtest.Row) {
		tables[row.Table]++
		for _, secret := range secrets {
			require.NotContains(p.t, string(row.Text), secret, row.Table)
		}
		require.False(p.t, granted.Match(row.Text), "%s: a granted token is not sealed", row.Table)
	}))
	for _, table := range []string{"setup_links", "accounts", "events", "audit_log", "directory.routes"} {
		require.Positive(p.t, tables[table], "%s in %v", table, tables)
	}
}
