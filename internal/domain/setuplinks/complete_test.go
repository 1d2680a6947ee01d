package setuplinks_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

type object = map[string]any

// grant signs a business up at the simulator, as the dialog does, and returns its token and number.
func (f fixture) grant(t *testing.T, choice object) (token provider.Token, phoneNumberID, businessAccountID string) {
	t.Helper()
	code, phoneNumberID, businessAccountID := f.Network.SignUp(t, choice)
	token, err := f.SetupLinks.Grant(t.Context(), code)
	require.NoError(t, err)
	return token, phoneNumberID, businessAccountID
}

func (f fixture) complete(t *testing.T, link setuplinks.ID, token provider.Token, number string) (accounts.Account, error) {
	t.Helper()
	done, err := f.SetupLinks.Complete(t.Context(), f.org, setuplinks.Visitor{Address: "192.0.2.1", Session: "browser"}, link, token, number)
	return done.Account, err
}

func reasonOf(err error) setuplinks.Reason {
	refused, is := errors.AsType[*setuplinks.RefusalError](err)
	if !is {
		return ""
	}
	return refused.Reason
}

func TestComplete_PendingCustomer_ActiveWithTheNumber(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	token, number, _ := f.grant(t, object{"business_name": "Bay Bakery"})
	choices, err := f.SetupLinks.Choices(t.Context(), f.org, link.Link, token)
	require.NoError(t, err)
	require.Len(t, choices, 1)
	require.Equal(t, number, choices[0].Number.ID)

	account, err := f.complete(t, link.ID, token, number)
	require.NoError(t, err)
	require.Equal(t, accounts.Onboarding, account.Status, "the provider still holds it PENDING")
	require.Equal(t, f.customer.ID, *account.CustomerID)
	now, err := f.SetupLinks.Get(t.Context(), f.org, f.customer.ID, link.ID)
	require.NoError(t, err)
	require.Equal(t, setuplinks.Consumed, now.Status)
	require.Equal(t, account.ID, *now.AccountID)
	require.True(t, now.ConsumedBy(setuplinks.Visitor{Session: "browser"}))
	require.False(t, now.ConsumedBy(setuplinks.Visitor{Session: "another"}))
	customer, err := f.Customers.Get(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	require.Equal(t, customers.Active, customer.Status)

	all := f.recorded(t)
	require.Equal(t, []events.Type{events.CustomerCreated, events.SetupLinkCreated, events.CustomerOnboarded, events.SetupLinkConsumed}, typesOf(all))
	onboarded, consumed := all[2].data(t), all[3].data(t)
	require.Equal(t, object{
		"customer_id": f.customer.ID.String(), "account_id": account.ID.String(), "phone_number_id": number,
		"phone_number": choices[0].Number.Display,
	}, onboarded)
	require.Equal(t, account.ID.String(), consumed["account_id"])
	require.Equal(t, "consumed", consumed["setup_link"].(object)["status"])
	entries, err := f.Audit.List(t.Context(), f.org, f.Clock.Now(), 10)
	require.NoError(t, err)
	require.Equal(t, "setup_link.consumed", entries[0].Action)
	require.Equal(t, "setup link "+link.ID.String(), entries[0].ActorID)
	require.Contains(t, string(entries[0].Detail), "192.0.2.1")
}

// TestComplete_SecondLink_BothEventsAgain: an active customer connects a second number, and the first one again.
func TestComplete_SecondLink_BothEventsAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	token, first, _ := f.grant(t, object{})
	_, err := f.complete(t, f.link(t, setuplinks.Draft{}).ID, token, first)
	require.NoError(t, err)
	again, err := f.complete(t, f.link(t, setuplinks.Draft{}).ID, token, first)
	require.NoError(t, err, "the number of the same customer gets the new token")
	token, second, _ := f.grant(t, object{})
	other, err := f.complete(t, f.link(t, setuplinks.Draft{}).ID, token, second)
	require.NoError(t, err)
	require.NotEqual(t, again.ID, other.ID)
	numbers, err := f.Accounts.OfCustomer(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	require.Len(t, numbers, 2)
	types := typesOf(f.recorded(t))
	require.Equal(t, []events.Type{
		events.SetupLinkCreated, events.CustomerOnboarded, events.SetupLinkConsumed, events.SetupLinkCreated, events.CustomerOnboarded, events.SetupLinkConsumed,
	}, types[4:])
	require.NotContains(t, types, events.CustomerUpdated)
}

func TestComplete_Refused_NothingChanged(t *testing.T) {
	t.Parallel()
	f := setup(t)
	used := f.Customer(t, f.org)
	cases := map[setuplinks.Reason]func(link setuplinks.Created, token provider.Token, number string){
		setuplinks.LinkExpired: func(link setuplinks.Created, _ provider.Token, _ string) {
			f.Clock.Move(link.ExpiresAt.Sub(f.Clock.Now()))
		},
		setuplinks.LinkRevoked: func(link setuplinks.Created, _ provider.Token, _ string) {
			_, err := f.SetupLinks.Revoke(t.Context(), f.org, audit.Operator(), f.customer.ID, link.ID)
			require.NoError(t, err)
		},
		setuplinks.CustomerInactive: func(setuplinks.Created, provider.Token, string) {
			_, err := f.Customers.Update(t.Context(), f.org, f.customer.ID, customers.Patch{Status: patch.To(customers.Suspended)})
			require.NoError(t, err)
		},
		setuplinks.NumberInUse: func(_ setuplinks.Created, token provider.Token, number string) {
			link, err := f.SetupLinks.Create(t.Context(), f.org, audit.Operator(), used.ID, setuplinks.Draft{})
			require.NoError(t, err)
			_, err = f.complete(t, link.ID, token, number)
			require.NoError(t, err)
		},
		setuplinks.LinkConsumed: func(link setuplinks.Created, token provider.Token, number string) {
			_, err := f.complete(t, link.ID, token, number)
			require.NoError(t, err)
		},
		setuplinks.ProviderError: func(setuplinks.Created, provider.Token, string) {
			f.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
				if strings.HasSuffix(r.URL.Path, "/subscribed_apps") {
					http.Error(w, `{"error":{"code":2,"message":"Service temporarily unavailable"}}`, http.StatusInternalServerError)
					return
				}
				network.ServeHTTP(w, r)
			})
		},
	}
	for want, spoil := range cases {
		_, err := f.Customers.Update(t.Context(), f.org, f.customer.ID, customers.Patch{Status: patch.To(customers.Active)})
		require.NoError(t, err)
		link := f.link(t, setuplinks.Draft{})
		token, number, _ := f.grant(t, object{})
		spoil(link, token, number)
		before, err := f.Accounts.OfCustomer(t.Context(), f.org, f.customer.ID)
		require.NoError(t, err)
		count := len(f.recorded(t))
		_, err = f.complete(t, link.ID, token, number)
		f.Network.Twist(nil)
		require.Equal(t, want, reasonOf(err), "%v", err)
		after, err := f.Accounts.OfCustomer(t.Context(), f.org, f.customer.ID)
		require.NoError(t, err)
		require.Equal(t, before, after, want)
		require.Len(t, f.recorded(t), count, want)
	}
}

