package onboarding_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/edge/onboarding"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

type object = map[string]any

// fixture is an organization with a customer, and the pages of its setup links.
type fixture struct {
	*factory.World

	org      orgs.ID
	customer customers.Customer
	pages    http.Handler
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return setupIn(t, factory.New(t))
}

// setupIn is setup in a world that exists.
func setupIn(t *testing.T, w *factory.World) *fixture {
	t.Helper()
	org, _ := w.Org(t)
	f := &fixture{World: w, org: org, customer: w.Customer(t, org)}
	f.pages = f.pagesOf(t, map[string]*cell.Cell{w.Name: w.Cell})
	return f
}

// pagesOf are the pages of a process that serves some cells.
func (f *fixture) pagesOf(t *testing.T, cells map[string]*cell.Cell) http.Handler {
	t.Helper()
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	w := f.World
	pages, err := onboarding.New(onboarding.Deps{
		Cells: cells, Directory: w.Directory, Clock: w.Clock, Ring: ring, Logger: w.Logger,
		Guesses: ratelimit.NewLocal(ratelimit.Limit{PerSecond: 1, Burst: 60}, w.Clock), PublicURL: factory.PublicURL,
	})
	require.NoError(t, err)
	return pages
}

// rename gives the organization a name.
func (f *fixture) rename(t *testing.T, name string) {
	t.Helper()
	_, err := postgres.InTx(t.Context(), f.DB, f.org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `UPDATE organizations SET name = @name WHERE org_id = @org_id`, postgres.Args{"name": name})
	})
	require.NoError(t, err)
}

func (f *fixture) link(t *testing.T, draft setuplinks.Draft) setuplinks.Created {
	t.Helper()
	made, err := f.SetupLinks.Create(t.Context(), f.org, audit.Operator(), f.customer.ID, draft)
	require.NoError(t, err)
	return made
}

func (f *fixture) status(t *testing.T, link setuplinks.Created) setuplinks.Status {
	t.Helper()
	now, err := f.SetupLinks.Get(t.Context(), f.org, f.customer.ID, link.ID)
	require.NoError(t, err)
	return now.Status
}

// browser keeps cookies, and follows redirects inside of the pages.
type browser struct {
	f    *fixture
	http http.Client
	// seen are all answers, redirects included.
	seen []*http.Response
}

func (f *fixture) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	b := &browser{f: f}
	b.http = http.Client{Jar: jar, Transport: b, CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(to.URL.String(), factory.PublicURL) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return b
}

// RoundTrip hands a request to the pages.
func (b *browser) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request.Body = http.NoBody
	}
	request.RemoteAddr = "192.0.2.7:1234"
	answer := httptest.NewRecorder()
	b.f.pages.ServeHTTP(answer, request)
	response := answer.Result()
	response.Request = request
	b.seen = append(b.seen, response)
	return response, nil
}

// answer is a page that the browser shows, or a redirect to another site.
type answer struct {
	status int
	// at is the path of the page, to the redirect.
	at, to, body string
	header       http.Header
}

// title is the heading of the page.
func (a answer) title() string {
	found := regexp.MustCompile(`<h1>(.*)</h1>`).FindStringSubmatch(a.body)
	if found == nil {
		return ""
	}
	return found[1]
}

func (b *browser) get(t *testing.T, address string) answer {
	t.Helper()
	return b.do(t, http.MethodGet, address, nil)
}

func (b *browser) post(t *testing.T, path string, form url.Values) answer {
	t.Helper()
	return b.do(t, http.MethodPost, path, form)
}

func (b *browser) do(t *testing.T, method, address string, form url.Values) answer {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = factory.PublicURL + address
	}
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := b.http.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{
		status: response.StatusCode, at: response.Request.URL.Path, to: response.Header.Get("Location"), body: string(body), header: response.Header,
	}
}

// dialog opens the provider's dialog and returns the state that it got.
func (b *browser) dialog(t *testing.T, link setuplinks.Created) (state string) {
	t.Helper()
	opened := b.get(t, "/setup/links/"+link.ID.String()+"/dialog")
	require.Equal(t, http.StatusSeeOther, opened.status, opened.body)
	to, err := url.Parse(opened.to)
	require.NoError(t, err)
	require.Equal(t, factory.PublicURL+"/setup/callback", to.Query().Get("redirect_uri"))
	return to.Query().Get("state")
}

// back comes back from the dialog with a code.
func (b *browser) back(t *testing.T, state, code string) answer {
	t.Helper()
	return b.get(t, "/setup/callback?"+url.Values{"state": {state}, "code": {code}}.Encode())
}

// connects goes all the way: the page, the dialog, the number.
func (b *browser) connects(t *testing.T, link setuplinks.Created, choice object) answer {
	t.Helper()
	require.Equal(t, "Connect your number to "+b.f.organization(t), b.get(t, link.SetupURL).title())
	state := b.dialog(t, link)
	code, number, _ := b.f.Network.SignUp(t, choice)
	chosen := b.back(t, state, code)
	require.Equal(t, "Which number do you want to connect?", chosen.title(), chosen.body)
	return b.post(t, chosen.at, url.Values{"phone_number_id": {number}})
}

func (f *fixture) organization(t *testing.T) string {
	t.Helper()
	org, err := f.Orgs.Get(t.Context(), f.org)
	require.NoError(t, err)
	return org.Name
}
