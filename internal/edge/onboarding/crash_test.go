package onboarding_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// outcome is what a process leaves behind that dies at a step.
type outcome string

const (
	nothing outcome = "nothing"
	whole   outcome = "whole"
	either  outcome = "either"
)

// deathPoint is a step at which a process dies, and the outcome.
type deathPoint struct {
	step    string
	expects outcome
}

var creating = []deathPoint{
	{claimed, nothing},
	{beforeCommit, nothing},
	{inCommit, either},
	{afterCommit, whole},
	{committed, whole},
	{confirmed, whole},
	{beforeAnswer, whole},
}

var completing = []deathPoint{
	{beforeLease, nothing},
	{inLease, nothing},
	{afterLease, nothing},
	{afterInspect, nothing},
	{afterList, nothing},
	{afterFetch, nothing},
	{beforeSubscribe, nothing},
	{afterSubscribe, nothing},
	{claimed, nothing},
	{beforeCommit, nothing},
	{inCommit, either},
	{afterCommit, whole},
	{committed, whole},
	{confirmed, whole},
	{beforeAnswer, whole},
}

// crash is a process that dies, and what is expected of it.
type crash struct {
	doomed
	deathPoint

	// link and browser are those of a completion.
	link    setuplinks.Created
	browser *browser
	// early visitors repeat the completion once the lease has lapsed, the others once the directory is resolved.
	early bool
	// died is what the process left, now what there is.
	died, now outcome
}

// completes tells whether the process completes a link, rather than creating one.
func (c *crash) completes() bool { return c.browser != nil }

func (c *crash) String() string {
	if c.completes() {
		return "completing, " + c.step
	}
	return "creating, " + c.step
}

// TestCrash_EachStep_NothingOrTheWhole kills processes that create and complete links, at each of their steps. Each leaves
// nothing, and the visitor can connect the number, or the whole, and the visitor sees that it is connected.
func TestCrash_EachStep_NothingOrTheWhole(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	database := pgtest.URL(t)
	f := setupIn(t, factory.On(t, pgtest.Connect(t, database)))
	_, err := f.Webhooks.Create(t.Context(), f.org, audit.Operator(), webhooks.Draft{
		URL: "https://platform.example/events", Events: events.Catalogue(),
	})
	require.NoError(t, err)
	crashes := f.plan(t, rand.New(rand.NewPCG(seed, 0)), database)
	var group errgroup.Group
	group.SetLimit(3)
	for _, one := range crashes {
		group.Go(one.run)
	}
	require.NoError(t, group.Wait())
	f.awaitDead(t)
	for _, one := range crashes {
		f.examine(t, one, one.expects)
		one.died = one.now
	}
	f.Clock.Move(61 * time.Second) // the leases have lapsed, the claims are not resolved yet
	for _, one := range crashes {
		if one.completes() && one.early {
			f.repeatEarly(t, one)
		}
	}
	f.Clock.Move(5 * time.Minute)
	resolved, err := f.Directory.Resolve(t.Context(), f.Holds)
	require.NoError(t, err)
	require.Positive(t, resolved)
	t.Logf("%d claims were resolved", resolved)
	f.agrees(t)
	for _, one := range crashes {
		f.examine(t, one, one.now)
		if one.completes() {
			f.repeat(t, one)
		}
	}
	f.agrees(t)
	tally(t, crashes)
}

// plan spreads the deaths over the steps.
func (f *fixture) plan(t *testing.T, random *rand.Rand, database string) (crashes []*crash) {
	t.Helper()
	var points []crash
	for _, at := range creating {
		points = append(points, crash{deathPoint: at})
	}
	for _, at := range completing {
		points = append(points, crash{deathPoint: at, browser: &browser{}})
	}
	for number := range proof.Sized(24, 200) {
		if number%len(points) == 0 {
			random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		}
		one := points[number%len(points)]
		customer := f.Customer(t, f.org)
		one.doomed = doomed{
			Step: one.step, Cell: f.Name, Database: database, Server: f.Network.URL, Now: f.Clock.Now(), Org: f.org, Customer: customer.ID,
		}
		if one.early = random.IntN(2) == 0; one.completes() {
			f.visit(t, &one)
		}
		crashes = append(crashes, &one)
	}
	return crashes
}

