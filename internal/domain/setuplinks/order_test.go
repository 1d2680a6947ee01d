package setuplinks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/proof"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// eventful is a fixture whose events are posted to a receiver that fails, is late and does not answer in time, at random.
type eventful struct {
	fixture

	receiver *receiver.Receiver
	mu       sync.Mutex
	random   *rand.Rand
	// accepted are the events that were answered with 200, by their uid.
	accepted map[string]bool
	failed   int
}

// postTimeout is how long a post waits for its answer here.
const postTimeout = 2 * time.Second

func newEventful(t *testing.T, seed uint64) *eventful {
	t.Helper()
	e := &eventful{
		fixture: fixture{World: factory.New(t)}, receiver: receiver.New(t), random: rand.New(rand.NewPCG(seed, 0)), accepted: map[string]bool{},
	}
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	posts, err := safehttp.New(safehttp.Config{
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, CAFile: receiver.CAFile(t), Timeout: postTimeout,
	})
	require.NoError(t, err)
	t.Cleanup(posts.Close)
	e.Cell, err = cell.New(cell.Deps{
		Name: e.Name, DB: e.DB, Clock: e.Clock, Directory: e.Directory, Ring: ring, Posts: posts, Provider: e.Network,
		PublicURL: factory.PublicURL, Logger: e.Logger,
	})
	require.NoError(t, err)
	e.org, _ = e.Org(t)
	e.receiver.Answer(e.answer)
	_, err = e.Webhooks.Create(t.Context(), e.org, audit.Operator(), webhooks.Draft{URL: e.receiver.URL, Events: events.Catalogue()})
	require.NoError(t, err)
	e.Work(t)
	return e
}

// answer fails a third of the attempts. No delivery fails so often that it is given up.
func (e *eventful) answer(r receiver.Request) receiver.Answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	luck := e.random.IntN(100)
	if r.Attempt() >= 8 {
		luck = 100
	}
	e.failed++
	switch {
	case luck < 12:
		return receiver.Answer{Status: 500}
	case luck < 20:
		return receiver.Answer{Status: 404}
	case luck < 24:
		return receiver.Answer{Status: 429, RetryAfter: "9"}
	case luck < 30:
		return receiver.Answer{Close: true}
	case luck < 31:
		return receiver.Answer{Delay: time.Hour} // the post ends before
	}
	e.failed--
	e.accepted[r.EventUID()] = true
	if luck < 40 {
		return receiver.Answer{Delay: time.Duration(e.random.IntN(50)) * time.Millisecond}
	}
	return receiver.Answer{}
}

// life is a customer, and the numbers that it may connect.
type life struct {
	*eventful

	customer customers.Customer
	tokens   []provider.Token
	numbers  []string
	changes  int
	// early customers are archived while their links are used.
	early bool
	// made are the links in the order of their creation, unused those that were not used yet.
	made   []string
	unused chan setuplinks.ID
}

// TestOrder_RandomFailures_EventsOfLinksInOrder changes customers and their links at the same time, while the endpoint fails
// at random. Every event arrives, in the order of the changes.
func TestOrder_RandomFailures_EventsOfLinksInOrder(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	e := newEventful(t, seed)
	var lives []*life
	for i := range proof.Sized(6, 24) {
		l := &life{eventful: e, customer: e.Customer(t, e.org), changes: 8, early: i%2 == 0, unused: make(chan setuplinks.ID, 8)}
		for range 3 {
			token, number, _ := e.grant(t, object{})
			l.tokens, l.numbers = append(l.tokens, token), append(l.numbers, number)
		}
		lives = append(lives, l)
	}
	var group sync.WaitGroup
	for _, l := range lives {
		group.Go(func() { l.live(t) })
	}
	for range 10 {
		e.Pass(t, time.Millisecond)
	}
	group.Wait()
	e.deliverAll(t)
	all, counts := e.recorded(t), map[events.Type]int{}
	for _, one := range all {
		require.True(t, e.accepted[one.ID.String()], "%s %s was never accepted", one.Type, one.ID)
		counts[one.Type]++
	}
	require.Greater(t, counts[events.SetupLinkConsumed], len(lives))
	require.Greater(t, e.failed, len(all)/5, "the endpoint did fail")
	t.Logf("%v, %d failures", counts, e.failed)
	arrived := e.arrivals(t)
	for _, l := range lives {
		l.causal(t, arrived[l.customer.ID.String()])
	}
}

// live changes the customer, creates, changes and revokes links, and uses them, all at once. Then the customer is archived,
// or already before the links are used.
func (l *life) live(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var links, names sync.WaitGroup
	names.Go(func() {
		for i := range l.changes {
			_, err := l.Customers.Update(ctx, l.org, l.customer.ID, customers.Patch{Name: patch.To(fmt.Sprintf("Name %03d", i))})
			l.allow(t, err)
		}
	})
	links.Go(func() {
		defer close(l.unused)
		for i := range l.changes {
			made, err := l.SetupLinks.Create(ctx, l.org, audit.Operator(), l.customer.ID, setuplinks.Draft{})
			if l.allow(t, err); err != nil {
				return
			}
			l.made = append(l.made, made.ID.String())
			l.unused <- made.ID
			_, err = l.SetupLinks.Update(ctx, l.org, l.customer.ID, made.ID, setuplinks.Patch{
				SuccessRedirectURL: patch.To("https://platform.example/connected"),
			})
			l.allow(t, err)
			if i%3 == 0 {
				_, err = l.SetupLinks.Revoke(ctx, l.org, audit.Operator(), l.customer.ID, made.ID)
				l.allow(t, err)
			}
		}
	})
	links.Go(func() {
		used := 0
		for link := range l.unused {
			at := used % len(l.numbers)
			_, err := l.SetupLinks.Complete(ctx, l.org, setuplinks.Visitor{Session: "browser"}, link, l.tokens[at], l.numbers[at])
			if l.allow(t, err); err == nil {
				used++
			}
		}
	})
	names.Wait()
	if !l.early {
		links.Wait()
	}
	_, err := l.Customers.Archive(ctx, l.org, l.customer.ID)
	l.allow(t, err)
	links.Wait()
}

