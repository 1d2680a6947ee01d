package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// unwanted lists indexes of River that no statement here uses. They are dropped, because every
// job would be added to them.
func unwanted() []string { return []string{"river_job_args_index", "river_job_metadata_index"} }

// Migrate applies River's migrations up to the version that this program was built with.
func Migrate(ctx context.Context, db *postgres.DB) (applied int, err error) {
	err = db.Alone(ctx, "migrate river", func(ctx context.Context) error {
		if _, err := db.Pool().Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+schema); err != nil {
			return err
		}
		migrator, err := rivermigrate.New(riverpgxv5.New(db.Pool()), &rivermigrate.Config{Schema: schema})
		if err != nil {
			return err
		}
		done, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		if err != nil {
			return err
		}
		applied = len(done.Versions)
		return tune(ctx, db)
	})
	return applied, err
}

func tune(ctx context.Context, db *postgres.DB) error {
	for _, index := range unwanted() {
		if _, err := db.Pool().Exec(ctx, `DROP INDEX IF EXISTS `+pgx.Identifier{schema, index}.Sanitize()); err != nil {
			return err
		}
	}
	_, err := db.Pool().Exec(ctx, `
ALTER TABLE river.river_job SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
)`)
	return err
}

// sqlWorker finds River's leader. Every process that works jobs tries to become the leader and renews that every
// 5 seconds, so that there is one as long as any process works.
const sqlWorker = `SELECT EXISTS (SELECT FROM river.river_leader WHERE expires_at > @now)`

// Worked tells whether a process works the jobs of this database. After a process was killed it is true for up to 15
// seconds more.
func Worked(ctx context.Context, db *postgres.DB, now time.Time) (bool, error) {
	return postgres.One[bool](ctx, db.System("whether a process works jobs"), sqlWorker, postgres.Args{"now": now})
}

// indexes lists the indexes that River may rebuild.
func indexes() []string {
	return slices.DeleteFunc(river.ReindexerIndexNamesDefault(), func(name string) bool { return slices.Contains(unwanted(), name) })
}