// visit goes as far as the number page with a link of the customer.
func (f *fixture) visit(t *testing.T, one *crash) {
	t.Helper()
	var err error
	one.link, err = f.SetupLinks.Create(t.Context(), f.org, audit.Operator(), one.Customer, setuplinks.Draft{})
	require.NoError(t, err)
	one.browser = f.browser(t)
	one.browser.get(t, one.link.SetupURL)
	state := one.browser.dialog(t, one.link)
	var code string
	code, one.Number, _ = f.Network.SignUp(t, object{})
	chosen := one.browser.back(t, state, code)
	require.Equal(t, numberTitle, chosen.title(), chosen.body)
	one.Path = chosen.at
	address, err := url.Parse(factory.PublicURL + chosen.at)
	require.NoError(t, err)
	var cookies []string
	for _, cookie := range one.browser.http.Jar.Cookies(address) {
		cookies = append(cookies, cookie.Name+"="+cookie.Value)
	}
	one.Cookie = strings.Join(cookies, "; ")
}

const numberTitle = "Which number do you want to connect?"

// run starts the process and expects it to be killed.
func (c *crash) run() error {
	encoded, err := json.Marshal(c.doomed)
	if err != nil {
		return err
	}
	command := exec.Command(os.Args[0], "-test.run=^TestCrash_Child$")
	command.Env = append(os.Environ(), doomedVariable+"="+string(encoded))
	output, _ := command.CombinedOutput()
	status, is := command.ProcessState.Sys().(syscall.WaitStatus)
	if !is || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("%s: the process did not die: %s", c, output)
	}
	return nil
}

