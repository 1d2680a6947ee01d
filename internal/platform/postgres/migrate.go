package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

const (
	migrationLockWait = time.Second
	migrationTries    = 60
)

// Migrations are numbered files and the schema whose tables they create.
type Migrations struct {
	Files  fs.FS
	Schema string
}

// versions are the numbers of the files.
func (m Migrations) versions() []int64 {
	entries, _ := fs.ReadDir(m.Files, ".") // embedded
	versions := make([]int64, len(entries))
	for i, entry := range entries {
		versions[i], _ = strconv.ParseInt(entry.Name()[:4], 10, 64)
	}
	return versions
}

// table records which migrations a database has. Its name is not goose's own: a database that
// has goose's own was made before the migrations were folded.
func (m Migrations) table() string { return m.Schema + ".schema_migrations" }

func (m Migrations) tableBeforeFold() string { return m.Schema + ".goose_db_version" }

// BeforeFoldError refuses a database whose tables were made by the migrations before the fold.
type BeforeFoldError struct {
	// Database is the name of the database.
	Database string
}

// Found says what is wrong.
func (e *BeforeFoldError) Found() string {
	return fmt.Sprintf("the database %q was made before the migrations were folded into one per noun, "+
		"and cannot be brought forward", e.Database)
}

// Fix says what to do about it.
func (e *BeforeFoldError) Fix() string {
	return fmt.Sprintf("nothing was released then, so make a new one: `dropdb %[1]s && createdb %[1]s && parley migrate`", e.Database)
}

func (e *BeforeFoldError) Error() string { return e.Found() + "; " + e.Fix() }

// RefuseBeforeFold returns a *BeforeFoldError for a database that was made before the fold.
// An empty database is not refused.
func RefuseBeforeFold(ctx context.Context, databaseURL string, migrations Migrations) (err error) {
	db, err := openMigrations(databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return refuseBeforeFold(ctx, db, migrations)
}

func refuseBeforeFold(ctx context.Context, db *sql.DB, migrations Migrations) error {
	var name string
	var old bool
	err := db.QueryRowContext(ctx, `SELECT current_database(), to_regclass($1) IS NOT NULL`, migrations.tableBeforeFold()).Scan(&name, &old)
	if err == nil && old {
		return &BeforeFoldError{Database: name}
	}
	return err
}

// Migrate applies the migrations that the database lacks. It is safe to run twice, from several
// machines, and while the old version serves: a migration that does not get a lock within a
// second is rolled back and retried, so that other transactions do not queue behind it.
func Migrate(ctx context.Context, databaseURL string, migrations Migrations) (applied int, err error) {
	db, err := openMigrations(databaseURL)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := refuseBeforeFold(ctx, db, migrations); err != nil {
		return 0, err
	}
	if _, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+migrations.Schema); err != nil && state(err) != uniqueViolation {
		return 0, err
	}
	for try := 1; ; try++ {
		count, err := migrateOnce(ctx, db, migrations)
		applied += count
		if state(err) != lockNotAvailable || try == migrationTries {
			return applied, err
		}
		select {
		case <-ctx.Done():
			return applied, ctx.Err()
		case <-time.After(migrationLockWait):
		}
	}
}

func openMigrations(databaseURL string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["lock_timeout"] = fmt.Sprint(migrationLockWait.Milliseconds())
	config.RuntimeParams["application_name"] = "parley migrate"
	return stdlib.OpenDB(*config), nil
}

func provider(db *sql.DB, migrations Migrations, options ...goose.ProviderOption) (*goose.Provider, error) {
	store, err := database.NewStore(database.DialectPostgres, migrations.table())
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", db, migrations.Files, append(options, goose.WithStore(store), goose.WithDisableGlobalRegistry(true))...)
}

func migrateOnce(ctx context.Context, db *sql.DB, migrations Migrations) (int, error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return 0, err
	}
	runner, err := provider(db, migrations, goose.WithSessionLocker(locker))
	if err != nil {
		return 0, err
	}
	results, err := runner.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		return len(partial.Applied), err
	}
	return len(results), err
}

// Pending returns how many of the migrations the database lacks.
func (db *DB) Pending(ctx context.Context, all ...Migrations) (pending int, err error) {
	for _, migrations := range all {
		applied, err := Many[int64](ctx, db.System("applied migrations"), `SELECT version_id FROM `+migrations.table()+` WHERE is_applied`, nil)
		if err != nil && !Unmigrated(err) {
			return 0, err
		}
		for _, version := range migrations.versions() {
			if !slices.Contains(applied, version) {
				pending++
			}
		}
	}
	return pending, nil
}

const duplicateDatabase = "42P04"

// EnsureDatabase creates the database that the URL names when the server does not have it.
func EnsureDatabase(ctx context.Context, databaseURL string) (created bool, err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err == nil {
		return false, conn.Close(ctx)
	}
	if state(err) != invalidCatalogName {
		return false, err
	}
	target, err := url.Parse(databaseURL)
	if err != nil {
		return false, err
	}
	name := strings.TrimPrefix(target.Path, "/")
	target.Path = "/postgres"
	conn, err = pgx.Connect(ctx, target.String())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize())
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == duplicateDatabase {
		return false, nil
	}
	return err == nil, err
}
