package setuplinks_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// fixture is an organization with a customer.
type fixture struct {
	*factory.World

	org      orgs.ID
	customer customers.Customer
}

func setup(t *testing.T) fixture {
	t.Helper()
	w := factory.New(t)
	org, _ := w.Org(t)
	return fixture{World: w, org: org, customer: w.Customer(t, org)}
}

func (f fixture) link(t *testing.T, draft setuplinks.Draft) setuplinks.Created {
	t.Helper()
	made, err := f.SetupLinks.Create(t.Context(), f.org, audit.Operator(), f.customer.ID, draft)
	require.NoError(t, err)
	return made
}

// event is a recorded event.
type event struct {
	ID   events.ID
	Type events.Type
	Body []byte
}

func (e event) data(t *testing.T) (data map[string]any) {
	t.Helper()
	var body struct{ Data map[string]any }
	require.NoError(t, json.Unmarshal(e.Body, &body))
	return body.Data
}

// recorded are the events of the organization, oldest first.
func (f fixture) recorded(t *testing.T) []event {
	t.Helper()
	all, err := postgres.Many[event](t.Context(), f.DB.Of(f.org), `SELECT id, type, body FROM events WHERE org_id = @org_id ORDER BY id`, nil)
	require.NoError(t, err)
	return all
}

func typesOf(all []event) (types []events.Type) {
	for _, one := range all {
		types = append(types, one.Type)
	}
	return types
}

