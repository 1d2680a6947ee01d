package customers_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

type fixture struct {
	*factory.World
	org  orgs.ID
	team orgs.TeamID
}

func setup(t *testing.T) (context.Context, fixture) {
	t.Helper()
	world := factory.New(t)
	org, team := world.Org(t)
	return t.Context(), fixture{World: world, org: org, team: team}
}

// recorded is an event as it was recorded.
type recorded struct {
	ID        events.ID
	Type      events.Type
	SubjectID ids.Any
	Body      []byte
}

// recorded returns the events of the organization, in the order of their ids.
func (b fixture) recorded(t *testing.T) []recorded {
	t.Helper()
	all, err := postgres.Many[recorded](t.Context(), b.DB.Of(b.org), `
SELECT id, type, subject_id, body FROM events WHERE org_id = @org_id ORDER BY id`, nil)
	require.NoError(t, err)
	return all
}

func (b fixture) recordedTypes(t *testing.T) (types []events.Type) {
	t.Helper()
	for _, event := range b.recorded(t) {
		types = append(types, event.Type)
	}
	return types
}

// requireRecorded compares the type, time and body of the last event with the customer.
func (b fixture) requireRecorded(t *testing.T, what events.Type, customer customers.Customer) {
	t.Helper()
	all := b.recorded(t)
	require.NotEmpty(t, all)
	last := all[len(all)-1]
	require.Equal(t, what, last.Type)
	require.Equal(t, customer.ID.Any(), last.SubjectID)
	require.Equal(t, customer.UpdatedAt, last.ID.CreatedAt())
	var body struct {
		ID        string                     `json:"id"`
		Type      events.Type                `json:"type"`
		CreatedAt string                     `json:"created_at"`
		Data      map[string]json.RawMessage `json:"data"`
	}
	require.NoError(t, json.Unmarshal(last.Body, &body))
	require.Equal(t, last.ID.String(), body.ID)
	require.Equal(t, what, body.Type)
	require.Equal(t, customer.UpdatedAt.Format("2006-01-02T15:04:05.000Z"), body.CreatedAt)
	require.Len(t, body.Data, 1)
	shown, err := json.Marshal(customer.Resource())
	require.NoError(t, err)
	require.JSONEq(t, string(shown), string(body.Data["customer"]))
}

func TestService_Create(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)

	customer, err := b.Customers.Create(ctx, b.org, customers.Draft{Name: "Bay Bakery", Email: new("Owner@Bay.example")})
	require.NoError(t, err)
	require.Equal(t, customers.Customer{
		ID: customer.ID, TeamID: b.team, Name: "Bay Bakery", Email: new("Owner@Bay.example"), Status: customers.Pending, UpdatedAt: b.Clock.Now(),
		LastEventAt: b.Clock.Now(),
	}, customer)
	require.Equal(t, b.Clock.Now(), customer.ID.CreatedAt())
	require.Equal(t, []events.Type{events.CustomerCreated}, b.recordedTypes(t))
	b.requireRecorded(t, events.CustomerCreated, customer)

	found, err := b.Customers.Get(ctx, b.org, customer.ID)
	require.NoError(t, err)
	require.Equal(t, customer, found)
	stranger, _ := b.Org(t)
	_, err = b.Customers.Get(ctx, stranger, customer.ID)
	require.Equal(t, fault.NotFound("customer"), err)

	_, err = b.Customers.Create(ctx, b.org, customers.Draft{Name: "  "})
	require.Equal(t, fault.Invalid("name", "must contain something visible"), err)
	require.Len(t, b.recorded(t), 1, "a refusal is not announced")
}

func TestService_Create_SeveralTeams_TeamRequired(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	second, err := b.Orgs.CreateTeam(ctx, b.org, audit.Operator(), "Second")
	require.NoError(t, err)

	_, err = b.Customers.Create(ctx, b.org, customers.Draft{Name: "Bay Bakery"})
	require.Equal(t, fault.MissingRequiredField, fault.Of(err))
	require.Equal(t, "team_id", fault.As(err).Param)
	customer, err := b.Customers.Create(ctx, b.org, customers.Draft{Name: "Bay Bakery", TeamID: &second.ID})
	require.NoError(t, err)
	require.Equal(t, second.ID, customer.TeamID)
	_, foreign := b.Org(t)
	_, err = b.Customers.Create(ctx, b.org, customers.Draft{Name: "Bay Bakery", TeamID: &foreign})
	require.Equal(t, fault.NotFound("team").At("team_id"), err, "a team of another organization does not exist")
}

