package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/edge/callbacks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider/cloud"
	"github.com/parley-chat/parley/schema"
)

// mainCell is the cell of PARLEY_DATABASE_URL.
const mainCell = "main"

var cellSetting = regexp.MustCompile(`^PARLEY_CELL_([A-Z][A-Z0-9_]*)_DATABASE_URL$`)

// databases are the addresses of all cells that the settings name.
func (c Config) databases() map[string]string {
	all := map[string]string{mainCell: c.DatabaseURL.Reveal()}
	for name, value := range c.environment {
		if match := cellSetting.FindStringSubmatch(name); match != nil {
			all[strings.ToLower(match[1])] = value
		}
	}
	return all
}

// served are the names of the cells that this process serves: all, unless PARLEY_CELLS says which.
func (c Config) served() []string {
	if len(c.Cells) > 0 {
		return c.Cells
	}
	return slices.Sorted(maps.Keys(c.databases()))
}

func (c Config) checkCells() error {
	var mistakes []error
	known := c.databases()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if name != mainCell {
			mistakes = append(mistakes, checkURL("CELL_"+strings.ToUpper(name)+"_DATABASE_URL", known[name], "postgres", "postgresql"))
		}
	}
	for _, name := range c.Cells {
		if _, found := known[name]; !found {
			mistakes = append(mistakes, fmt.Errorf("%sCELLS: %q has no %sCELL_%s_DATABASE_URL", Prefix, name, Prefix, strings.ToUpper(name)))
		}
	}
	return errors.Join(mistakes...)
}

// Cells are the open cells of a process and the directory that they share.
type Cells struct {
	Directory *directory.Directory
	// Provider is the client of the messaging network, for all cells and for the callbacks.
	Provider *cloud.Client
	// Bucket is where files of messages are stored; nil if PARLEY_MEDIA_BUCKET is not set.
	Bucket *bucket.Bucket

	all         map[string]*Cell
	directoryDB *postgres.DB
	directory   database
	// directoryShared tells that the directory is in the database of the main cell.
	directoryShared bool
	clock           *clock.Synced
	url             string
	// purging is held for one turn of the purge after moves.
	purging sync.Mutex
}

// CellsConfig is what the cells of a process have in common.
type CellsConfig struct {
	// All opens every cell that the settings name, not only those that are served.
	All bool
	// Conns is the size of each cell's pool for requests.
	Conns int32
	// AcquireWait is the longest wait for a free connection. Default: that of postgres.Config.
	AcquireWait time.Duration
	// KeyFirst lets nobody use a cell before its master key was checked.
	KeyFirst bool
	Logger   *slog.Logger
	Tracers  []pgx.QueryTracer
}

const directoryConns = 4

// OpenCells builds the cells and their directory. It does not wait for a database that does not
// answer. It returns an error for a database that was made before the migrations were folded into
// one per noun; all commands call it, so none of them runs on such a database.
func OpenCells(ctx context.Context, config Config, options CellsConfig) (*Cells, error) {
	ring, err := config.Keyring()
	if err != nil && len(config.MasterKey) > 0 {
		return nil, err
	}
	posts, err := config.posts(options.Logger)
	if err != nil {
		return nil, err
	}
	c := &Cells{all: map[string]*Cell{}, clock: clock.NewSynced(), url: config.DirectoryURL.Reveal()}
	if c.Provider, err = config.provider(c.clock); err != nil {
		return nil, err
	}
	if config.MediaBucket != "" {
		if c.Bucket, err = config.openBucket(ctx); err != nil {
			return nil, fmt.Errorf("%sMEDIA_BUCKET: %w", Prefix, err)
		}
	}
	c.directoryDB, err = postgres.Open(ctx, postgres.Config{
		URL: c.url, Name: "parley directory", MaxConns: directoryConns, AcquireWait: options.AcquireWait, Tracers: options.Tracers,
	})
	if err != nil {
		return nil, err
	}
	c.Directory = directory.New(c.directoryDB, c.clock)
	c.directory, c.directoryShared = config.directoryDatabase(c.directoryDB), config.directoryShared()
	names := config.served()
	if options.All {
		names = slices.Collect(maps.Keys(config.databases()))
	}
	if err := config.refuseBeforeFold(ctx, names); err != nil {
		c.directoryDB.Close()
		return nil, err
	}
	for _, name := range names {
		c.all[name], err = OpenCell(ctx, CellConfig{
			Name: name, URL: config.databases()[name], Migrations: config.migrationsOf(name), Conns: options.Conns,
			AcquireWait: options.AcquireWait, KeyFirst: options.KeyFirst, Directory: c.Directory, Ring: ring,
			Network: config.network(), Posts: posts,
			HostRate: config.WebhookRate, Provider: c.Provider, Bucket: c.Bucket, MediaURL: config.MediaURL,
			PublicURL: config.PublicURL,
			EchoWait:  config.SendEchoWait, Logger: options.Logger, Tracers: options.Tracers,
		})
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", name, err)
		}
	}
	return c, nil
}

// foldTimeout is how long a start waits for the databases to answer which migrations they have.
const foldTimeout = 10 * time.Second

