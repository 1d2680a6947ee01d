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

// The steps at which a process can die inside the cell's commit; the others have the
// directory's names for them.
const (
	beforeCommit = "before the commit"
	inCommit     = "in the commit"
	afterCommit  = "after the commit"
)

// killing is what one process does and where it dies.
type killing struct {
	Number   int
	Kind     directory.Kind // empty for an organization
	GiveBack bool
	Step     string
	Cell     string
	Org      ids.Org
	// Former is who had the number or token before, in FormerCell; nobody when zero.
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

// TestCrashChild is the process that TestCrash kills; by itself it does nothing.
func TestCrashChild(t *testing.T) {
	t.Parallel()
	told := os.Getenv(killingVariable)
	if told == "" {
		return
	}
	c := &child{}
	require.NoError(t, json.Unmarshal([]byte(told), &c.plan))
	c.clock = clock.NewManual(c.plan.Now)
	c.routes = directory.New(open(t, c.plan.URLs[routing]), c.clock, directory.OnStep(c.reach))
	c.db = open(t, c.plan.URLs[c.plan.Cell], c)
	require.NoError(t, c.operate(t))
	time.Sleep(time.Minute) // whoever dies in the commit may see its end
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

// operate does what goes before and then what the process dies of.
func (c *child) operate(t *testing.T) error {
	ctx, plan := t.Context(), c.plan
	if !plan.Former.IsZero() {
		db := open(t, plan.URLs[plan.FormerCell])
		generation, err := take(ctx, c.routes, db, plan.Kind, plan.key(), plan.Former)
		require.NoError(t, err)
		require.NoError(t, giveBack(ctx, c.routes, db, plan.Kind, plan.key(), plan.Former, generation))
	}
	if plan.GiveBack {
		generation, err := take(ctx, c.routes, c.db, plan.Kind, plan.key(), plan.Org)
		require.NoError(t, err)
		c.armed.Store(true)
		return giveBack(ctx, c.routes, c.db, plan.Kind, plan.key(), plan.Org, generation)
	}
	c.armed.Store(true)
	if _, given := things[plan.Kind]; given {
		_, err := take(ctx, c.routes, c.db, plan.Kind, plan.key(), plan.Org)
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
	select {} // nothing more may happen
}

type commitKey struct{}

// TraceQueryStart sees the cell's statements before they are sent.
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

// TraceQueryEnd sees them answered.
func (c *child) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(commitKey{}) != nil {
		c.reach(afterCommit)
	}
}
