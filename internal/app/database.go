package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

// database is a database of the settings.
type database struct {
	db *postgres.DB
	// setting is the name of the setting that has its URL.
	setting string
	// migrations are those that it must have: of a cell, of the directory, or of both.
	migrations []postgres.Migrations
}

// problem is why a database cannot be used, and what to do about it.
type problem struct {
	found, fix string
	// cause is the error of the database. It is nil if migrations are missing.
	cause error
	// unknown tells that only the cause says why the database does not answer.
	unknown bool
}

func (p *problem) Error() string { return p.found + ": " + p.fix }

// Unwrap returns the error of the database.
func (p *problem) Unwrap() error { return p.cause }

// problem returns nil if the database answers and has all migrations.
func (d database) problem(ctx context.Context) *problem {
	pending, err := d.db.Pending(ctx, d.migrations...)
	switch {
	case err != nil:
		return problemOf(err, d.setting)
	case pending == 1:
		return &problem{found: "1 migration missing", fix: "run `parley migrate`"}
	case pending > 0:
		return &problem{found: fmt.Sprintf("%d migrations missing", pending), fix: "run `parley migrate`"}
	default:
		return nil
	}
}

// Unusable explains an error of connecting to the database of the main cell.
func Unusable(err error) error {
	return fmt.Errorf("%w (%s)", problemOf(err, settingOf(mainCell)), oneLine(err))
}

// problemOf is why a database gave an error. setting has its URL.
func problemOf(err error, setting string) *problem {
	absent := postgres.Absent(err)
	switch {
	case absent != "":
		return &problem{
			found: fmt.Sprintf("the database %q does not exist", absent), cause: err,
			fix: fmt.Sprintf("run `createdb %s` and `parley migrate`, or correct %s", absent, setting),
		}
	case postgres.RefusedByPooler(err):
		return &problem{
			found: "a pooler in front of the database refuses the settings of our sessions", cause: err,
			fix: "have " + setting + " lead to PostgreSQL itself: docs/operations.md, \"Poolers\"",
		}
	case postgres.Denied(err):
		return &problem{
			found: "the database does not let this user in", cause: err, unknown: true,
			fix: "correct the user or the password in " + setting + ", or pg_hba.conf",
		}
	default:
		return &problem{found: "the database does not answer", fix: "start PostgreSQL or correct " + setting, cause: err, unknown: true}
	}
}

// settingOf is the name of the setting with a cell's database.
func settingOf(cell string) string {
	if cell == mainCell {
		return Prefix + "DATABASE_URL"
	}
	return Prefix + "CELL_" + strings.ToUpper(cell) + "_DATABASE_URL"
}

// directoryShared tells whether the directory is in the database of the main cell.
func (c Config) directoryShared() bool { return c.DirectoryURL == c.DatabaseURL }

// migrationsOf are the migrations of a cell's database. Those of the directory are counted there if it shares the
// database, so that one number tells how many are missing.
func (c Config) migrationsOf(cell string) []postgres.Migrations {
	if cell == mainCell && c.directoryShared() {
		return []postgres.Migrations{schema.Migrations(), schema.Directory()}
	}
	return []postgres.Migrations{schema.Migrations()}
}

// directoryDatabase is the database of the directory. It is that of the main cell if they share one.
func (c Config) directoryDatabase(db *postgres.DB) database {
	if c.directoryShared() {
		return database{db: db, setting: settingOf(mainCell), migrations: c.migrationsOf(mainCell)}
	}
	return database{db: db, setting: Prefix + "DIRECTORY_DATABASE_URL", migrations: []postgres.Migrations{schema.Directory()}}
}

// Explain returns what is wrong with a database if err comes from one that cannot be used. Otherwise it returns err.
func (c *Cells) Explain(ctx context.Context, err error) error {
	connect := (*pgconn.ConnectError)(nil)
	if !postgres.Unmigrated(err) && fault.Of(err) != fault.ServiceUnavailable && !errors.As(err, &connect) {
		return err
	}
	all := []database{c.directory}
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		all = append(all, c.all[name].database)
	}
	for _, one := range all {
		switch found := one.problem(ctx); {
		case found == nil:
		case found.unknown:
			return fmt.Errorf("%w (%s)", found, oneLine(found.cause))
		default:
			return found
		}
	}
	return err
}
