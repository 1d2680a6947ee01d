package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/schema"
)

const (
	// keepMoved is how long the rows of an organization stay in the old cell after a move.
	keepMoved = time.Hour
	// purgeTurn is how long the rows of one organization are deleted before it is the next one's turn. A move of the
	// organization waits for that long.
	purgeTurn = 20 * time.Second
	// purgePause is the time between two rounds. It is much longer than lockPoll, so that a move that waits gets the lock.
	purgePause = 2 * time.Second
	// purgeAgain is the time after a round in which something failed: a database that does not answer is soon back.
	purgeAgain = 10 * time.Second
)

// keepPurging deletes the rows of organizations that moved to another cell, until ctx ends. It looks for some every 10
// minutes, and goes on round by round until none is left and none failed.
func (c *Cells) keepPurging(ctx context.Context, from *Cell, logger *slog.Logger) {
	logger = telemetry.Repeating(logger)
	every(ctx, upkeepEvery, func() {
		for more := true; more; {
			var purged int
			var err error
			purged, more, err = c.purgeMoved(ctx, from, purgeTurn)
			if err != nil && ctx.Err() == nil {
				logger.ErrorContext(ctx, "organizations.not_purged", "cell", from.Name, "error", err)
			}
			if purged > 0 {
				logger.InfoContext(ctx, "organizations.purged", "cell", from.Name, "organizations", purged)
			}
			pause := purgePause
			if err != nil {
				pause, more = purgeAgain, true
			}
			more = more && sleep(ctx, pause)
		}
	})
}

const sqlLeft = `
SELECT org_id
FROM organizations
WHERE frozen_at < @before
ORDER BY org_id`

// purgeMoved gives each organization that moved to another cell one turn. It tells how many were purged to their end, and
// whether there is more. On hold nothing is purged.
func (c *Cells) purgeMoved(ctx context.Context, from *Cell, turn time.Duration) (purged int, more bool, err error) {
	left, err := postgres.Many[orgs.ID](ctx, from.upkeepDB.System("organizations that left"), sqlLeft,
		postgres.Args{"before": from.clock.Now().Add(-keepMoved)})
	for _, org := range left {
		if held, err := from.onHold(ctx); err != nil || held {
			return purged, false, err
		}
		done, failed := c.purgeOrg(ctx, from, org, turn)
		_, unfinished := errors.AsType[*postgres.MoreError](failed)
		switch {
		case ctx.Err() != nil:
			return purged, false, ctx.Err()
		case done:
			purged++
		case unfinished, errors.Is(failed, postgres.ErrBusy): // a move, or a look whether it must be opened, has its lock
			more = true
		case failed != nil:
			err = errors.Join(err, fmt.Errorf("organization %s: %w", org, failed))
		}
	}
	return purged, more, err
}

// purgeOrg deletes the rows of an organization that lives in another cell. It ends with a postgres.MoreError when its turn is
// over. A move back to this cell must not meet the purge, and no organization that lives here is touched: keepOpen opens it.
// The cells of a process take turns, because each turn keeps one of the few connections to the directory.
func (c *Cells) purgeOrg(ctx context.Context, from *Cell, org orgs.ID, turn time.Duration) (done bool, err error) {
	c.purging.Lock()
	defer c.purging.Unlock()
	home, err := c.Directory.HomeOf(ctx, org)
	if err != nil || home.Cell == from.Name {
		return false, err
	}
	err = c.Directory.Alone(ctx, org, func(ctx context.Context) error {
		home, err := c.Directory.HomeOf(ctx, org)
		if err != nil || home.Cell == from.Name {
			return err
		}
		err = postgres.PurgeOrg(postgres.WithBudget(ctx, turn), from.upkeepDB, org, schema.Tenant())
		done = err == nil
		return err
	})
	return done, err
}
