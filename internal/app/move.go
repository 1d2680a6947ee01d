package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/schema"
)

// Moved is the result of a move.
type Moved struct {
	// From and To are names of cells.
	From, To string
	// What was copied. Late rows were written while the others were copied; they were copied during the pause.
	postgres.OrgCopied
	// Paused is how long the organization's requests were answered 503.
	Paused time.Duration
}

// Move moves an organization to another cell: copy and compare its rows, freeze it, copy what changed meanwhile, change
// its cell in the directory, open it there. Its requests are refused while it is frozen, and no others. A
// failure before the change in the directory leaves the organization in its old cell. If the process dies, background
// work opens the organization where the directory says that it lives; running the move again does so at once, and
// then moves it. Background work purges the old rows after an hour.
func (c *Cells) Move(ctx context.Context, org orgs.ID, by audit.Principal, to string) (moved Moved, err error) {
	err = c.aloneSoon(ctx, org, func(ctx context.Context) error {
		moved, err = c.move(ctx, org, by, to)
		return err
	})
	if errors.Is(err, postgres.ErrBusy) {
		err = errors.New("another move of this organization is under way: run the command again when it has ended")
	}
	return moved, err
}

const (
	// lockWait is how long a move waits for the lock of the organization. The purge after an earlier move holds it for one turn.
	lockWait = purgeTurn + 10*time.Second
	lockPoll = 200 * time.Millisecond
)

// aloneSoon runs work under the lock of the organization's moves. It waits for the lock for lockWait.
func (c *Cells) aloneSoon(ctx context.Context, org orgs.ID, work func(context.Context) error) error {
	for waited := clock.StartWatch(); ; {
		err := c.Directory.Alone(ctx, org, work)
		if !errors.Is(err, postgres.ErrBusy) || waited.Elapsed() > lockWait || !sleep(ctx, lockPoll) {
			return err
		}
	}
}

func (c *Cells) move(ctx context.Context, org orgs.ID, by audit.Principal, to string) (Moved, error) {
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
	if home, err = c.reopen(ctx, org, by, source, home); err != nil || source == target {
		return moved, err
	}
	if err := refuseOnHold(ctx, source, target); err != nil {
		return moved, err
	}
	if err := prepare(ctx, source, target, org, home.Epoch); err != nil {
		return moved, err
	}
	copying, err := postgres.BeginCopy(ctx, source.DB, target.DB, org, schema.Tenant())
	if err != nil {
		return moved, err
	}
	defer copying.Close(ctx)
	began := c.clock.Now()
	if frozen, err := source.freeze(ctx, org); frozen && err != nil {
		return moved, c.stay(ctx, org, by, source, home, err)
	} else if err != nil {
		return moved, err
	}
	if moved.OrgCopied, err = copying.Finish(ctx); err == nil {
		home, err = c.Directory.MoveHome(ctx, org, home, to)
	}
	if err != nil {
		return moved, c.stay(ctx, org, by, source, home, err)
	}
	if err := target.open(ctx, org, home.Epoch, by, "org.moved", map[string]any{"from": moved.From, "to": moved.To}); err != nil {
		return moved, fmt.Errorf("the organization lives in %s and is not open yet, run the move again: %w", to, err)
	}
	moved.Paused = c.clock.Now().Sub(began)
	return moved, nil
}

