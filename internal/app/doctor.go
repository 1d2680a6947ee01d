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
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
)

// Finding is the result of one check. Fix says what to do; it is empty when nothing is wrong.
type Finding struct {
	Name  string
	Found string
	Fix   string
	// Warning marks something that should be changed, although the program runs without it.
	Warning bool
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
		findings = append(findings, doctorCell(ctx, config, name)...)
	}
	complete, cells := config.Check() == nil, doctorCells(ctx, config)
	if cells != nil {
		defer cells.Close()
		if complete {
			findings = append(findings, doctorKeys(ctx, cells)...)
		}
		findings = append(findings, doctorMoves(ctx, cells)...)
	}
	findings = append(findings, doctorRedis(ctx, config), doctorBucket(ctx, config), doctorMediaHost(ctx, config), doctorProvider(ctx, config))
	if !complete || !config.hasProviderApp() {
		return findings // the checks of the settings and of the provider reported it
	}
	findings = append(findings, doctorCallback(ctx, config))
	if cells != nil {
		findings = append(findings, doctorNumbers(ctx, cells)...)
	}
	return findings
}

// doctorCells opens all cells. It returns nil if that is not possible, which the checks of the settings and databases reported.
// With mistakes in the settings the cells have no master key.
func doctorCells(ctx context.Context, config Config) *Cells {
	if config.Check() != nil {
		config.MasterKey = nil
	}
	cells, err := OpenCells(ctx, config, CellsConfig{All: true, Conns: 2, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil
	}
	_ = cells.SyncClocks(ctx) // a database that is down was reported already
	return cells
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// doctorKeys opens what the cells have stored under the master keys. It says nothing about settings and
// databases that the other checks report.
func doctorKeys(ctx context.Context, cells *Cells) []Finding {
	finding := Finding{Name: "master key", Found: "opens what is stored"}
	switch err := cells.CheckKeys(ctx, false); {
	case errors.Is(err, errOtherNetwork):
		found, fix, _ := strings.Cut(err.Error(), ". ")
		return []Finding{{Name: "network", Found: found, Fix: fix}}
	case errors.Is(err, sealed.ErrOtherKey):
		finding.Found = "does not open what is stored"
		finding.Fix = "add the key that sealed it to PARLEY_MASTER_KEY, after the newest; then run `parley admin reseal`"
	case err != nil:
		return nil
	}
	return append([]Finding{finding}, doctorAnswers(ctx, cells)...)
}

// doctorAnswers warns of stored answers under a master key that was dropped within 24 hours.
func doctorAnswers(ctx context.Context, cells *Cells) []Finding {
	var findings []Finding
	_ = cells.Each(func(one *Cell) error { // the check of the cell reports errors of its database
		count, err := one.Idempotency.CountClosed(ctx, one.upkeepDB.System("doctor"))
		if err == nil && count > 0 {
			findings = append(findings, Finding{
				Name:  "idempotent answers of " + one.Name,
				Found: fmt.Sprintf("%d are sealed under a master key that is not in PARLEY_MASTER_KEY", count),
				Fix: "add the dropped key after the newest, until 24 hours after the processes began to seal under the newest: " +
					"repeated requests with these keys cannot be answered before", Warning: true,
			})
		}
		return err
	})
	return findings
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
	files, err := config.openBucket(ctx)
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
