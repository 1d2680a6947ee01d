package onboarding_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func (f *fixture) numbers(t *testing.T) []accounts.Account {
	t.Helper()
	all, err := f.Accounts.OfCustomer(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	return all
}

func TestOnboarding_PendingNumber_ConnectedAfterItsPIN(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{SuccessRedirectURL: new("https://platform.example/done?x=1")})
	b := f.browser(t)
	shown := b.connects(t, link, object{"phone_number": "+1 555 010 0101"})
	require.Contains(t, shown.title(), "Activate")
	require.Equal(t, setuplinks.Consumed, f.status(t, link))
	require.Equal(t, accounts.Onboarding, f.numbers(t)[0].Status)

	again := b.get(t, link.SetupURL)
	require.Contains(t, again.title(), "Activate", "the visitor who used the link opens it again")
	wrong := b.post(t, shown.at+"/pin", url.Values{"pin": {"12345"}})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
	require.Contains(t, wrong.body, "Enter exactly six digits.")
	done := b.post(t, shown.at+"/pin", url.Values{"pin": {"123456"}})
	require.Equal(t, http.StatusSeeOther, done.status, done.body)
	require.Equal(t, "https://platform.example/done?x=1&account_id="+f.numbers(t)[0].ID.String()+
		"&customer_id="+f.customer.ID.String()+"&status=success", done.to)
	require.Equal(t, accounts.Connected, f.numbers(t)[0].Status)
	require.Equal(t, "This link was used already", f.browser(t).get(t, link.SetupURL).title(), "another browser")
}

func TestOnboarding_PhoneAppNumber_NeedsNoPIN(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	state := b.dialog(t, link)
	code, _, business := f.Network.SignUp(t, object{"coexistence": true})
	require.NotEmpty(t, business)
	chosen := b.back(t, state, code)
	number := regexp.MustCompile(`value="([0-9]+)"`).FindStringSubmatch(chosen.body)
	require.NotNil(t, number, chosen.body)
	done := b.post(t, chosen.at, url.Values{"phone_number_id": {number[1]}})
	require.Equal(t, "Your number is connected", done.title())
	require.Equal(t, accounts.Connected, f.numbers(t)[0].Status)
}

func TestOnboarding_PINLater_StillOnboarding(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	shown := b.connects(t, link, object{})
	later := b.get(t, shown.at+"/later")
	require.Equal(t, "Your number is connected", later.title())
	require.Contains(t, later.body, "not active yet")
	require.Equal(t, accounts.Onboarding, f.numbers(t)[0].Status)
}