// refuseOnHold returns an error if one of the cells is on hold: what is unsent in the one would be sent from the other,
// or would be decided about with what was restored.
func refuseOnHold(ctx context.Context, cells ...*Cell) error {
	for _, one := range cells {
		held, err := one.Hold.Read(ctx)
		if err == nil && held != nil {
			err = fmt.Errorf("cell %s is %s: release it first with `parley admin hold release`", one.Name, onHoldFound(held))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stay opens the organization in its old cell, if the directory still names that cell. When the
// answer of the change was lost, the directory may name the new one.
func (c *Cells) stay(ctx context.Context, org orgs.ID, by audit.Principal, source *Cell, home directory.Home, cause error) error {
	ctx = context.WithoutCancel(ctx)
	now, err := c.Directory.HomeOf(ctx, org)
	if err != nil || now != home {
		return errors.Join(fmt.Errorf("where the organization lives is not known, run the move again: %w", cause), err)
	}
	opened := source.open(ctx, org, home.Epoch, by, "org.reopened", map[string]any{"cell": source.Name})
	return errors.Join(fmt.Errorf("the organization stays in %s: %w", source.Name, cause), opened)
}

const sqlCopyOf = `
SELECT epoch, frozen_at IS NULL AS open
FROM organizations
WHERE org_id = @org`

// prepare creates the source's partitions at the target, and deletes rows of the organization that
// a failed move left there. It refuses a target whose rows are in use, or newer than those of the source: the
// directory or the source may have been restored from an old backup.
func prepare(ctx context.Context, source, target *Cell, org orgs.ID, epoch int64) error {
	type copied struct {
		Epoch int64
		Open  bool
	}
	there, err := postgres.Many[copied](ctx, target.upkeepDB.System("move"), sqlCopyOf, postgres.Args{"org": org})
	if err != nil {
		return err
	}
	for _, one := range there {
		if one.Open || one.Epoch > epoch {
			return fmt.Errorf("cell %s has rows of this organization that are in use or newer (epoch %d, here %d): nothing was moved or deleted",
				target.Name, one.Epoch, epoch)
		}
	}
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
WHERE org_id = @org_id
  AND epoch <= @epoch`
)

// freezeWait bounds how long a move waits for transactions that began before it: a request with its commit takes at
// most 25 s.
const freezeWait = 25 * time.Second

// freeze returns when no transaction can write to the organization any more. It deletes the
// organization's lanes; a drainer of one of them stops at its next heartbeat. It takes the lock of the organization's
// transactions. It polls pg_locks for those that cross organizations: taking their lock would make every later one
// queue behind the move. After an error frozen tells whether the organization must be opened again.
func (c *Cell) freeze(ctx context.Context, org orgs.ID) (frozen bool, err error) {
	_, err = postgres.InClosingTx(ctx, c.DB, "freeze", func(tx *postgres.Tx) (int64, error) {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '25s'`, nil); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '30s'`, nil); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(organization_lock(@org))`, postgres.Args{"org": org}); err != nil {
			return 0, err
		}
		return tx.Exec(ctx, sqlFreeze, postgres.Args{"org": org, "now": c.clock.Now()})
	})
	if err != nil {
		return errors.Is(err, postgres.ErrUnanswered), err // then it may be frozen; opening it does no harm
	}
	if err := c.awaitSystemTransactions(ctx); err != nil {
		return true, err
	}
	return true, c.Lanes.Dissolve(ctx, org)
}

// Every transaction that crosses organizations holds this lock, shared (enter_all_organizations).
const sqlSystemTransactions = `
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid = 0
  AND objid = 0
  AND objsubid = 1
  AND granted`

// awaitSystemTransactions returns when the transactions that cross organizations, and are open now, have ended.
func (c *Cell) awaitSystemTransactions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, freezeWait)
	defer cancel()
	open := func() ([]string, error) {
		return postgres.Many[string](ctx, c.DB.System("transactions before a freeze"), sqlSystemTransactions, nil)
	}
	before, err := open()
	for err == nil && len(before) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d transactions did not end: %w", len(before), ctx.Err())
		case <-time.After(freezePoll):
		}
		var now []string
		now, err = open()
		before = slices.DeleteFunc(before, func(one string) bool { return !slices.Contains(now, one) })
	}
	return err
}

const freezePoll = 10 * time.Millisecond

// open lets requests in again, creates the organization's lanes and jobs from its rows, and records the action. It
// refuses when the organization was opened under a later epoch.
func (c *Cell) open(ctx context.Context, org orgs.ID, epoch int64, by audit.Principal, action string, detail map[string]any) error {
	if err := c.Lanes.ReturnRows(ctx, org); err != nil {
		return err
	}
	_, err := postgres.InFirstTx(ctx, c.DB, org, func(tx *postgres.Tx) (int64, error) {
		// No transaction of the organization adds to its lanes while they are made again.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(organization_lock(@org_id))`, nil); err != nil {
			return 0, err
		}
		opened, err := tx.Exec(ctx, sqlOpen, postgres.Args{"epoch": epoch})
		if err == nil && opened == 0 {
			err = fmt.Errorf("cell %s: the organization is missing, or was opened under an epoch after %d", c.Name, epoch)
		}
		if err == nil {
			err = c.RestoreTx(ctx, tx)
		}
		if err == nil {
			err = c.Audit.RecordTx(ctx, tx, by, action, org.String(), detail)
		}
		return opened, err
	})
	return err
}