func TestCreate_Link_TokenInURLAlone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	made := f.link(t, setuplinks.Draft{})
	token := strings.TrimPrefix(made.SetupURL, factory.PublicURL+"/setup/")
	require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, token)
	require.Equal(t, token[39:], made.TokenLast4)
	require.Equal(t, f.Clock.Now().Add(7*24*time.Hour), made.ExpiresAt)
	require.Equal(t, setuplinks.Active, made.Status)

	hash, ok := setuplinks.Hash(token)
	require.True(t, ok)
	route, err := f.Directory.Find(t.Context(), directory.SetupToken, hash)
	require.NoError(t, err)
	require.Equal(t, f.org, route.OrgID)
	invited, err := f.SetupLinks.InvitationByHash(t.Context(), f.org, hash)
	require.NoError(t, err)
	require.Equal(t, made.Link, invited.Link)
	require.Equal(t, f.customer.Name, invited.Customer.Name)
	require.Empty(t, invited.Refusal())

	rows, err := postgres.Many[string](t.Context(), f.DB.Of(f.org), `SELECT row_to_json(l)::text FROM setup_links l WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.NotContains(t, rows[0], token)
	all := f.recorded(t)
	require.Equal(t, []events.Type{events.CustomerCreated, events.SetupLinkCreated}, typesOf(all))
	require.NotContains(t, string(all[1].Body), token)
	shown := all[1].data(t)["setup_link"].(map[string]any)
	require.Equal(t, made.ID.String(), shown["id"])
	require.Equal(t, "active", shown["status"])
}

func TestCreate_BadDraft_Refused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	create := func(customer customers.ID, draft setuplinks.Draft) error {
		_, err := f.SetupLinks.Create(t.Context(), f.org, audit.Operator(), customer, draft)
		return err
	}
	now := f.Clock.Now()
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(30*24*time.Hour + time.Millisecond)} {
		require.Equal(t, fault.Invalid("expires_at", "must be in the future, and at most 30 days ahead"), create(f.customer.ID, setuplinks.Draft{ExpiresAt: &at}))
	}
	require.Equal(t, "success_redirect_url", fault.As(create(f.customer.ID, setuplinks.Draft{SuccessRedirectURL: new("ftp://x.example")})).Param)
	require.Equal(t, "failure_redirect_url", fault.As(create(f.customer.ID, setuplinks.Draft{FailureRedirectURL: new("x")})).Param)
	stranger, _ := f.Org(t)
	theirs := f.Customer(t, stranger)
	require.Equal(t, fault.ResourceNotFound, fault.Of(create(theirs.ID, setuplinks.Draft{})))
	_, err := f.Customers.Archive(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	require.Equal(t, fault.CustomerArchived, fault.Of(create(f.customer.ID, setuplinks.Draft{})))
	require.Equal(t, []events.Type{events.CustomerCreated, events.CustomerArchived}, typesOf(f.recorded(t)))
}

func TestLink_NotActive_CannotBeChanged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	expired := f.link(t, setuplinks.Draft{ExpiresAt: new(f.Clock.Now().Add(time.Hour))})
	revoked, kept := f.link(t, setuplinks.Draft{}), f.link(t, setuplinks.Draft{})
	gone, err := f.SetupLinks.Revoke(t.Context(), f.org, audit.Operator(), f.customer.ID, revoked.ID)
	require.NoError(t, err)
	require.Equal(t, setuplinks.Revoked, gone.Status)
	f.Clock.Move(time.Hour)

	page, err := f.SetupLinks.List(t.Context(), f.org, f.customer.ID, paging.Slice[setuplinks.ID]{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []setuplinks.Status{setuplinks.Active, setuplinks.Revoked, setuplinks.Expired},
		[]setuplinks.Status{page.Items[0].Status, page.Items[1].Status, page.Items[2].Status})
	for _, link := range []setuplinks.Created{expired, revoked} {
		_, err := f.SetupLinks.Update(t.Context(), f.org, f.customer.ID, link.ID, setuplinks.Patch{SuccessRedirectURL: patch.To("https://x.example")})
		require.Equal(t, fault.SetupLinkInactive, fault.Of(err))
		_, err = f.SetupLinks.Revoke(t.Context(), f.org, audit.Operator(), f.customer.ID, link.ID)
		require.Equal(t, fault.SetupLinkInactive, fault.Of(err))
	}
	changed, err := f.SetupLinks.Update(t.Context(), f.org, f.customer.ID, kept.ID, setuplinks.Patch{SuccessRedirectURL: patch.To("https://x.example")})
	require.NoError(t, err)
	require.Equal(t, "https://x.example", *changed.SuccessRedirectURL)
	changed, err = f.SetupLinks.Update(t.Context(), f.org, f.customer.ID, kept.ID, setuplinks.Patch{SuccessRedirectURL: patch.Clear[string]()})
	require.NoError(t, err)
	require.Nil(t, changed.SuccessRedirectURL)

	other := f.Customer(t, f.org)
	_, err = f.SetupLinks.Get(t.Context(), f.org, other.ID, kept.ID)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err), "of another customer")
}

func TestArchive_ActiveLinks_Revoked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	expired := f.link(t, setuplinks.Draft{ExpiresAt: new(f.Clock.Now().Add(time.Hour))})
	active := f.link(t, setuplinks.Draft{})
	other := f.Customer(t, f.org)
	theirs, err := f.SetupLinks.Create(t.Context(), f.org, audit.Operator(), other.ID, setuplinks.Draft{})
	require.NoError(t, err)
	f.Clock.Move(time.Hour)
	_, err = f.Customers.Archive(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	for link, want := range map[setuplinks.ID]setuplinks.Status{expired.ID: setuplinks.Expired, active.ID: setuplinks.Revoked} {
		now, err := f.SetupLinks.Get(t.Context(), f.org, f.customer.ID, link)
		require.NoError(t, err)
		require.Equal(t, want, now.Status)
	}
	now, err := f.SetupLinks.Get(t.Context(), f.org, other.ID, theirs.ID)
	require.NoError(t, err)
	require.Equal(t, setuplinks.Active, now.Status)
	all := f.recorded(t)
	require.Equal(t, events.CustomerArchived, all[len(all)-1].Type, "it follows the events of the links")
}

func TestEvents_ClockStandsStill_InOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for range 3 {
		f.link(t, setuplinks.Draft{})
	}
	_, err := f.Customers.Archive(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	all := f.recorded(t)
	require.Equal(t, []events.Type{
		events.CustomerCreated, events.SetupLinkCreated, events.SetupLinkCreated, events.SetupLinkCreated, events.CustomerArchived,
	}, typesOf(all))
	for i := 1; i < len(all); i++ {
		require.True(t, all[i].ID.CreatedAt().After(all[i-1].ID.CreatedAt()), "each a millisecond later")
	}
}

// TestRedirect_OwnParameters_Replaced: parameters that are ours appear exactly once, and everything else stays.
func TestRedirect_OwnParameters_Replaced(t *testing.T) {
	t.Parallel()
	f := setup(t)
	account := f.AccountOf(t, f.org, &f.customer.ID)
	link := f.link(t, setuplinks.Draft{
		SuccessRedirectURL: new("https://platform.example/done?status=failed&x=%2F+1&st%61tus=1&reason=r&flag#part"),
		FailureRedirectURL: new("http://localhost:3000?"),
	})
	success, err := url.Parse(link.Success(account.ID))
	require.NoError(t, err)
	require.Equal(t, "x=%2F+1&flag&account_id="+account.ID.String()+"&customer_id="+f.customer.ID.String()+"&status=success", success.RawQuery)
	require.Equal(t, "part", success.Fragment)
	require.Equal(t, "http://localhost:3000?customer_id="+f.customer.ID.String()+"&reason=cancelled&status=failed", link.Failure(setuplinks.Cancelled))
	require.Empty(t, f.link(t, setuplinks.Draft{}).Failure(setuplinks.Cancelled))
}

// hostile are addresses to which no person must be sent.
func hostile() []string {
	return []string{
		"", " ", "/", "//evil.example", "///evil.example", "evil.example", "evil.example/path", "javascript:alert(1)", "JavaScript:alert(1)",
		"javascript://platform.example/%0aalert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:x", "file:///etc/passwd", "ftp://a.example",
		"blob:https://a.example/1", "about:blank", "mailto:a@b.example", "tel:+15550100", "ws://a.example", "wss://a.example", "http://a.example",
		"HTTP://a.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://[::2]/", "http://[::1]:8080/", "http://0.0.0.0/", "http://localhost@evil.example",
		"https://user@a.example", "https://user:pass@a.example", "https://@a.example", "https://a.example\\@evil.example", "https:\\\\evil.example",
		"https:/\\evil.example", "\\\\evil.example", "https://", "https:///path", "https://?x", "https://#x", "https:evil.example", "https:/evil.example",
		"https://:443/", " https://a.example", "https://a.example ", "https://a.example\n", "https://a.example\r\nSet-Cookie: x", "https://a.example/\tx",
		"https://a.ex\u0000ample", "https://a.example/\u0000", "java\nscript:alert(1)", "https://ex\u00e4mple.com", "https://a.example/\u202e", "https://a\u3002example",
		"https://\uff41.example", "https://a.example/%zz", "https://a.example:99999999/", "https://a.example:port/", "https://[::1", "https://[fe80::1%25en0]\\x",
		"%68ttps://a.example", "ht\ttps://a.example", "https ://a.example", "https://a b.example", "https://a.example/\u007f", "view-source:https://a.example",
		"https://a.example/" + strings.Repeat("x", 2048),
	}
}

func TestRedirect_HostileURL_Refused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	require.GreaterOrEqual(t, len(hostile()), 60)
	for _, address := range hostile() {
		for _, draft := range []setuplinks.Draft{{SuccessRedirectURL: &address}, {FailureRedirectURL: &address}} {
			_, err := f.SetupLinks.Create(t.Context(), f.org, audit.Operator(), f.customer.ID, draft)
			require.Equal(t, fault.InvalidFieldValue, fault.Of(err), "%q", address)
		}
		_, err := f.SetupLinks.Update(t.Context(), f.org, f.customer.ID, link.ID, setuplinks.Patch{FailureRedirectURL: patch.To(address)})
		require.Equal(t, fault.InvalidFieldValue, fault.Of(err), "%q", address)
	}
	for _, address := range []string{"https://a.example", "https://a.example:8443/x?y=z#f", "http://localhost:3000/x", "http://127.0.0.1/"} {
		f.link(t, setuplinks.Draft{SuccessRedirectURL: &address})
	}
}

func TestHolds_Token_OfAKnownLink(t *testing.T) {
	t.Parallel()
	f := setup(t)
	made := f.link(t, setuplinks.Draft{})
	hash, _ := setuplinks.Hash(strings.TrimPrefix(made.SetupURL, factory.PublicURL+"/setup/"))
	held, err := f.Holds(t.Context(), directory.Unresolved{Kind: directory.SetupToken, Key: hash, OrgID: f.org})
	require.NoError(t, err)
	require.True(t, held)
	held, err = f.Holds(t.Context(), directory.Unresolved{Kind: directory.SetupToken, Key: make([]byte, 32), OrgID: f.org})
	require.NoError(t, err)
	require.False(t, held)
}