// allow fails the test for an error that is no refusal of an archived customer or of a link that cannot be used.
func (l *life) allow(t *testing.T, err error) {
	t.Helper()
	_, refused := errors.AsType[*setuplinks.RefusalError](err)
	if err != nil && !refused && fault.Of(err) != fault.CustomerArchived && fault.Of(err) != fault.SetupLinkInactive &&
		!errors.Is(err, setuplinks.ErrNotGranted) {
		t.Error(err)
	}
}

const sqlBusy = `
SELECT (SELECT count(*)
        FROM lane_rows r
        JOIN lanes l USING (lane_id)
        WHERE l.org_id = @org_id
          AND r.due_at <= @now
          AND (l.blocked_until IS NULL OR l.blocked_until <= @now)
          AND NOT EXISTS (SELECT FROM lane_keys k WHERE k.lane_id = r.lane_id AND k.key = r.key AND k.holder <> r.id))
     + (SELECT count(*)
        FROM lanes l
        WHERE l.org_id = @org_id
          AND l.armed
          AND l.token IS NOT NULL
          AND NOT EXISTS (SELECT FROM ` + jobs.Table + ` j WHERE j.id = l.token))`

// deliverAll moves the clock until every delivery has succeeded.
func (e *eventful) deliverAll(t *testing.T) {
	t.Helper()
	count := func(sql string) int {
		found, err := postgres.One[int](t.Context(), e.DB.Of(e.org), sql, postgres.Args{"now": e.Clock.Now()})
		require.NoError(t, err)
		return found
	}
	for step := time.Second; count(`SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status <> 'succeeded'`) > 0; {
		e.Pass(t, step)
		require.Eventually(t, func() bool { return count(sqlBusy) == 0 }, 3*time.Minute, 5*time.Millisecond, "the lanes do not come to rest")
		step = min(step*5/4, 10*time.Minute)
		require.Zero(t, count(`SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND status = 'dead'`), "none dies")
	}
}

// arrival is an event as the receiver sees it.
type arrival struct {
	uid  string
	kind events.Type
	data struct {
		CustomerID string                      `json:"customer_id"`
		AccountID  string                      `json:"account_id"`
		SetupLink  struct{ ID, Status string } `json:"setup_link"`
		Customer   struct{ ID, Name, Status string }
	}
}

// arrivals are the events of each customer. An event is never tried again once a later one was.
func (e *eventful) arrivals(t *testing.T) map[string][]arrival {
	t.Helper()
	all := map[string][]arrival{}
	for _, request := range e.receiver.Requests() {
		a := arrival{uid: request.EventUID(), kind: events.Type(request.Event())}
		body := struct{ Data any }{&a.data}
		require.NoError(t, json.Unmarshal(request.Body, &body))
		of := a.data.CustomerID + a.data.Customer.ID
		if at := slices.IndexFunc(all[of], func(b arrival) bool { return b.uid == a.uid }); at >= 0 {
			require.Equal(t, len(all[of])-1, at, "%s of %s again after a later one", a.kind, of)
			continue
		}
		all[of] = append(all[of], a)
	}
	return all
}

// causal checks the order of the customer's events by what they show, not by their ids.
func (l *life) causal(t *testing.T, arrived []arrival) {
	t.Helper()
	name, status, created, consumed := "", "pending", []string{}, map[string]bool{}
	for i, a := range arrived {
		where := fmt.Sprintf("%s: event %d, %s", l.customer.ID, i, a.kind)
		require.Equal(t, i == 0, a.kind == events.CustomerCreated, where)
		require.Equal(t, i == len(arrived)-1, a.kind == events.CustomerArchived, where)
		link := a.data.SetupLink
		switch a.kind {
		case events.CustomerUpdated:
			require.Greater(t, a.data.Customer.Name, name, where)
			require.Equal(t, status, a.data.Customer.Status, where)
			name = a.data.Customer.Name
		case events.SetupLinkCreated:
			created = append(created, link.ID)
		case events.CustomerOnboarded:
			status = "active"
			require.Equal(t, events.SetupLinkConsumed, arrived[i+1].kind, where)
			require.Equal(t, a.data.AccountID, arrived[i+1].data.AccountID, where)
		case events.SetupLinkConsumed:
			require.Equal(t, events.CustomerOnboarded, arrived[i-1].kind, where)
			require.Contains(t, created, link.ID, where)
			require.False(t, consumed[link.ID], where)
			consumed[link.ID] = true
		default: // the first and the last
		}
	}
	require.Equal(t, l.made, created)
}