func TestOnboarding_PINRefused_ProblemShown(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	shown := b.connects(t, link, object{})
	for i := range 6 {
		f.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/register") {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error":{"message":"Two step verification PIN Mismatch","type":"OAuthException","code":133005,"fbtrace_id":"x"}}`))
				return
			}
			network.ServeHTTP(w, r)
		})
		refused := b.post(t, shown.at+"/pin", url.Values{"pin": {fmt.Sprintf("%06d", i)}})
		require.Equal(t, http.StatusUnprocessableEntity, refused.status)
		want := "refused this PIN"
		if i == 5 {
			want = "Too many PINs were tried"
		}
		require.Contains(t, refused.body, want, i)
		require.Contains(t, refused.body, `role="alert"`)
		require.NotContains(t, refused.body, fmt.Sprintf("%06d", i), "the PIN is not shown again")
	}
}

// TestOnboarding_Ends_PageOrRedirect goes through every way in which a link does not work.
func TestOnboarding_Ends_PageOrRedirect(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reason setuplinks.Reason
		title  string
		end    func(t *testing.T, f *fixture, b *browser, link setuplinks.Created) answer
	}{
		{setuplinks.LinkExpired, "This link has expired", func(t *testing.T, f *fixture, b *browser, link setuplinks.Created) answer {
			t.Helper()
			f.Clock.Move(7 * 24 * time.Hour)
			return b.get(t, link.SetupURL)
		}},
		{setuplinks.LinkRevoked, "This link was withdrawn", func(t *testing.T, f *fixture, b *browser, link setuplinks.Created) answer {
			t.Helper()
			_, err := f.SetupLinks.Revoke(t.Context(), f.org, audit.Operator(), f.customer.ID, link.ID)
			require.NoError(t, err)
			return b.get(t, link.SetupURL)
		}},
		{setuplinks.LinkConsumed, "This link was used already", func(t *testing.T, f *fixture, b *browser, link setuplinks.Created) answer {
			t.Helper()
			f.browser(t).connects(t, link, object{})
			return b.get(t, link.SetupURL)
		}},
		{setuplinks.CustomerInactive, "This invitation is on hold", func(t *testing.T, f *fixture, b *browser, link setuplinks.Created) answer {
			t.Helper()
			for _, status := range []customers.Status{customers.Active, customers.Suspended} {
				_, err := f.Customers.Update(t.Context(), f.org, f.customer.ID, customers.Patch{Status: patch.To(status)})
				require.NoError(t, err)
				if status == customers.Active {
					b.get(t, link.SetupURL)
				}
			}
			return b.get(t, "/setup/links/"+link.ID.String())
		}},
		{setuplinks.Cancelled, "You did not finish", func(t *testing.T, _ *fixture, b *browser, link setuplinks.Created) answer {
			t.Helper()
			b.get(t, link.SetupURL)
			return b.get(t, "/setup/callback?error=access_denied&error_reason=user_denied&state="+b.dialog(t, link))
		}},
		{setuplinks.ProviderError, "The messaging network did not let us in", func(t *testing.T, _ *fixture, b *browser, link setuplinks.Created) answer {
			t.Helper()
			b.get(t, link.SetupURL)
			return b.back(t, b.dialog(t, link), "no-such-code")
		}},
		{setuplinks.NumberInUse, "This number is connected already", func(t *testing.T, f *fixture, b *browser, link setuplinks.Created) answer {
			t.Helper()
			b.get(t, link.SetupURL)
			state := b.dialog(t, link)
			code, number, _ := f.Network.SignUp(t, object{})
			stranger, _ := f.Org(t)
			f.Attach(t, stranger, number, nil)
			return b.back(t, state, code)
		}},
	}
	for _, c := range cases {
		t.Run(string(c.reason), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			page := c.end(t, f, f.browser(t), f.link(t, setuplinks.Draft{}))
			require.Equal(t, c.title, page.title(), page.body)
			away := c.end(t, f, f.browser(t), f.link(t, setuplinks.Draft{FailureRedirectURL: new("https://platform.example/failed?reason=old")}))
			require.Equal(t, "https://platform.example/failed?customer_id="+f.customer.ID.String()+"&reason="+string(c.reason)+"&status=failed",
				away.to, away.body)
		})
	}
}

func TestOnboarding_SeveralNumbers_VisitorChooses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	state := b.dialog(t, link)
	_, first, business := f.Network.SignUp(t, object{})
	code, second, _ := f.Network.SignUp(t, object{"waba_id": business})
	chosen := b.back(t, state, code)
	require.Contains(t, chosen.body, `value="`+first+`"`)
	require.Contains(t, chosen.body, `value="`+second+`"`)
	b.post(t, chosen.at, url.Values{"phone_number_id": {second}})
	require.Equal(t, second, *f.numbers(t)[0].PhoneNumberID)
}

func TestOnboarding_NoNumber_CanStartAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	state := b.dialog(t, link)
	code, _, _ := f.Network.SignUp(t, object{"only_waba": true})
	none := b.back(t, state, code)
	require.Equal(t, "No number was added", none.title())
	require.Contains(t, none.body, "/dialog")
}

// TestOnboarding_Scanner_LinkStaysActive: mail scanners and link previews open links, and follow what they find.
func TestOnboarding_Scanner_LinkStaysActive(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	before := f.rows(t)
	methods := []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	for i := range 1000 {
		b := f.browser(t)
		b.do(t, methods[i%3], link.SetupURL, nil)
		if i%10 == 0 {
			b.get(t, "/setup/links/"+link.ID.String())
			b.get(t, "/setup/links/"+link.ID.String()+"/dialog")
			b.get(t, "/setup/links/"+link.ID.String()+"/later")
		}
	}
	require.Equal(t, setuplinks.Active, f.status(t, link))
	require.Equal(t, before, f.rows(t), "nothing is written")
}

func (f *fixture) rows(t *testing.T) string {
	t.Helper()
	rows, err := postgres.Many[string](t.Context(), f.DB.Of(f.org), `
SELECT row_to_json(l)::text || (SELECT count(*) FROM events WHERE org_id = @org_id) || (SELECT count(*) FROM audit_log WHERE org_id = @org_id)
FROM setup_links l WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	return strings.Join(rows, "\n")
}

