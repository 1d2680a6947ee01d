package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

// Moved is the result of a move.
type Moved struct {
	// From and To are names of cells.
	From, To string
	// Tables has the number of rows and a checksum for each table that was copied.
	Tables map[string]postgres.Sum
	// Paused is how long the organization's requests were answered 503.
	Paused time.Duration
}

// Move moves an organization to another cell: freeze it, copy and compare its rows, change its cell
// in the directory, open it there. Only requests of that organization are refused meanwhile. A
// failure before the change in the directory leaves the organization in its old cell. After a later
// failure, running the move again finishes it. Background work purges the old rows after an hour.
func (c *Cells) Move(ctx context.Context, org orgs.ID, to string) (moved Moved, err error) {
	err = c.Directory.Alone(ctx, org, func(ctx context.Context) error {
		moved, err = c.move(ctx, org, to)
		return err
	})
	if errors.Is(err, postgres.ErrBusy) {
		err = errors.New("another move of this organization is under way")
	}
	return moved, err
}

func (c *Cells) move(ctx context.Context, org orgs.ID, to string) (Moved, error) {
	home, err := c.Directory.HomeOf(ctx, org)
	if errors.Is(err, directory.ErrUnknown) {
		return Moved{}, fault.New(fault.ResourceNotFound, "There is no organization with that id.")
	}
	if err != nil {
		return Moved{}, err
	}
	moved := Moved{From: home.Cell, To: to}
	source, err := c.named(home.Cell)
	if err != nil {
		return moved, err
	}
	target, err := c.named(to)
	if err != nil {
		return moved, err
	}
	if source == target {
		return moved, target.open(ctx, org, home.Epoch)
	}
	if err := prepare(ctx, source, target, org); err != nil {
		return moved, err
	}
	began := c.clock.Now()
	if err := source.freeze(ctx, org); err != nil {
		return moved, err
	}
	moved.Tables, err = postgres.CopyOrg(ctx, source.DB, target.DB, org, schema.Tenant())
	if err == nil {
		home, err = c.Directory.MoveHome(ctx, org, home, to)
	}
	if err != nil {
		return moved, c.stay(ctx, org, source, home, err)
	}
	if err := target.open(ctx, org, home.Epoch); err != nil {
		return moved, fmt.Errorf("the organization lives in %s and is not open yet, run the move again: %w", to, err)
	}
	moved.Paused = c.clock.Now().Sub(began)
	return moved, target.recordMove(ctx, org, moved)
}

// stay opens the organization in its old cell, if the directory still names that cell. When the
// answer of the change was lost, the directory may name the new one.
func (c *Cells) stay(ctx context.Context, org orgs.ID, source *Cell, home directory.Home, cause error) error {
	ctx = context.WithoutCancel(ctx)
	now, err := c.Directory.HomeOf(ctx, org)
	if err != nil || now != home {
		return errors.Join(fmt.Errorf("where the organization lives is not known, run the move again: %w", cause), err)
	}
	return errors.Join(fmt.Errorf("the organization stays in %s: %w", source.Name, cause), source.open(ctx, org, home.Epoch))
}

func (c *Cell) recordMove(ctx context.Context, org orgs.ID, moved Moved) error {
	_, err := postgres.InTx(ctx, c.DB, org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, c.Audit.RecordTx(ctx, tx, audit.Operator(), "org.moved", org.String(),
			map[string]any{"from": moved.From, "to": moved.To})
	})
	return err
}

// prepare creates the source's partitions at the target, and deletes rows of the organization that
// a failed move left there.
func prepare(ctx context.Context, source, target *Cell, org orgs.ID) error {
	if err := target.upkeepDB.CopyPartitions(ctx, source.upkeepDB, schema.Partitioned()); err != nil {
		return err
	}
	return postgres.PurgeOrg(ctx, target.DB, org, schema.Tenant())
}

const (
	sqlFreeze = `
UPDATE organizations
SET frozen_at = @now
WHERE org_id = @org`
	sqlOpen = `
UPDATE organizations
SET frozen_at = NULL,
    epoch = @epoch
WHERE org_id = @org_id`
)

// freeze returns when no transaction can write to the organization any more. It deletes the
// organization's lanes; a drainer of one of them stops at its next heartbeat.
func (c *Cell) freeze(ctx context.Context, org orgs.ID) error {
	_, err := postgres.InClosingTx(ctx, c.DB, "freeze", func(tx *postgres.Tx) (int64, error) {
		// Transactions that began before are waited for: a request with its commit takes at most 25 s.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '25s'`, nil); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '30s'`, nil); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `SELECT close_organization(@org)`, postgres.Args{"org": org}); err != nil {
			return 0, err
		}
		frozen, err := tx.Exec(ctx, sqlFreeze, postgres.Args{"org": org, "now": c.clock.Now()})
		if err != nil {
			return 0, err
		}
		return frozen, c.Lanes.DissolveTx(ctx, tx, org)
	})
	return err
}

// open lets requests in again, and creates the organization's lanes and jobs from its rows.
func (c *Cell) open(ctx context.Context, org orgs.ID, epoch int64) error {
	_, err := postgres.InFirstTx(ctx, c.DB, org, func(tx *postgres.Tx) (int64, error) {
		opened, err := tx.Exec(ctx, sqlOpen, postgres.Args{"epoch": epoch})
		if err != nil {
			return 0, err
		}
		return opened, c.RestoreTx(ctx, tx)
	})
	return err
}

// keepMoved is how long the rows of an organization stay in the old cell after a move.
const keepMoved = time.Hour

const sqlLeft = `
SELECT org_id
FROM organizations
WHERE frozen_at < @before
ORDER BY org_id
LIMIT 10`

// purgeMoved deletes the rows of organizations that moved to another cell.
func (c *Cells) purgeMoved(ctx context.Context, from *Cell) (purged int, err error) {
	left, err := postgres.Many[orgs.ID](ctx, from.upkeepDB.System("organizations that left"), sqlLeft,
		postgres.Args{"before": from.clock.Now().Add(-keepMoved)})
	if err != nil {
		return 0, err
	}
	for _, org := range left {
		home, err := c.Directory.HomeOf(ctx, org)
		if err != nil {
			return purged, err
		}
		if home.Cell == from.Name {
			continue // frozen by a move that failed: the operator runs it again
		}
		if err := postgres.PurgeOrg(ctx, from.upkeepDB, org, schema.Tenant()); err != nil {
			return purged, err
		}
		purged++
	}
	return purged, nil
}
