package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

const defaultServer = "postgres://postgres@127.0.0.1:5432/postgres"

// clone makes a copy of the template and returns its URL. The copy is dropped at the end of the
// test, unless the test failed.
func clone(t testing.TB) string {
	t.Helper()
	from, err := template()
	require.NoError(t, err)
	name := "parley_test_" + rand.Text()
	// Copying the files takes a third of the time that copying through the log of the server does.
	require.NoError(t, onServer(fmt.Sprintf(`CREATE DATABASE %q TEMPLATE %q STRATEGY file_copy`, name, from)))
	databaseURL := address(name)
	t.Logf("database: %s", databaseURL)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, onServer(fmt.Sprintf(`DROP DATABASE %q WITH (FORCE)`, name)))
		}
	})
	return databaseURL
}

// template returns the name of the database that tests clone. The first process that needs it makes
// it: the current schema, with partitions around Start and today.
var template = sync.OnceValues(func() (string, error) {
	ctx := context.Background()
	version, err := schemaVersion()
	if err != nil {
		return "", err
	}
	name := "parley_template_" + version
	conn, err := pgx.Connect(ctx, address(""))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }() // and with it the lock
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, name); err != nil {
		return "", err
	}
	var ready bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)`, name).Scan(&ready)
	if err != nil || ready {
		return name, err
	}
	for _, statement := range []string{`DROP DATABASE IF EXISTS %q`, `CREATE DATABASE %q`} {
		if _, err := conn.Exec(ctx, fmt.Sprintf(statement, name)); err != nil {
			return "", err
		}
	}
	if err := migrate(ctx, address(name)); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`ALTER DATABASE %q IS_TEMPLATE true`, name))
	return name, err
})

// schemaVersion is a hash of everything that migrate does.
func schemaVersion() (string, error) {
	digest := sha256.New()
	fmt.Fprintln(digest, today(), schema.Partitioned())
	for _, migrations := range []postgres.Migrations{schema.Migrations(), schema.Directory()} {
		err := fs.WalkDir(migrations.Files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(migrations.Files, path)
			fmt.Fprintln(digest, path, len(content))
			digest.Write(content)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(digest.Sum(nil))[:16], nil
}

func migrate(ctx context.Context, databaseURL string) error {
	for _, migrations := range []postgres.Migrations{schema.Migrations(), schema.Directory()} {
		if _, err := postgres.Migrate(ctx, databaseURL, migrations); err != nil {
			return err
		}
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: databaseURL, Name: "pgtest template"})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := jobs.Migrate(ctx, db); err != nil {
		return err
	}
	for _, around := range []time.Time{Start(), today()} {
		if err := db.EnsurePartitions(ctx, schema.Partitioned(), around); err != nil {
			return err
		}
	}
	return nil
}

func today() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

// address is the URL of a database on the server of the tests; without a name, of the database
// that PARLEY_TEST_DATABASE_URL names.
func address(name string) string {
	server, err := url.Parse(cmp.Or(os.Getenv("PARLEY_TEST_DATABASE_URL"), defaultServer))
	if err != nil {
		panic(err)
	}
	if name != "" {
		server.Path = "/" + name
	}
	server.RawQuery = "sslmode=disable"
	return server.String()
}

// onServer runs a statement on a connection of its own.
func onServer(statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, address(""))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