func TestService_Create_Metadata_StoredUnchanged(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	const blanks = `{ "z": 1.10, "a": [1e2, 12345678901234567], "t": "<&>\u00e9 é` + "\u2028" + `" }`
	const kept = `{"z":1.10,"a":[1e2,12345678901234567],"t":"<&>\u00e9 é` + "\u2028" + `"}`
	customer, err := b.Customers.Create(ctx, b.org, customers.Draft{Name: "Bay Bakery", Metadata: json.RawMessage(blanks)})
	require.NoError(t, err)
	want := customer
	want.Metadata = json.RawMessage(kept)
	require.Equal(t, want, customer)
	found, err := b.Customers.Get(ctx, b.org, customer.ID)
	require.NoError(t, err)
	require.Equal(t, want, found)
	require.Contains(t, string(b.recorded(t)[0].Body), `"metadata":`+kept, "also in the event")

	for given, kept := range map[string]string{
		strings.Repeat(" ", 20<<10) + `{}`:               `{}`,
		`{"a":"` + strings.Repeat("x", 16<<10-8) + `"}`:  `{"a":"` + strings.Repeat("x", 16<<10-8) + `"}`,
		`{"a":"` + strings.Repeat("x", 16<<10-7) + `"}`:  "",
		`{"a":"` + strings.Repeat("é", 8<<10-4) + `xx"}`: "",
	} {
		changed, err := b.Customers.Update(ctx, b.org, customer.ID, customers.Patch{Metadata: patch.To(json.RawMessage(given))})
		_, createErr := b.Customers.Create(ctx, b.org, customers.Draft{Name: "Other", Metadata: json.RawMessage(given)})
		if kept == "" {
			require.Equal(t, fault.Invalid("metadata", "must be at most 16384 bytes as JSON"), err)
			require.Equal(t, err, createErr)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, createErr)
		require.Equal(t, kept, string(changed.Metadata))
	}
	_, err = b.Customers.Update(ctx, b.org, customer.ID, customers.Patch{Metadata: patch.To(json.RawMessage(`{"a":`))})
	require.Equal(t, fault.Invalid("metadata", "must be a JSON object"), err)
}

func TestService_Update_EventOnlyWhenSomethingChanged(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	raw := func(text string) patch.Field[json.RawMessage] { return patch.To(json.RawMessage(text)) }
	for name, test := range map[string]struct {
		change  customers.Patch
		changed bool
	}{
		"nothing":                     {customers.Patch{}, false},
		"the same name":               {customers.Patch{Name: patch.To("Bay Bakery")}, false},
		"another name":                {customers.Patch{Name: patch.To("BAY BAKERY")}, true},
		"the same address":            {customers.Patch{Email: patch.To("owner@bay.example")}, false},
		"another address":             {customers.Patch{Email: patch.To("Owner@bay.example")}, true},
		"no address":                  {customers.Patch{Email: patch.Clear[string]()}, true},
		"the same metadata":           {customers.Patch{Metadata: raw(`{"plan":"gold","n":1.0}`)}, false},
		"the same metadata, spaced":   {customers.Patch{Metadata: raw("{ \"plan\" : \"gold\",\n\"n\":1.0 }")}, false},
		"a number written otherwise":  {customers.Patch{Metadata: raw(`{"plan":"gold","n":1}`)}, false},
		"metadata in another order":   {customers.Patch{Metadata: raw(`{"n":1.0,"plan":"gold"}`)}, false},
		"empty metadata":              {customers.Patch{Metadata: raw(`{}`)}, true},
		"no metadata":                 {customers.Patch{Metadata: patch.Clear[json.RawMessage]()}, true},
		"active while pending":        {customers.Patch{Status: patch.To(customers.Active)}, true},
		"suspended":                   {customers.Patch{Status: patch.To(customers.Suspended)}, true},
		"something old and one thing": {customers.Patch{Name: patch.To("Bay Bakery"), Email: patch.To("new@bay.example")}, true},
	} {
		b.org, b.team = b.Org(t)
		before, err := b.Customers.Create(ctx, b.org, customers.Draft{
			Name: "Bay Bakery", Email: new("owner@bay.example"), Metadata: json.RawMessage(`{"plan":"gold","n":1.0}`),
		})
		require.NoError(t, err)
		b.Clock.Move(time.Minute)
		after, err := b.Customers.Update(ctx, b.org, before.ID, test.change)
		require.NoError(t, err)
		stored, err := b.Customers.Get(ctx, b.org, before.ID)
		require.NoError(t, err)
		require.Equal(t, after, stored, name)
		if !test.changed {
			require.Equal(t, before, after, name)
			require.Len(t, b.recorded(t), 1, name)
			continue
		}
		require.Equal(t, b.Clock.Now(), after.UpdatedAt, name)
		require.Equal(t, []events.Type{events.CustomerCreated, events.CustomerUpdated}, b.recordedTypes(t), name)
		b.requireRecorded(t, events.CustomerUpdated, after)
	}
}

func TestService_Update_Refusals(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	customer := b.Customer(t, b.org)
	_, err := b.Customers.Update(ctx, b.org, customer.ID, customers.Patch{Name: patch.To(" ")})
	require.Equal(t, fault.Invalid("name", "must contain something visible"), err)
	_, err = b.Customers.Update(ctx, b.org, customer.ID, customers.Patch{Status: patch.To(customers.Pending)})
	require.Equal(t, fault.Invalid("status", "must be active, suspended or archived"), err)
	stranger, _ := b.Org(t)
	_, err = b.Customers.Update(ctx, stranger, customer.ID, customers.Patch{Name: patch.To("Stolen")})
	require.Equal(t, fault.NotFound("customer"), err)
	_, err = b.Customers.Archive(ctx, stranger, customer.ID)
	require.Equal(t, fault.NotFound("customer"), err)
	_, err = b.Customers.Restore(ctx, stranger, audit.Operator(), customer.ID)
	require.Equal(t, fault.NotFound("customer"), err)
	require.Len(t, b.recorded(t), 1)
}