// TestOnboarding_Token_LeavesTheURLAtOnce: it is in no page, no later address and no header but the first request's.
func TestOnboarding_Token_LeavesTheURLAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	token := strings.TrimPrefix(link.SetupURL, factory.PublicURL+"/setup/")
	shown := b.connects(t, link, object{})
	b.post(t, shown.at+"/pin", url.Values{"pin": {"123456"}})
	require.Greater(t, len(b.seen), 6)
	for i, response := range b.seen {
		header, err := json.Marshal(response.Header)
		require.NoError(t, err)
		require.NotContains(t, string(header), token)
		if i > 0 {
			require.NotContains(t, response.Request.URL.String(), token)
		}
		require.Equal(t, "no-referrer", response.Header.Get("Referrer-Policy"))
		require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
		require.Equal(t, "noindex, nofollow", response.Header.Get("X-Robots-Tag"))
		require.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.NotContains(t, response.Header.Get("Content-Security-Policy"), "unsafe")
		for _, cookie := range response.Cookies() {
			require.True(t, cookie.HttpOnly && cookie.Secure)
			require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
			require.Equal(t, "/setup/", cookie.Path)
		}
	}
}

func TestOnboarding_ForeignState_Refused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	attacker := f.browser(t)
	attacker.get(t, link.SetupURL)
	code, _, _ := f.Network.SignUp(t, object{})
	for _, state := range []string{attacker.dialog(t, link), "", "x", link.ID.String(), link.ID.String() + ".", "csl_01M5CK7KX6X97NE201STWRSPKS.x"} {
		refused := b.back(t, state, code)
		require.Equal(t, http.StatusForbidden, refused.status, state)
		require.Equal(t, "This page has been open too long", refused.title())
	}
	require.Equal(t, http.StatusForbidden, f.browser(t).get(t, "/setup/links/"+link.ID.String()).status, "no cookie")
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, factory.PublicURL+"/setup/links/"+link.ID.String()+"/number", http.NoBody)
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		request.Header = http.Header{header: {value}}
		posted := httptest.NewRecorder()
		f.pages.ServeHTTP(posted, request)
		require.Equal(t, http.StatusForbidden, posted.Code)
		require.Contains(t, posted.Body.String(), "another site")
	}
	require.Equal(t, setuplinks.Active, f.status(t, link))
}

// TestOnboarding_SuspendedBeforeThePIN_NotRegistered: neither a suspended customer nor a suspended organization registers a number.
func TestOnboarding_SuspendedBeforeThePIN_NotRegistered(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	shown := b.connects(t, link, object{})
	suspend := func(status customers.Status) {
		_, err := f.Customers.Update(t.Context(), f.org, f.customer.ID, customers.Patch{Status: patch.To(status)})
		require.NoError(t, err)
	}
	refused := func() {
		t.Helper()
		require.Equal(t, "This invitation is on hold", b.post(t, shown.at+"/pin", url.Values{"pin": {"123456"}}).title())
		require.Zero(t, f.Network.Calls("POST", "/register"))
	}
	suspend(customers.Suspended)
	refused()
	suspend(customers.Active)
	_, err := f.Orgs.Suspend(t.Context(), f.org, audit.Operator())
	require.NoError(t, err)
	refused()
	_, err = f.Orgs.Resume(t.Context(), f.org, audit.Operator())
	require.NoError(t, err)
	require.Equal(t, "Your number is connected", b.post(t, shown.at+"/pin", url.Values{"pin": {"123456"}}).title())
}

func TestOnboarding_Disconnected_VisitEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	shown := b.connects(t, link, object{})
	_, err := f.Accounts.Disconnect(t.Context(), f.org, audit.Operator(), *f.numbers(t)[0].PhoneNumberID, &f.customer.ID)
	require.NoError(t, err)
	for _, path := range []string{shown.at, shown.at + "/later"} {
		require.Equal(t, "This link was used already", b.get(t, path).title())
	}
	require.Equal(t, "This link was used already", b.post(t, shown.at+"/pin", url.Values{"pin": {"123456"}}).title())
}

// TestOnboarding_ClickedTwice_SecondClickSeesTheOutcome: the second click finds the link used by the first.
func TestOnboarding_ClickedTwice_SecondClickSeesTheOutcome(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{FailureRedirectURL: new("https://platform.example/failed")})
	b := f.browser(t)
	b.get(t, link.SetupURL)
	code, number, _ := f.Network.SignUp(t, object{})
	chosen := b.back(t, b.dialog(t, link), code)
	f.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		f.Network.Twist(nil)
		require.Contains(t, b.post(t, chosen.at, url.Values{"phone_number_id": {number}}).title(), "Connecting", "while the first click runs")
		network.ServeHTTP(w, r)
	})
	first := b.post(t, chosen.at, url.Values{"phone_number_id": {number}})
	require.Contains(t, first.title(), "Activate")
	require.Contains(t, b.post(t, chosen.at, url.Values{"phone_number_id": {number}}).title(), "Activate")
}

