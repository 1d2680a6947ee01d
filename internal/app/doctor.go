package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/schema"
)

// Finding is the result of one check. Fix says what to do; it is empty when nothing is wrong.
type Finding struct {
	Name  string
	Found string
	Fix   string
}

// Doctor checks settings, databases, Redis and the provider, and says how to fix what is wrong.
func Doctor(ctx context.Context, environment map[string]string) []Finding {
	config := ReadConfig(environment)
	findings := []Finding{{Name: "go", Found: runtime.Version()}}
	if err := config.Check(); err != nil {
		for mistake := range strings.SplitSeq(err.Error(), "\n") {
			name, _, _ := strings.Cut(mistake, ": ")
			findings = append(findings, Finding{Name: "settings", Found: mistake, Fix: "set " + name + " as docs/operations.md says"})
		}
	} else {
		findings = append(findings, Finding{Name: "settings", Found: "complete"})
	}
	findings = append(findings, unknownSettings(environment)...)
	findings = append(findings, doctorDirectory(ctx, config)...)
	databases := config.databases()
	for _, name := range slices.Sorted(maps.Keys(databases)) {
		findings = append(findings, doctorCell(ctx, name, databases[name])...)
	}
	findings = append(findings, doctorKeys(ctx, config)...)
	findings = append(findings, doctorMoves(ctx, config)...)
	findings = append(findings, doctorRedis(ctx, config), doctorBucket(ctx, config), doctorMediaHost(ctx, config), doctorProvider(ctx, config))
	return append(findings, doctorNumbers(ctx, config)...)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func doctorDirectory(ctx context.Context, config Config) []Finding {
	databaseURL := config.DirectoryURL.Reveal()
	if checkURL("", databaseURL, "postgres", "postgresql") != nil {
		return nil // the check of the settings reported it
	}
	finding := Finding{Name: "directory", Found: "current"}
	pending, err := postgres.Pending(ctx, databaseURL, schema.Directory())
	old, beforeFold := errors.AsType[*postgres.BeforeFoldError](err)
	switch {
	case err != nil && config.DirectoryURL == config.DatabaseURL:
		return nil // doctorCell reports it for the main cell
	case beforeFold:
		finding.Found, finding.Fix = old.Found(), old.Fix()
	case err != nil:
		finding.Found, finding.Fix = oneLine(err), "start PostgreSQL or correct PARLEY_DIRECTORY_DATABASE_URL"
	case pending > 0:
		finding.Found, finding.Fix = fmt.Sprintf("%d migrations are missing", pending), "run `parley migrate`"
	}
	return []Finding{finding}
}

func doctorCell(ctx context.Context, cell, databaseURL string) []Finding {
	if checkURL("", databaseURL, "postgres", "postgresql") != nil {
		return nil // the check of the settings reported it
	}
	setting := Prefix + "DATABASE_URL"
	name := func(what string) string { return what }
	if cell != mainCell {
		setting = Prefix + "CELL_" + strings.ToUpper(cell) + "_DATABASE_URL"
		name = func(what string) string { return what + " of cell " + cell }
	}
	pending, err := postgres.Pending(ctx, databaseURL, schema.Migrations())
	if old, ok := errors.AsType[*postgres.BeforeFoldError](err); ok {
		return []Finding{{Name: name("schema"), Found: old.Found(), Fix: old.Fix()}}
	}
	if err != nil {
		return []Finding{{Name: name("postgres"), Found: oneLine(err), Fix: "start PostgreSQL or correct " + setting}}
	}
	findings := []Finding{{Name: name("postgres"), Found: "answers"}}
	if pending > 0 {
		return append(findings, Finding{
			Name: name("schema"), Found: fmt.Sprintf("%d migrations are missing", pending), Fix: "run `parley migrate`, which makes partitions too",
		})
	}
	findings = append(findings, Finding{Name: name("schema"), Found: "current"})
	db, err := postgres.Open(ctx, postgres.Config{URL: databaseURL, Name: "parley doctor", MaxConns: 2})
	if err != nil {
		return append(findings, Finding{Name: name("partitions"), Found: oneLine(err), Fix: "correct " + setting})
	}
	defer db.Close()
	ahead, err := db.PartitionsAhead(ctx, schema.Partitioned(), time.Now()) //nolint:forbidigo // the doctor has no synced clock
	partitions := Finding{Name: name("partitions"), Found: fmt.Sprintf("%d periods ahead", ahead)}
	if err != nil {
		partitions.Found = oneLine(err)
	}
	if err != nil || ahead < postgres.PartitionsNeeded {
		partitions.Fix = "run `parley migrate`, and keep a `parley work` running"
	}
	return append(findings, partitions, doctorExpiry(ctx, db, name("expiry")))
}

// doctorExpiry compares the clock with the last round of expiry.
func doctorExpiry(ctx context.Context, db *postgres.DB, name string) Finding {
	finding := Finding{Name: name, Found: "its last round agrees with the clock"}
	synced := clock.NewSynced()
	_, err := db.SyncClock(ctx, synced)
	last, failed := db.LastRound(ctx)
	if err = errors.Join(err, failed); err == nil {
		err = postgres.CheckRound(last, synced.Now(), 0)
	}
	switch {
	case errors.Is(err, postgres.ErrClockAhead):
		finding.Found = oneLine(err)
		finding.Fix = "compare the time of the database's machine with another; if it is right, run `parley admin clock confirm`"
	case err != nil:
		finding.Found, finding.Fix = oneLine(err), "start PostgreSQL"
	}
	return finding
}

// doctorKeys opens what the cells have stored under the master keys. It says nothing about settings and
// databases that the other checks report.
func doctorKeys(ctx context.Context, config Config) []Finding {
	if config.Check() != nil {
		return nil
	}
	cells, err := OpenCells(ctx, config, CellsConfig{All: true, Conns: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil
	}
	defer cells.Close()
	finding := Finding{Name: "master key", Found: "opens what is stored"}
	switch err := cells.CheckKeys(ctx, false); {
	case errors.Is(err, sealed.ErrOtherKey):
		finding.Found = "does not open what is stored"
		finding.Fix = "add the key that sealed it to PARLEY_MASTER_KEY, after the newest; then run `parley admin reseal`"
	case err != nil:
		return nil
	}
	return []Finding{finding}
}

// doctorBucket writes, reads and deletes a small file.
func doctorBucket(ctx context.Context, config Config) Finding {
	finding := Finding{Name: "media bucket", Found: "stores and returns files"}
	switch {
	case config.MediaBucket == "":
		finding.Found = "not set: files of inbound messages are not stored"
		return finding
	case config.checkMedia() != nil:
		finding.Found = "not asked" // the check of the settings reported it
		return finding
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	files, err := bucket.Open(ctx, config.MediaBucket.Reveal())
	if err == nil {
		defer func() { _ = files.Close() }()
		err = files.Check(ctx)
	}
	if err != nil {
		finding.Found, finding.Fix = oneLine(err), "correct PARLEY_MEDIA_BUCKET, its credentials or its permissions: reading, writing, deleting"
	}
	return finding
}

const bucketTimeout = 10 * time.Second

// doctorMediaHost asks the media host, at its public URL, for a file that does not exist.
func doctorMediaHost(ctx context.Context, config Config) Finding {
	finding := Finding{Name: "media host", Found: "answers at " + config.MediaURL}
	if config.MediaBucket == "" || config.checkMedia() != nil {
		return Finding{Name: "media host", Found: "not served"}
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	client := &http.Client{Timeout: bucketTimeout} //nolint:forbidigo // the operator's own address, not a tenant's
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.MediaURL+media.Path+media.NewKey(), http.NoBody)
	if err == nil {
		var response *http.Response
		if response, err = client.Do(request); err == nil {
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != http.StatusNotFound || response.Header.Get("X-Content-Type-Options") != "nosniff" {
				err = fmt.Errorf("%s is not answered by a media host (%s)", config.MediaURL, response.Status)
			}
		}
	}
	if err != nil {
		finding.Found = oneLine(err)
		finding.Fix = "start `parley serve`, or correct PARLEY_MEDIA_BASE_URL: it must lead to PARLEY_MEDIA_LISTEN"
	}
	return finding
}

func doctorRedis(ctx context.Context, config Config) Finding {
	if config.RedisURL == "" {
		return Finding{Name: "redis", Found: "not set: rate limits are counted per process"}
	}
	if config.checkRedisURL() != nil {
		return Finding{Name: "redis", Found: "not asked"} // the check of the settings reported it
	}
	client, err := ratelimit.Connect(config.RedisURL.Reveal(), time.Second)
	if err == nil {
		defer func() { _ = client.Close() }()
		err = client.Ping(ctx).Err()
	}
	if err != nil {
		return Finding{Name: "redis", Found: oneLine(err), Fix: "start Redis or correct PARLEY_REDIS_URL"}
	}
	return Finding{Name: "redis", Found: "answers"}
}
