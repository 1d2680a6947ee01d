package customers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/patch"
)

// names walks a list in pages of two and returns the names in order.
func (b fixture) names(t *testing.T, org orgs.ID, filter customers.Filter) []string {
	t.Helper()
	names, slice := []string{}, paging.Slice[customers.ID]{Limit: 2}
	for {
		page, err := b.Customers.List(t.Context(), org, filter, slice)
		require.NoError(t, err)
		for _, customer := range page.Items {
			names = append(names, customer.Name)
		}
		if page.Next == nil {
			return names
		}
		require.Len(t, page.Items, 2)
		require.Less(t, len(names), 20, "a walk ends")
		slice.After = page.Next
	}
}

func TestService_List(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	add := func(org orgs.ID, name, email string, status customers.Status) {
		draft := customers.Draft{Name: name}
		if email != "" {
			draft.Email = &email
		}
		customer, err := b.Customers.Create(ctx, org, draft)
		require.NoError(t, err)
		b.Clock.Move(time.Second)
		if status != customers.Pending {
			_, err = b.Customers.Update(ctx, org, customer.ID, customers.Patch{Status: patch.To(status)})
			require.NoError(t, err)
		}
	}
	add(b.org, "Bay Bakery", "owner@bay.example", customers.Active)
	add(b.org, "bay boats", "BAY@boats.example", customers.Suspended)
	add(b.org, "Straßenbäcker", "", customers.Archived)
	add(b.org, "Other", "baybakery@other.example", customers.Pending)
	add(b.org, "Bayern", "Owner@Bay.Example", customers.Archived)
	add(b.org, "50%_off", "a_b@x.example", customers.Pending)
	add(b.org, "ba\U0010ffff", "", customers.Pending)
	add(b.org, "Bayou", "bayou@x.example", customers.Active)
	stranger, _ := b.Org(t)
	add(stranger, "Bay Stranger", "owner@bay.example", customers.Active)

	for name, test := range map[string]struct {
		filter customers.Filter
		want   []string
	}{
		"all": {customers.Filter{}, []string{"Bayou", "ba\U0010ffff", "50%_off", "Bayern", "Other", "Straßenbäcker", "bay boats", "Bay Bakery"}},

		"status":                  {customers.Filter{Status: customers.Archived}, []string{"Bayern", "Straßenbäcker"}},
		"pending":                 {customers.Filter{Status: customers.Pending}, []string{"ba\U0010ffff", "50%_off", "Other"}},
		"email, whatever case":    {customers.Filter{Email: "OWNER@bay.example"}, []string{"Bayern", "Bay Bakery"}},
		"not a part of an email":  {customers.Filter{Email: "owner@bay"}, []string{}},
		"name or email, once":     {customers.Filter{Q: "bay"}, []string{"Bayou", "Bayern", "Other", "bay boats", "Bay Bakery"}},
		"a prefix in upper case":  {customers.Filter{Q: "BAY B"}, []string{"bay boats", "Bay Bakery"}},
		"a prefix of emails":      {customers.Filter{Q: "owner@"}, []string{"Bayern", "Bay Bakery"}},
		"folded":                  {customers.Filter{Q: "STRASSENB"}, []string{"Straßenbäcker"}},
		"not inside":              {customers.Filter{Q: "akery"}, []string{}},
		"no patterns":             {customers.Filter{Q: "%"}, []string{}},
		"a percent sign":          {customers.Filter{Q: "50%_"}, []string{"50%_off"}},
		"an underscore":           {customers.Filter{Q: "a_"}, []string{"50%_off"}},
		"the last character":      {customers.Filter{Q: "ba\U0010ffff"}, []string{"ba\U0010ffff"}},
		"only the last character": {customers.Filter{Q: "\U0010ffff"}, []string{}},
		"whole text":              {customers.Filter{Q: "Bay Bakery"}, []string{"Bay Bakery"}},
		"longer than any":         {customers.Filter{Q: "Bay Bakery!"}, []string{}},

		"status and email": {customers.Filter{Status: customers.Active, Email: "owner@bay.example"}, []string{"Bay Bakery"}},
		"status and q":     {customers.Filter{Status: customers.Archived, Q: "b"}, []string{"Bayern"}},
		"email and q":      {customers.Filter{Email: "owner@bay.example", Q: "bayer"}, []string{"Bayern"}},
		"all three":        {customers.Filter{Status: customers.Archived, Email: "owner@bay.example", Q: "bay"}, []string{"Bayern"}},
		"all three, none":  {customers.Filter{Status: customers.Pending, Email: "owner@bay.example", Q: "bay"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, b.names(t, b.org, test.filter))
		})
	}
	require.Equal(t, []string{"Bay Stranger"}, b.names(t, stranger, customers.Filter{Q: "bay"}))
}

func TestService_List_AfterUpdate_FoundByNewValues(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Customer(t, b.org)
	_, err := b.Customers.Update(ctx, b.org, made.ID, customers.Patch{Name: patch.To("Ärger"), Email: patch.To("New@x.example")})
	require.NoError(t, err)
	require.Equal(t, []string{"Ärger"}, b.names(t, b.org, customers.Filter{Q: "äR"}))
	require.Equal(t, []string{"Ärger"}, b.names(t, b.org, customers.Filter{Email: "nEw@x.example"}))
	require.Empty(t, b.names(t, b.org, customers.Filter{Q: "customer"}))
	_, err = b.Customers.Update(ctx, b.org, made.ID, customers.Patch{Email: patch.Clear[string]()})
	require.NoError(t, err)
	require.Empty(t, b.names(t, b.org, customers.Filter{Email: "new@x.example"}))
	require.Empty(t, b.names(t, b.org, customers.Filter{Q: "new"}))
}
