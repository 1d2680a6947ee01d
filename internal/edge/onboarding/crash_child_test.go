package onboarding_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/customers"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/setuplinks"
	"github.com/parley-chat/parley/internal/edge/onboarding"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/provider/cloud"
	"github.com/parley-chat/parley/internal/simulator"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// The steps at which a process can die. "claimed", "committed" and "confirmed" are the names that the directory gives to
// OnStep.
const (
	beforeLease     = "before the commit of the lease"
	inLease         = "in the commit of the lease"
	afterLease      = "after the commit of the lease"
	afterInspect    = "after InspectToken"
	afterList       = "after ListNumbers"
	afterFetch      = "after FetchNumber"
	beforeSubscribe = "before Subscribe"
	afterSubscribe  = "after Subscribe"
	claimed         = "claimed"
	beforeCommit    = "before the commit"
	inCommit        = "in the commit"
	afterCommit     = "after the commit"
	committed       = "committed"
	confirmed       = "confirmed"
	beforeAnswer    = "before the answer"
)

// doomed tells a child process what to do and at which step to die.
type doomed struct {
	Step                   string
	Cell, Database, Server string
	Now                    time.Time
	// Org and Customer get a link, unless Path is set.
	Org      orgs.ID
	Customer customers.ID
	// Path is where the number page posts the number, with the visitor's cookies.
	Path, Number, Cookie string
}

const (
	doomedVariable = "PARLEY_TEST_DOOMED"
	childName      = "setup link crash child"
)

// TestCrash_Child is the child process of TestCrash_EachStep_NothingOrTheWhole. It passes at once when run by itself.
func TestCrash_Child(t *testing.T) {
	t.Parallel()
	encoded := os.Getenv(doomedVariable)
	if encoded == "" {
		return
	}
	c := &child{}
	require.NoError(t, json.Unmarshal([]byte(encoded), &c.plan))
	c.clock = clock.NewManual(c.plan.Now)
	c.routes = directory.New(open(t, c.plan.Database), c.clock, directory.OnStep(c.reach))
	made := c.cell(t)
	if c.plan.Path == "" {
		_, err := made.SetupLinks.Create(t.Context(), c.plan.Org, audit.Operator(), c.plan.Customer, setuplinks.Draft{})
		require.NoError(t, err)
		c.reach(beforeAnswer)
	} else {
		c.post(t, made)
	}
	time.Sleep(time.Minute) // a process that dies in the commit may live until after it
	t.Fatalf("survived %s", c.plan.Step)
}

func open(t *testing.T, url string, tracers ...pgx.QueryTracer) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: pgtest.Patient(t, url), Name: childName, MaxConns: 2, AcquireWait: time.Minute,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: tracers,
	})
	require.NoError(t, err)
	return db
}

type child struct {
	plan   doomed
	clock  clock.Clock
	routes *directory.Directory
	// commits counts those of the cell: the first commit of a completion is that of the lease.
	commits atomic.Int64
}

func (c *child) cell(t *testing.T) *cell.Cell {
	t.Helper()
	client, err := cloud.New(cloud.Config{
		BaseURL: c.plan.Server, AppID: simulator.DefaultAppID, AppSecrets: []telemetry.Secret{canary.AppSecret},
		VerifyToken: canary.VerifyToken, Clock: c.clock,
	})
	require.NoError(t, err)
	made, err := cell.New(cell.Deps{
		Name: c.plan.Cell, DB: open(t, c.plan.Database, c), Clock: c.clock, Directory: c.routes, Ring: ring(t),
		Provider: mortal{Port: client, reach: c.reach}, PublicURL: factory.PublicURL, Logger: canary.Logger(t),
	})
	require.NoError(t, err)
	return made
}

func ring(t *testing.T) *sealed.Keyring {
	t.Helper()
	made, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	return made
}

// post sends the form of the number page.
func (c *child) post(t *testing.T, made *cell.Cell) {
	t.Helper()
	pages, err := onboarding.New(onboarding.Deps{
		Cells: map[string]*cell.Cell{made.Name: made}, Directory: c.routes, Clock: c.clock, Ring: ring(t), Logger: canary.Logger(t),
		Guesses: ratelimit.NewLocal(ratelimit.Limit{PerSecond: 1, Burst: 60}, c.clock), PublicURL: factory.PublicURL,
	})
	require.NoError(t, err)
	form := url.Values{"phone_number_id": {c.plan.Number}}.Encode()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, factory.PublicURL+c.plan.Path, strings.NewReader(form))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Cookie", c.plan.Cookie)
	answer := &lastWords{ResponseRecorder: httptest.NewRecorder(), reach: c.reach}
	pages.ServeHTTP(answer, request)
	t.Logf("%d %s", answer.Code, answer.Body)
}

func (c *child) reach(step string) {
	if step == c.plan.Step {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // wait for the signal to take effect
}

// lastWords is an answer that the process may not live to write.
type lastWords struct {
	*httptest.ResponseRecorder

	reach func(step string)
}

func (l *lastWords) WriteHeader(status int) {
	if status == http.StatusSeeOther {
		l.reach(beforeAnswer)
	}
	l.ResponseRecorder.WriteHeader(status)
}

// mortal is a provider whose caller may die before or after a call.
type mortal struct {
	provider.Port

	reach func(step string)
}

func (m mortal) InspectToken(ctx context.Context, token provider.Token) (provider.TokenState, error) {
	defer m.reach(afterInspect)
	return m.Port.InspectToken(ctx, token)
}

func (m mortal) ListNumbers(ctx context.Context, of provider.BusinessAccount) ([]provider.NumberState, error) {
	defer m.reach(afterList)
	return m.Port.ListNumbers(ctx, of)
}

func (m mortal) FetchNumber(ctx context.Context, number provider.Number) (provider.NumberState, error) {
	defer m.reach(afterFetch)
	return m.Port.FetchNumber(ctx, number)
}

func (m mortal) Subscribe(ctx context.Context, to provider.BusinessAccount) error {
	m.reach(beforeSubscribe)
	defer m.reach(afterSubscribe)
	return m.Port.Subscribe(ctx, to)
}

type commitKey struct{}

// maxRace is how much the death or the commit may be ahead of the other.
const maxRace = time.Millisecond

// TraceQueryStart runs before each statement of the cell and watches for the commits.
func (c *child) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "commit" {
		return ctx
	}
	before, in, after := beforeCommit, inCommit, afterCommit
	if c.commits.Add(1) == 1 && c.plan.Path != "" {
		before, in, after = beforeLease, inLease, afterLease
	}
	c.reach(before)
	if c.plan.Step == in {
		go func() {
			time.Sleep(rand.N(maxRace))
			die()
		}()
		time.Sleep(rand.N(maxRace))
	}
	return context.WithValue(ctx, commitKey{}, after)
}

// TraceQueryEnd runs when a statement was answered.
func (c *child) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if after, is := ctx.Value(commitKey{}).(string); is {
		c.reach(after)
	}
}
