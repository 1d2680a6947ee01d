package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// frozenOrg is an organization whose copy in a cell is frozen: it is being moved, it has moved to another cell, or the
// process that moved it has died.
type frozenOrg struct {
	OrgID    orgs.ID
	FrozenAt time.Time
}

const sqlFrozen = `
SELECT org_id, frozen_at
FROM organizations
WHERE frozen_at IS NOT NULL
ORDER BY org_id`

// frozen returns the organizations that are frozen in the cell where they live, and an error for those of which the
// directory does not say where.
func (c *Cells) frozen(ctx context.Context, in *Cell) ([]frozenOrg, error) {
	copies, err := postgres.Many[frozenOrg](ctx, in.upkeepDB.System("frozen organizations"), sqlFrozen, nil)
	if err != nil {
		return nil, err
	}
	var here []frozenOrg
	for _, one := range copies {
		home, unknown := c.Directory.HomeOf(ctx, one.OrgID)
		if unknown != nil {
			err = errors.Join(err, fmt.Errorf("organization %s: %w", one.OrgID, unknown))
		} else if home.Cell == in.Name {
			here = append(here, one)
		}
	}
	return here, err
}

// keepOpen opens the organizations of a cell whose move has died, each minute until ctx ends.
func (c *Cells) keepOpen(ctx context.Context, in *Cell, logger *slog.Logger) {
	every(ctx, resolveEvery, func() {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		if err := c.reopenFrozen(ctx, in, logger); err != nil && ctx.Err() == nil {
			logger.ErrorContext(ctx, "organizations.not_reopened", "cell", in.Name, "error", err)
		}
	})
}

// reopenFrozen opens the organizations of a cell whose move has died.
func (c *Cells) reopenFrozen(ctx context.Context, in *Cell, logger *slog.Logger) error {
	here, err := c.frozen(ctx, in)
	for _, one := range here {
		failed := c.Directory.Alone(ctx, one.OrgID, func(ctx context.Context) error {
			home, err := c.Directory.HomeOf(ctx, one.OrgID)
			if err != nil || home.Cell != in.Name {
				return err
			}
			if _, err = c.reopen(ctx, one.OrgID, audit.Service(), in, home); err == nil {
				logger.WarnContext(ctx, "organization.reopened", "cell", in.Name, "organization", one.OrgID)
			}
			return err
		})
		if errors.Is(failed, postgres.ErrBusy) {
			continue // a process is moving it
		}
		err = errors.Join(err, failed)
	}
	return err
}

// reopen opens an organization that is frozen where it lives, under a new epoch: if the process that froze it was only
// suspended, the directory refuses its change. The caller holds the lock of moves. It returns the home with the new
// epoch; an organization that is open keeps its epoch.
func (c *Cells) reopen(ctx context.Context, org orgs.ID, by audit.Principal, in *Cell, home directory.Home) (directory.Home, error) {
	open, err := postgres.One[bool](ctx, in.upkeepDB.System("move"), `SELECT frozen_at IS NULL FROM organizations WHERE org_id = @org`,
		postgres.Args{"org": org})
	if err != nil || open {
		return home, err
	}
	if home, err = c.Directory.MoveHome(ctx, org, home, in.Name); err != nil {
		return home, err
	}
	return home, in.open(ctx, org, home.Epoch, by, "org.reopened", map[string]any{"cell": in.Name})
}

// frozenLong is longer than a move keeps an organization frozen.
const frozenLong = 5 * time.Minute

// doctorMoves names the organizations that have been frozen for long.
func doctorMoves(ctx context.Context, cells *Cells) []Finding {
	var long []string
	err := cells.Each(func(one *Cell) error {
		here, err := cells.frozen(ctx, one)
		for _, org := range here {
			if one.clock.Now().Sub(org.FrozenAt) > frozenLong {
				long = append(long, fmt.Sprintf("%s in %s, closed since %s", org.OrgID, one.Name, clock.Stamp(org.FrozenAt)))
			}
		}
		return err
	})
	finding := Finding{Name: "moves", Found: "no organization is closed by a move that ended early"}
	if errors.Is(err, directory.ErrUnknown) {
		return []Finding{{Name: finding.Name, Found: oneLine(err), Fix: "compare the directory with the cell: one of them may be an old backup"}}
	}
	if err != nil {
		return nil // the checks of the databases reported it
	}
	if len(long) > 0 {
		finding.Found = strings.Join(long, "; ")
		finding.Fix = "keep a `parley work` running: it opens them within two minutes; or run `parley admin org move` again"
	}
	return []Finding{finding}
}
