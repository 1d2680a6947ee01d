package directory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/schema"
)

// The steps around the cell's commit at which a process can die. The other steps have the names
// that the directory gives to OnStep.
const (
	beforeCommit = "before the commit"
	inCommit     = "in the commit"
	afterCommit  = "after the commit"
)

// killing tells one child process what to do and at which step to die.
type killing struct {
	Number  int
	Kind    directory.Kind // empty for an organization
	Release bool
	Step    string
	Cell    string
	Org     ids.Org
	// Former is the organization that had the number or token before, in FormerCell; zero for none.
	Former     ids.Org
	FormerCell string

	URLs map[string]string
	Now  time.Time
}

func (k killing) name() string { return fmt.Sprintf("killing %d", k.Number) }

func (k killing) key() []byte { return []byte(k.name()) }

const (
	killingVariable = "PARLEY_TEST_KILLING"
	childName       = "crash child"
)

// TestCrash_Child is the child process of TestCrash_ProcessKilledAtEachStep_RoutesResolved. It
// passes at once when run by itself.
func TestCrash_Child(t *testing.T) {
	t.Parallel()
	encoded := os.Getenv(killingVariable)
	if encoded == "" {
		return
	}
	c := &child{}
	require.NoError(t, json.Unmarshal([]byte(encoded), &c.plan))
	c.clock = clock.NewManual(c.plan.Now)
	c.routes = directory.New(open(t, c.plan.URLs[routing]), c.clock, directory.OnStep(c.reach))
	c.db = open(t, c.plan.URLs[c.plan.Cell], c)
	require.NoError(t, c.operate(t))
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
	plan   killing
	clock  clock.Clock
	routes *directory.Directory
	db     *postgres.DB
	armed  atomic.Bool
}

// operate prepares the route and then runs the claim or release in which the process dies.
func (c *child) operate(t *testing.T) error {
	ctx, plan := t.Context(), c.plan
	if !plan.Former.IsZero() {
		db := open(t, plan.URLs[plan.FormerCell])
		generation, err := claim(ctx, c.routes, db, plan.Kind, plan.key(), plan.Former)
		require.NoError(t, err)
		require.NoError(t, release(ctx, c.routes, db, plan.Kind, plan.key(), plan.Former, generation))
	}
	if plan.Release {
		generation, err := claim(ctx, c.routes, c.db, plan.Kind, plan.key(), plan.Org)
		require.NoError(t, err)
		c.armed.Store(true)
		return release(ctx, c.routes, c.db, plan.Kind, plan.key(), plan.Org, generation)
	}
	c.armed.Store(true)
	if _, given := things[plan.Kind]; given {
		_, err := claim(ctx, c.routes, c.db, plan.Kind, plan.key(), plan.Org)
		return err
	}
	services, err := cell.New(cell.Deps{
		Name: plan.Cell, DB: c.db, Clock: c.clock, Directory: c.routes, Logger: canary.Logger(t),
	})
	require.NoError(t, err)
	if plan.Kind == directory.APIKey {
		_, _, err = services.Keys.Issue(ctx, plan.Org, audit.Operator(), apikeys.Draft{Name: plan.name()})
		return err
	}
	_, _, err = services.Orgs.Create(ctx, audit.Operator(), orgs.Draft{Name: plan.name(), Plan: "platform"})
	return err
}

func (c *child) reach(step string) {
	if step == c.plan.Step && c.armed.Load() {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // wait for the signal to take effect
}

type commitKey struct{}

// TraceQueryStart runs before each statement of the cell and watches for the commit.
func (c *child) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "commit" {
		return ctx
	}
	c.reach(beforeCommit)
	if c.plan.Step == inCommit && c.armed.Load() {
		go func() {
			if rand.N(3) == 0 {
				time.Sleep(rand.N(time.Millisecond))
			}
			die()
		}()
	}
	return context.WithValue(ctx, commitKey{}, true)
}

// TraceQueryEnd runs when a statement was answered.
func (c *child) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(commitKey{}) != nil {
		c.reach(afterCommit)
	}
}