// TestComplete_ForeignNumber_Refused: a browser names a number that its token was not granted.
func TestComplete_ForeignNumber_Refused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	token, _, _ := f.grant(t, object{})
	_, foreign, _ := f.grant(t, object{})
	_, err := f.complete(t, link.ID, token, foreign)
	require.ErrorIs(t, err, setuplinks.ErrNotGranted)
	numbers, err := f.Accounts.OfCustomer(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	require.Empty(t, numbers)
}

func TestChoices_SeveralNumbers_OnlyUnconnected(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, first, business := f.grant(t, object{})
	_, second, _ := f.grant(t, object{"waba_id": business})
	token, third, _ := f.grant(t, object{"waba_id": business})
	link := f.link(t, setuplinks.Draft{})
	numbers := func() (found []string) {
		choices, err := f.SetupLinks.Choices(t.Context(), f.org, link.Link, token)
		require.NoError(t, err)
		for _, choice := range choices {
			found = append(found, choice.Number.ID)
		}
		return found
	}
	require.ElementsMatch(t, []string{first, second, third}, numbers())
	stranger, _ := f.Org(t)
	f.Attach(t, stranger, second, nil)
	require.ElementsMatch(t, []string{first, third}, numbers())
}

// TestComplete_Interrupted_UsableAgain: a completion that died keeps others out for a minute.
func TestComplete_Interrupted_UsableAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	token, number, _ := f.grant(t, object{})
	during := make(chan error, 1)
	f.Network.Twist(func(w http.ResponseWriter, r *http.Request, network http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/subscribed_apps") {
			_, err := f.complete(t, link.ID, token, number)
			during <- err
			panic(http.ErrAbortHandler)
		}
		network.ServeHTTP(w, r)
	})
	_, err := f.complete(t, link.ID, token, number)
	f.Network.Twist(nil)
	require.ErrorIs(t, <-during, setuplinks.ErrBusy)
	require.Equal(t, setuplinks.ProviderError, reasonOf(err))

	_, err = postgres.InTx(t.Context(), f.DB, f.org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `UPDATE setup_links SET completing_until = @until WHERE org_id = @org_id`,
			postgres.Args{"until": f.Clock.Now().Add(time.Minute)})
	})
	require.NoError(t, err)
	_, err = f.complete(t, link.ID, token, number)
	require.ErrorIs(t, err, setuplinks.ErrBusy)
	f.Clock.Move(time.Minute)
	_, err = f.complete(t, link.ID, token, number)
	require.NoError(t, err)
}

func TestComplete_HundredAtOnce_OneAccount(t *testing.T) {
	t.Parallel()
	f := setup(t)
	link := f.link(t, setuplinks.Draft{})
	type granted struct {
		token  provider.Token
		number string
	}
	var grants []granted
	for range 4 { // visitors with the same number, and with others
		token, number, _ := f.grant(t, object{})
		grants = append(grants, granted{token, number})
	}
	var together sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for i := range 100 {
		together.Go(func() {
			_, err := f.complete(t, link.ID, grants[i%len(grants)].token, grants[i%len(grants)].number)
			mu.Lock()
			defer mu.Unlock()
			outcome := "connected"
			if err != nil {
				outcome = cmp.Or(string(reasonOf(err)), fmt.Sprint(err))
				if errors.Is(err, setuplinks.ErrBusy) || reasonOf(err) == setuplinks.LinkConsumed {
					outcome = "refused"
				}
			}
			outcomes[outcome]++
		})
	}
	together.Wait()
	require.Equal(t, 1, outcomes["connected"], outcomes)
	require.Equal(t, 99, outcomes["refused"], outcomes)
	numbers, err := f.Accounts.OfCustomer(t.Context(), f.org, f.customer.ID)
	require.NoError(t, err)
	require.Len(t, numbers, 1)
	require.Equal(t, []events.Type{events.CustomerCreated, events.SetupLinkCreated, events.CustomerOnboarded, events.SetupLinkConsumed},
		typesOf(f.recorded(t)))
}
