package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

// doctorWait is how long the doctor waits for a connection. It is longer than a request waits, because the doctor must
// tell a slow database from one that is down.
const doctorWait = 5 * time.Second

// doctorOpen checks that a database answers and has all migrations, and returns its pool. With findings there is no pool.
func doctorOpen(ctx context.Context, url string, which database, name func(string) string) (*postgres.DB, []Finding) {
	for _, migrations := range which.migrations {
		if old, ok := errors.AsType[*postgres.BeforeFoldError](postgres.RefuseBeforeFold(ctx, url, migrations)); ok {
			return nil, []Finding{{Name: name("schema"), Found: old.Found(), Fix: old.Fix()}}
		}
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: url, Name: "parley doctor", MaxConns: 2, AcquireWait: doctorWait})
	if err != nil {
		return nil, []Finding{{Name: name("postgres"), Found: oneLine(err), Fix: "correct " + which.setting}}
	}
	which.db = db
	wrong := which.problem(ctx)
	if wrong == nil {
		return db, nil
	}
	db.Close()
	if wrong.cause == nil {
		return nil, []Finding{{Name: name("postgres"), Found: "answers"}, {Name: name("schema"), Found: wrong.found, Fix: wrong.fix}}
	}
	return nil, []Finding{{Name: name("postgres"), Found: wrong.found + " (" + oneLine(wrong.cause) + ")", Fix: wrong.fix}}
}

// doctorDirectory checks a directory with a database of its own. One that shares the main cell's is checked there.
func doctorDirectory(ctx context.Context, config Config) []Finding {
	url := config.DirectoryURL.Reveal()
	if config.directoryShared() || checkURL("", url, "postgres", "postgresql") != nil {
		return nil // the check of the settings reported it
	}
	db, findings := doctorOpen(ctx, url, config.directoryDatabase(nil), func(string) string { return "directory" })
	if findings != nil {
		return findings
	}
	db.Close()
	return []Finding{{Name: "directory", Found: "current"}}
}

func doctorCell(ctx context.Context, config Config, cell string) []Finding {
	url := config.databases()[cell]
	if checkURL("", url, "postgres", "postgresql") != nil {
		return nil // the check of the settings reported it
	}
	name := func(what string) string { return what }
	if cell != mainCell {
		name = func(what string) string { return what + " of cell " + cell }
	}
	db, findings := doctorOpen(ctx, url, database{setting: settingOf(cell), migrations: config.migrationsOf(cell)}, name)
	if findings != nil {
		return findings
	}
	defer db.Close()
	findings = []Finding{{Name: name("postgres"), Found: "answers"}, {Name: name("schema"), Found: "current"}}
	synced := clock.NewSynced()
	if _, err := db.SyncClock(ctx, synced); err != nil {
		return append(findings, Finding{Name: name("clock"), Found: oneLine(err), Fix: "start PostgreSQL"})
	}
	findings = append(findings, doctorPooler(ctx, db, settingOf(cell), name("pooler")))
	findings = append(findings, doctorDurability(ctx, db, name)...)
	return append(findings, doctorPartitions(ctx, db, synced, name("partitions")), doctorExpiry(ctx, db, synced, name("expiry")),
		doctorWorker(ctx, db, synced, name("worker")), doctorHold(ctx, db, synced, name("hold")))
}

func doctorPartitions(ctx context.Context, db *postgres.DB, now clock.Clock, name string) Finding {
	ahead, err := db.PartitionsAhead(ctx, schema.Partitioned(), now.Now())
	finding := Finding{Name: name, Found: fmt.Sprintf("%d periods ahead", ahead)}
	if err != nil {
		finding.Found = oneLine(err)
	}
	if err != nil || ahead < postgres.PartitionsNeeded {
		finding.Fix = "run `parley migrate`, and keep a `parley work` running"
	}
	return finding
}

// doctorExpiry compares the clock with the last round of expiry.
func doctorExpiry(ctx context.Context, db *postgres.DB, now clock.Clock, name string) Finding {
	finding := Finding{Name: name, Found: "its last round agrees with the clock"}
	last, err := db.LastRound(ctx)
	if err == nil {
		err = postgres.CheckRound(last, now.Now(), 0)
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

// doctorWorker checks that a process does the background work of the cell.
func doctorWorker(ctx context.Context, db *postgres.DB, now clock.Clock, name string) Finding {
	worked, err := jobs.Worked(ctx, db, now.Now())
	switch {
	case err != nil:
		return Finding{Name: name, Found: oneLine(err), Fix: "run `parley migrate`"}
	case !worked:
		return Finding{Name: name, Found: noWorker, Fix: startWorker, Warning: true}
	default:
		return Finding{Name: name, Found: "one or more are alive"}
	}
}