// TestOnboarding_BackButton_GoesOn: pages that were left behind lead to where the visit is.
func TestOnboarding_BackButton_GoesOn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	home := b.get(t, link.SetupURL)
	state := b.dialog(t, link)
	code, number, _ := f.Network.SignUp(t, object{})
	chosen := b.back(t, state, code)
	require.Equal(t, chosen.title(), b.back(t, state, code).title(), "the code was exchanged already")
	require.Equal(t, home.title(), b.get(t, home.at).title())
	shown := b.post(t, chosen.at, url.Values{"phone_number_id": {number}})
	for _, path := range []string{chosen.at, home.at, home.at + "/dialog", "/setup/callback?code=" + code + "&state=" + state} {
		require.Equal(t, shown.title(), b.get(t, path).title(), path)
	}
	require.Equal(t, shown.title(), b.post(t, chosen.at, url.Values{"phone_number_id": {number}}).title(), "posted twice")
	require.Len(t, f.numbers(t), 1)
}

func TestOnboarding_Time_SessionAndTokenEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	code, number, _ := f.Network.SignUp(t, object{})
	chosen := b.back(t, b.dialog(t, link), code)
	f.Clock.Move(15 * time.Minute)
	require.Contains(t, b.get(t, chosen.at).title(), "Connect your number", "the token waited too long")
	require.Contains(t, b.post(t, chosen.at, url.Values{"phone_number_id": {number}}).title(), "Connect your number")
	f.Clock.Move(time.Hour)
	require.Equal(t, "This page has been open too long", b.get(t, chosen.at).title())
	require.Equal(t, setuplinks.Active, f.status(t, link))
}

func TestOnboarding_Guesses_Limited(t *testing.T) {
	t.Parallel()
	f := setup(t)
	b := f.browser(t)
	counts := map[int]int{}
	for i := range 70 {
		counts[b.get(t, fmt.Sprintf("/setup/%043d", i)).status]++
	}
	require.Equal(t, map[int]int{http.StatusNotFound: 60, http.StatusTooManyRequests: 10}, counts)
	require.Equal(t, "1", b.get(t, fmt.Sprintf("/setup/%043d", 70)).header.Get("Retry-After"))
	f.Clock.Move(time.Second)
	require.Equal(t, http.StatusNotFound, b.get(t, fmt.Sprintf("/setup/%043d", 70)).status, "as it said")
	require.Equal(t, http.StatusNotFound, b.get(t, "/setup/short").status)
}

func TestOnboarding_HostileNames_Escaped(t *testing.T) {
	t.Parallel()
	f := setup(t)
	name := `<script>alert("x")</script>`
	_, err := f.Customers.Update(t.Context(), f.org, f.customer.ID, customers.Patch{Name: patch.To(name)})
	require.NoError(t, err)
	shown := f.browser(t).get(t, f.link(t, setuplinks.Draft{}).SetupURL)
	require.NotContains(t, shown.body, "<script>")
	require.Contains(t, shown.body, "&lt;script&gt;")
}

func TestOnboarding_HostileHost_URLUnchanged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	for _, header := range []string{"Host", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "Forwarded", "X-Original-URL", "X-Rewrite-URL", "X-Host"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, link.SetupURL, http.NoBody)
		request.Header.Set(header, "evil.example")
		request.Host = "evil.example"
		answer := httptest.NewRecorder()
		f.pages.ServeHTTP(answer, request)
		require.Equal(t, "/setup/links/"+link.ID.String(), answer.Header().Get("Location"))
		require.NotContains(t, fmt.Sprint(answer.Header()), "evil")
	}
}

// TestTexts_EveryLanguage_HasAll: each text that a page can show exists, in every language.
func TestTexts_EveryLanguage_HasAll(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("files/texts/*.json")
	require.NoError(t, err)
	var first map[string]string
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		texts := map[string]string{}
		require.NoError(t, json.Unmarshal(content, &texts))
		if first == nil {
			first = texts
		}
		for key, text := range first {
			require.NotEmpty(t, texts[key], "%s: %s", name, key)
			placeholders := regexp.MustCompile(`\{[a-z]+\}`)
			require.ElementsMatch(t, placeholders.FindAllString(text, -1), placeholders.FindAllString(texts[key], -1), "%s: %s", name, key)
		}
		require.Len(t, texts, len(first), name)
	}
	for _, end := range []string{
		"cancelled", "link_expired", "link_revoked", "link_consumed", "customer_inactive", "number_in_use", "provider_error",
		"unknown", "session", "busy", "unavailable", "none", "done", "later", "connecting",
	} {
		require.NotEmpty(t, first[end+".title"], end)
		require.NotEmpty(t, first[end+".lead"], end)
	}
}