// refuseBeforeFold returns an error when the directory or a cell was made before the migrations
// were folded. It ignores a database that does not answer, because a process starts without it.
func (c Config) refuseBeforeFold(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, foldTimeout)
	defer cancel()
	var group errgroup.Group
	refuse := func(url string, migrations postgres.Migrations) {
		group.Go(func() error {
			if old, ok := errors.AsType[*postgres.BeforeFoldError](postgres.RefuseBeforeFold(ctx, url, migrations)); ok {
				return old
			}
			return nil
		})
	}
	refuse(c.DirectoryURL.Reveal(), schema.Directory())
	for _, name := range names {
		refuse(c.databases()[name], schema.Migrations())
	}
	return group.Wait()
}

// Ingress is the handler of the provider's callbacks for these cells.
func (c *Cells) Ingress(logger *slog.Logger, trusted ...netip.Prefix) *callbacks.Ingress {
	served := map[string]*cell.Cell{}
	for name, open := range c.all {
		served[name] = open.Cell
	}
	return callbacks.New(callbacks.Deps{
		Cells: served, Directory: c.Directory, Provider: c.Provider, TrustedProxies: trusted, Logger: logger,
	})
}

// Close closes every connection.
func (c *Cells) Close() {
	for _, cell := range c.all {
		cell.Close()
	}
	c.directoryDB.Close()
	c.Provider.Close()
	if c.Bucket != nil {
		_ = c.Bucket.Close()
	}
}

// Count is how many cells are open.
func (c *Cells) Count() int { return len(c.all) }

// Each calls do for every cell, in the order of the names.
func (c *Cells) Each(do func(*Cell) error) error {
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		if err := do(c.all[name]); err != nil {
			return fmt.Errorf("cell %s: %w", name, err)
		}
	}
	return nil
}

// Migrate brings the directory and then each cell to the current schema. It reports how many
// migrations it applied to each.
func (c *Cells) Migrate(ctx context.Context, report func(name string, applied int)) error {
	applied, err := postgres.Migrate(ctx, c.url, schema.Directory())
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	report("directory", applied)
	if err := c.Directory.EnsureCells(ctx, slices.Collect(maps.Keys(c.all))); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	return c.Each(func(cell *Cell) error {
		applied, ofQueue, err := cell.Migrate(ctx)
		if err == nil {
			report("cell "+cell.Name, applied)
			report("queue of cell "+cell.Name, ofQueue)
		}
		return err
	})
}

// SyncClocks measures the offset to each database's clock once, for a command. It ignores a cell
// that is down, so that only commands about that cell fail.
func (c *Cells) SyncClocks(ctx context.Context) error {
	if _, err := c.directoryDB.SyncClock(ctx, c.clock); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	return c.Each(func(cell *Cell) error {
		_ = cell.SyncClock(ctx)
		return nil
	})
}

// Of returns the cell of an organization.
func (c *Cells) Of(ctx context.Context, org orgs.ID) (*Cell, error) {
	home, err := c.Directory.HomeOf(ctx, org)
	if errors.Is(err, directory.ErrUnknown) {
		return nil, fault.New(fault.ResourceNotFound, "There is no organization with that id.")
	}
	if err != nil {
		return nil, err
	}
	return c.named(home.Cell)
}

// ForNew returns the cell for a new organization.
func (c *Cells) ForNew(ctx context.Context) (*Cell, error) {
	name, err := c.Directory.Choose(ctx)
	if err != nil {
		return nil, err
	}
	return c.named(name)
}

// CheckName returns an error if a command names a cell that the settings do not have. An empty name is accepted: no cell was
// chosen.
func (c *Cells) CheckName(name string) error {
	if name == "" {
		return nil
	}
	_, err := c.named(name)
	return err
}

func (c *Cells) named(name string) (*Cell, error) {
	cell, open := c.all[name]
	if !open {
		return nil, fmt.Errorf("there is no cell %q in the settings: set PARLEY_CELL_%s_DATABASE_URL", name, strings.ToUpper(name))
	}
	return cell, nil
}

const (
	resolveEvery   = time.Minute
	resolveTimeout = 30 * time.Second
)

// keepDirectory resolves the claims that processes left open when they died, and deletes quarantined
// callbacks that have expired, each minute until ctx ends.
func (c *Cells) keepDirectory(ctx context.Context, logger *slog.Logger) {
	every(ctx, resolveEvery, func() {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		resolved, err := c.ResolveClaims(ctx)
		if err != nil {
			logger.ErrorContext(ctx, "directory.unsettled", "error", err)
		}
		if err := c.Directory.ExpireQuarantine(ctx); err != nil {
			logger.ErrorContext(ctx, "quarantine.not_expired", "error", err)
		}
		if resolved > 0 {
			logger.InfoContext(ctx, "directory.settled", "routes", resolved)
		}
	})
}

// ResolveClaims resolves the claims that are open in the directory: it asks the cell whether it has the
// row that was claimed. Claims of cells that this process does not serve are left to other processes.
func (c *Cells) ResolveClaims(ctx context.Context) (resolved int, err error) {
	return c.Directory.Resolve(ctx, func(ctx context.Context, step directory.Unresolved) (bool, error) {
		home, err := c.Directory.HomeOf(ctx, step.OrgID)
		if err != nil {
			return false, err
		}
		cell, served := c.all[home.Cell]
		if !served {
			return false, directory.ErrNotServed
		}
		return cell.Holds(ctx, step)
	})
}
