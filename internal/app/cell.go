package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/safehttp"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/schema"
)

// Cell is a cell in a running process: its services, its connection pools and its clock.
type Cell struct {
	*cell.Cell

	url   string
	clock *clock.Synced
	// database is what readiness checks: upkeepDB.
	database database
	// upkeepDB is the pool of readiness checks, clock, partitions and API log, so that they do not
	// wait for connections behind requests.
	upkeepDB *postgres.DB
	// workDB is the pool of background work. It connects only when there is work.
	workDB *postgres.DB
	expiry *postgres.Expiry
	workMetrics

	// key is nil in a command without a master key.
	key *keyCheck
	// keyed is closed once the master key was checked.
	keyed chan struct{}
	// refusal is why the check of the master key refused the cell; nil if it did not.
	refusal        atomic.Pointer[string]
	admitted       sync.Once
	synced, jumped atomic.Bool
}

// CellConfig is a cell's database, and what the cell shares with the other cells of the process.
type CellConfig struct {
	Name string
	URL  string
	// Migrations are those that the database must have. Default: those of a cell.
	Migrations []postgres.Migrations
	// Conns is the size of the pool that serves requests.
	Conns int32
	// AcquireWait is the longest wait for a free connection. Default: that of postgres.Config.
	AcquireWait time.Duration
	// KeyFirst lets nobody use the cell before its master key was checked.
	KeyFirst  bool
	Directory *directory.Directory
	Ring      *sealed.Keyring
	// Network decides which databases the process may use.
	Network network
	Posts   *safehttp.Client
	// HostRate is how many posts a second an organization makes to one host.
	HostRate int
	Provider provider.Port
	// Bucket is where files are stored, nil stores none; MediaURL is the start of their public URLs.
	Bucket   *bucket.Bucket
	MediaURL string
	// PublicURL is where people reach the pages behind setup links.
	PublicURL string
	// EchoWait is how long a send with an unknown result waits for its callback.
	EchoWait time.Duration
	Logger   *slog.Logger
	Tracers  []pgx.QueryTracer
}

const (
	upkeepConns = 2
	workConns   = 12
	// workWait is how long background work waits for a connection. It is longer than for a
	// request, because no caller waits for the answer.
	workWait = 10 * time.Second
)

// OpenCell builds a cell without waiting for its database.
func OpenCell(ctx context.Context, config CellConfig) (*Cell, error) {
	c := &Cell{url: config.URL, clock: clock.NewSynced(), keyed: make(chan struct{})}
	var opened <-chan struct{}
	if config.KeyFirst {
		opened = c.keyed
	}
	db, err := postgres.Open(ctx, postgres.Config{
		URL: config.URL, Name: "parley " + config.Name, MaxConns: config.Conns, Shared: true, Opened: opened,
		AcquireWait: config.AcquireWait, Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: config.Tracers,
	})
	if err != nil {
		return nil, err
	}
	c.upkeepDB, err = postgres.Open(ctx, postgres.Config{
		URL: config.URL, Name: "parley upkeep of " + config.Name, MaxConns: upkeepConns,
		AcquireWait: config.AcquireWait, Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: config.Tracers,
	})
	if err != nil {
		return nil, err
	}
	c.workDB, err = postgres.Open(ctx, postgres.Config{
		URL: config.URL, Name: "parley work of " + config.Name, MaxConns: workConns, AcquireWait: workWait, Steady: true, Opened: opened,
		Enter: schema.EnterOrganization, EnterAll: schema.EnterAll(), Tracers: config.Tracers,
	})
	if err != nil {
		return nil, err
	}
	c.database = database{db: c.upkeepDB, setting: settingOf(config.Name), migrations: config.Migrations}
	if config.Migrations == nil {
		c.database.migrations = []postgres.Migrations{schema.Migrations()}
	}
	c.expiry = postgres.NewExpiry(c.upkeepDB, schema.Partitioned())
	c.Cell, err = cell.New(cell.Deps{
		Name: config.Name, DB: db, LogDB: c.upkeepDB, WorkDB: c.workDB, Clock: c.clock, Directory: config.Directory,
		Ring: config.Ring, Posts: config.Posts, HostRate: config.HostRate, Provider: config.Provider, Logger: config.Logger,
		EchoWait: config.EchoWait, Bucket: config.Bucket, MediaURL: config.MediaURL, PublicURL: config.PublicURL,
	})
	if err != nil {
		return nil, err
	}
	c.key, err = newKeyCheck(c.upkeepDB, c.database.setting, config.Ring, config.Network)
	return c, err
}

// Close closes every connection.
func (c *Cell) Close() {
	c.DB.Close()
	c.upkeepDB.Close()
	c.workDB.Close()
}

// Migrate brings the cell's database to the current schema and makes its partitions.
// It returns how many of our migrations it applied, and how many of River's.
func (c *Cell) Migrate(ctx context.Context) (applied, ofQueue int, err error) {
	if applied, err = postgres.Migrate(ctx, c.url, schema.Migrations()); err != nil {
		return applied, 0, err
	}
	if ofQueue, err = jobs.Migrate(ctx, c.upkeepDB); err != nil {
		return applied, ofQueue, err
	}
	if err := c.SyncClock(ctx); err != nil {
		return applied, ofQueue, err
	}
	return applied, ofQueue, c.upkeepDB.EnsurePartitions(ctx, schema.Partitioned(), c.clock.Now())
}

// Plans are the names of the plans of the cell, smallest first.
func (c *Cell) Plans(ctx context.Context) ([]string, error) {
	return postgres.Many[string](ctx, c.upkeepDB.System("names of plans"), `SELECT name FROM plans ORDER BY rate_per_second, name`, nil)
}

const (
	clockEvery = 10 * time.Second
	clockFirst = 500 * time.Millisecond
	// maxJump is the largest change of the offset between two measurements that is normal.
	maxJump = 2 * time.Second
)

// SyncClock measures the offset to the database's clock. After a change of more than maxJump the
// cell is not ready until the next measurement agrees.
func (c *Cell) SyncClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clockEvery/2)
	defer cancel()
	jump, err := c.upkeepDB.SyncClock(ctx, c.clock)
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

// unready returns the reason why the cell should get no requests, or "" when it is ready.
func (c *Cell) unready(ctx context.Context) string {
	if found := c.database.problem(ctx); found != nil {
		return found.Error()
	}
	ahead, err := c.upkeepDB.PartitionsAhead(ctx, schema.Partitioned(), c.clock.Now())
	switch {
	case err != nil:
		return "the database does not answer"
	case ahead < postgres.PartitionsNeeded:
		return "partitions are running out: run `parley migrate`, and keep a `parley work` running"
	case !c.synced.Load():
		return "the clock was not yet compared with the database's"
	case c.refusal.Load() != nil:
		return *c.refusal.Load()
	case !c.hasKey():
		return "the master key was not yet checked"
	case c.jumped.Load():
		return "the clock jumped against the database's: check time synchronization"
	default:
		return ""
	}
}
