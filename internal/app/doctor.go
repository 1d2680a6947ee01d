package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
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
	findings = append(findings, doctorRedis(ctx, config), doctorProvider(ctx, config))
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
	return append(findings, partitions)
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
