package onboarding_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

func TestOnboarding_OtherMethod_AllowNamesThoseOfThePage(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	page := "/setup/links/" + link.ID.String()
	for _, c := range []struct{ method, path, allowed string }{
		{http.MethodPost, strings.TrimPrefix(link.SetupURL, factory.PublicURL), "GET, HEAD"},
		{http.MethodDelete, page, "GET, HEAD"},
		{http.MethodPut, page + "/number", "GET, HEAD, POST"},
		{http.MethodGet, page + "/pin", "POST"},
	} {
		refused := f.browser(t).do(t, c.method, c.path, nil)
		require.Equal(t, http.StatusMethodNotAllowed, refused.status, "%s %s", c.method, c.path)
		require.Equal(t, c.allowed, refused.header.Get("Allow"), "%s %s", c.method, c.path)
		require.Equal(t, "no-store", refused.header.Get("Cache-Control"))
	}
}

// TestOnboarding_CellNotServed_RetryAfter: the cell of the link is served by another process.
func TestOnboarding_CellNotServed_RetryAfter(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	shown := b.get(t, link.SetupURL)
	f.pages = f.pagesOf(t, nil)
	for _, path := range []string{link.SetupURL, shown.at, shown.at + "/number"} {
		away := b.get(t, path)
		require.Equal(t, http.StatusServiceUnavailable, away.status)
		require.Equal(t, "10", away.header.Get("Retry-After"))
		require.Equal(t, "We cannot show this page right now", away.title())
	}
}

// TestOnboarding_BidiCharactersInNames_LeftOut: a name cannot turn the text around it.
func TestOnboarding_BidiCharactersInNames_LeftOut(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, err := f.Customers.Update(t.Context(), f.org, f.customer.ID, customers.Patch{Name: patch.To("Bay\u202e Bakery\u2066")})
	require.NoError(t, err)
	f.rename(t, "Har\u202ebour\u200f")
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	welcome := b.get(t, link.SetupURL)
	code, _, _ := f.Network.SignUp(t, object{"business_name": "Mar\u202eina"})
	chosen := b.back(t, b.dialog(t, link), code)
	require.Contains(t, welcome.body, "Bay Bakery")
	require.Contains(t, welcome.body, "Harbour")
	require.Contains(t, chosen.body, "Marina")
	for _, shown := range []answer{welcome, chosen} {
		require.NotContains(t, shown.body, "\u202e")
		require.NotContains(t, shown.body, "\u2066")
		require.NotContains(t, shown.body, "\u200f")
	}
}

// TestOnboarding_OtherNumbersGranted_VisitorIsTold: the number page of one tab is old, because another tab was granted others.
func TestOnboarding_OtherNumbersGranted_VisitorIsTold(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	state := b.dialog(t, link)
	code, first, _ := f.Network.SignUp(t, object{})
	chosen := b.back(t, state, code)
	code, second, _ := f.Network.SignUp(t, object{})
	b.back(t, state, code)
	told := b.post(t, chosen.at, url.Values{"phone_number_id": {first}})
	require.Equal(t, http.StatusConflict, told.status)
	require.Equal(t, chosen.title(), told.title())
	require.Contains(t, told.body, "nothing was connected")
	require.Contains(t, told.body, `value="`+second+`"`)
	require.Empty(t, f.numbers(t))
	require.Contains(t, b.post(t, chosen.at, url.Values{"phone_number_id": {second}}).title(), "Activate")
}

// TestOnboarding_Number_ShownAsTheProviderWritesIt on the page that asks which number, and on those after it.
func TestOnboarding_Number_ShownAsTheProviderWritesIt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link, b := f.link(t, setuplinks.Draft{}), f.browser(t)
	b.get(t, link.SetupURL)
	state := b.dialog(t, link)
	code, number, _ := f.Network.SignUp(t, object{})
	chosen := b.back(t, state, code)
	written := regexp.MustCompile(`<b>([^<]+)</b>`).FindStringSubmatch(chosen.body)[1]
	pin := b.post(t, chosen.at, url.Values{"phone_number_id": {number}})
	require.Equal(t, "Activate "+written, pin.title())
	require.NotEqual(t, *f.numbers(t)[0].PhoneNumber, html.UnescapeString(written), "it differs from E.164: nothing is tested else")
	require.Contains(t, b.post(t, pin.at+"/pin", url.Values{"pin": {"123456"}}).body, written)
}
