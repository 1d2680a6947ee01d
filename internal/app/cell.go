package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/schema"
)

// Cell is a cell in a running process: its services, and what keeps it in order.
type Cell struct {
	*cell.Cell

	url   string
	clock *clock.Synced
	// house is a pool of its own: readiness, time, partitions and the API log must not
	// queue behind requests.
	house *postgres.DB
	// labour is the pool of background work; it connects only when there is some.
	labour *postgres.DB
	labours

	synced, jumped atomic.Bool
}

// CellConfig says where a cell's database is and with what it is shared.
type CellConfig struct {
	Name      string
	URL       string
	Conns     int32
	Directory *directory.Directory
	Ring      *sealed.Keyring
	Posts     *safehttp.Client
	Provider  provider.Port
	Logger    *slog.Logger
	Tracers   []pgx.QueryTracer
}

const (
	houseConns  = 2
	labourConns = 12
	// labourWait is how long background work waits for a connection: nobody is told to come back.
	labourWait = 10 * time.Second
)

// OpenCell builds a cell without waiting for its database.
func OpenCell(ctx context.Context, config CellConfig) (*Cell, error) {
	db, err := postgres.Open(ctx, postgres.Config{
		URL: config.URL, Name: "parley " + config.Name, MaxConns: config.Conns,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: config.Tracers,
	})
	if err != nil {
		return nil, err
	}
	house, err := postgres.Open(ctx, postgres.Config{
		URL: config.URL, Name: "parley house of " + config.Name, MaxConns: houseConns,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: config.Tracers,
	})
	if err != nil {
		return nil, err
	}
	labour, err := postgres.Open(ctx, postgres.Config{
		URL: config.URL, Name: "parley work of " + config.Name, MaxConns: labourConns, AcquireWait: labourWait, Steady: true,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: config.Tracers,
	})
	if err != nil {
		return nil, err
	}
	c := &Cell{url: config.URL, clock: clock.NewSynced(), house: house, labour: labour}
	c.Cell, err = cell.New(cell.Deps{
		Name: config.Name, DB: db, LogDB: house, WorkDB: labour, Clock: c.clock, Directory: config.Directory,
		Ring: config.Ring, Posts: config.Posts, Provider: config.Provider, Logger: config.Logger,
	})
	return c, err
}

// Close lets go of every connection.
func (c *Cell) Close() {
	c.DB.Close()
	c.house.Close()
	c.labour.Close()
}

// Migrate brings the cell's database to the current schema and makes its partitions.
func (c *Cell) Migrate(ctx context.Context) (applied int, err error) {
	if applied, err = postgres.Migrate(ctx, c.url, schema.Migrations()); err != nil {
		return applied, err
	}
	queues, err := jobs.Migrate(ctx, c.house)
	if applied += queues; err != nil {
		return applied, err
	}
	if err := c.SyncClock(ctx); err != nil {
		return applied, err
	}
	return applied, c.house.EnsurePartitions(ctx, schema.Partitioned(), c.clock.Now())
}

const (
	clockEvery = 10 * time.Second
	clockFirst = 500 * time.Millisecond
	// maxJump is how far the offset to the database may move between two measurements.
	maxJump = 2 * time.Second
)

// SyncClock measures the offset to the database. A jump makes the cell unready until the
// next measurement agrees.
func (c *Cell) SyncClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clockEvery/2)
	defer cancel()
	jump, err := c.house.SyncClock(ctx, c.clock)
	if err != nil {
		return err
	}
	jumped := c.synced.Swap(true) && jump.Abs() > maxJump
	c.jumped.Store(jumped)
	if jumped {
		return fmt.Errorf("the clock jumped by %s against the database's", jump)
	}
	return nil
}

// unready says why the cell should get no requests, or "".
func (c *Cell) unready(ctx context.Context) string {
	version, err := c.house.SchemaVersion(ctx, schema.Migrations())
	if err != nil && !postgres.Unmigrated(err) {
		return "the database does not answer"
	}
	if version < schema.Migrations().Newest() {
		return "the schema is older than this program: run `parley migrate`"
	}
	ahead, err := c.house.PartitionsAhead(ctx, schema.Partitioned(), c.clock.Now())
	switch {
	case err != nil:
		return "the database does not answer"
	case ahead < postgres.PartitionsNeeded:
		return "partitions are running out: run `parley migrate`, and keep a `parley work` running"
	case !c.synced.Load():
		return "the clock was not yet compared with the database's"
	case c.jumped.Load():
		return "the clock jumped against the database's: check time synchronization"
	default:
		return ""
	}
}