// awaitDead waits until the server has closed the connections of the dead processes, because a commit may still be running
// there.
func (f *fixture) awaitDead(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		alive, err := postgres.One[int](t.Context(), f.DB.System("test"), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = @name`, postgres.Args{"name": childName})
		return err == nil && alive == 0
	}, 3*time.Minute, 20*time.Millisecond)
}

// traces is what the organization has of a customer that has one link at most.
type traces struct {
	Links, Accounts, Consumed, Deliveries int
	Status                                customers.Status
	Events                                []events.Type
	Audit                                 []string
}

const sqlTraces = `
SELECT (SELECT count(*) FROM setup_links WHERE org_id = @org_id AND customer_id = @customer) AS links,
       (SELECT count(*) FROM accounts WHERE org_id = @org_id AND customer_id = @customer AND deleted_at IS NULL) AS accounts,
       (SELECT count(*) FROM setup_links l
        JOIN accounts a ON a.org_id = l.org_id AND a.id = l.account_id AND a.customer_id = l.customer_id
        WHERE l.org_id = @org_id AND l.customer_id = @customer AND l.consumed_at IS NOT NULL AND l.session_hash IS NOT NULL
          AND a.phone_number_id = @number) AS consumed,
       (SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND subject_id = @customer) AS deliveries,
       (SELECT status FROM customers WHERE org_id = @org_id AND id = @customer) AS status,
       ARRAY(SELECT type FROM events WHERE org_id = @org_id AND subject_id = @customer ORDER BY id) AS events,
       ARRAY(SELECT action FROM audit_log
             WHERE org_id = @org_id AND (detail ->> 'customer_id' = @customer_name OR actor_id = @link)
             ORDER BY action) AS audit`

// examine reads what there is of a crash, and checks that it is nothing or the whole.
func (f *fixture) examine(t *testing.T, one *crash, expected outcome) {
	t.Helper()
	found, err := postgres.One[traces](t.Context(), f.DB.Of(f.org), sqlTraces, postgres.Args{
		"customer": one.Customer, "customer_name": one.Customer.String(), "link": audit.ByLink(one.link.ID).ID, "number": one.Number,
	})
	require.NoError(t, err)
	bare := traces{Status: customers.Pending, Events: []events.Type{events.CustomerCreated}, Deliveries: 1, Audit: []string{}}
	invited := traces{
		Links: 1, Status: customers.Pending, Events: []events.Type{events.CustomerCreated, events.SetupLinkCreated}, Deliveries: 2,
		Audit: []string{"setup_link.created"},
	}
	connected := traces{
		Links: 1, Accounts: 1, Consumed: 1, Status: customers.Active, Deliveries: 4,
		Events: []events.Type{events.CustomerCreated, events.SetupLinkCreated, events.CustomerOnboarded, events.SetupLinkConsumed},
		Audit:  []string{"account.connected", "setup_link.consumed", "setup_link.created"},
	}
	none, all := bare, invited
	if one.completes() {
		none, all = invited, connected
	}
	if one.now = nothing; len(found.Events) > len(none.Events) {
		one.now, none = whole, all
	}
	require.Equal(t, none, found, one)
	if expected != either {
		require.Equal(t, expected, one.now, one)
	}
}

// repeatEarly posts the number again, before the claims of dead processes are resolved: a number that such a process has
// claimed is still in use.
func (f *fixture) repeatEarly(t *testing.T, one *crash) {
	t.Helper()
	shown := one.browser.post(t, one.Path, url.Values{"phone_number_id": {one.Number}})
	if one.now == nothing && slices.Contains([]string{claimed, beforeCommit, inCommit}, one.step) {
		require.Equal(t, "This number is connected already", shown.title(), one)
		return
	}
	require.Contains(t, shown.title(), "Activate", one)
	f.examine(t, one, whole)
}

// repeat is what the visitor does who got no answer: the same browser loads the page again, and connects the number if it
// is not connected yet.
func (f *fixture) repeat(t *testing.T, one *crash) {
	t.Helper()
	shown := one.browser.get(t, one.Path)
	require.Equal(t, http.StatusOK, shown.status, one)
	if one.now == nothing {
		require.Equal(t, numberTitle, shown.title(), one)
		shown = one.browser.post(t, one.Path, url.Values{"phone_number_id": {one.Number}})
	}
	require.Contains(t, shown.title(), "Activate", one)
	f.examine(t, one, whole)
	require.Equal(t, "This link was used already", f.browser(t).get(t, one.link.SetupURL).title(), "another browser")
}

const sqlDisagreements = `
SELECT coalesce(r.kind, h.kind) || ' ' || encode(coalesce(r.key, h.key), 'hex') || ' is ' || coalesce(r.state, 'not there')
FROM (SELECT kind, key, org_id, generation, state FROM directory.routes WHERE kind <> 'api_key' AND state <> 'released') r
FULL JOIN (SELECT 'setup_token' AS kind, token_hash AS key, org_id, 1 AS generation FROM setup_links
           UNION ALL
           SELECT 'phone_number', convert_to(phone_number_id, 'UTF8'), org_id, generation FROM accounts) h
USING (kind, key, org_id, generation)
WHERE r.state IS DISTINCT FROM 'confirmed' OR h.key IS NULL`

// agrees fails the test when the directory and the cell have different links or numbers.
func (f *fixture) agrees(t *testing.T) {
	t.Helper()
	wrong, err := postgres.Many[string](t.Context(), f.DB.System("test"), sqlDisagreements, nil)
	require.NoError(t, err)
	require.Empty(t, wrong)
}

// tally logs what the processes left that died at each step.
func tally(t *testing.T, crashes []*crash) {
	t.Helper()
	figures := map[string]map[outcome]int{}
	for _, one := range crashes {
		if figures[one.String()] == nil {
			figures[one.String()] = map[outcome]int{}
		}
		figures[one.String()][one.died]++
	}
	for _, label := range slices.Sorted(maps.Keys(figures)) {
		t.Logf("%-46s nothing %2d, whole %2d", label, figures[label][nothing], figures[label][whole])
	}
}
