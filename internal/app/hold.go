package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// hold writes the hold of a cell, before anything in this process may use the cell. Its time is compared with those of
// messages, so that the clock is compared with the database's first.
func (c *Cell) hold(ctx context.Context, by string, logger *slog.Logger) error {
	if err := c.SyncClock(ctx); err != nil {
		return err
	}
	held, err := c.Hold.Write(ctx, by)
	if err == nil && held != nil {
		logger.WarnContext(ctx, "cell.held", "cell", c.Name, "held_at", clock.Stamp(held.HeldAt), "held_by", held.HeldBy)
	}
	return err
}

const (
	// holdEvery is how often a process that works looks whether its cell is on hold.
	holdEvery = time.Second
	// holdTimeout bounds one look.
	holdTimeout = 5 * time.Second
)

// onHold tells whether the cell is on hold.
func (c *Cell) onHold(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	held, err := c.Hold.Read(ctx)
	return held != nil, err
}

// keepWorking does the background work of the cell until ctx ends. No lane is drained and no job worked before it is
// known whether the cell is on hold. When a hold is written or released, the work stops as at the end of the process, and
// starts again with the lanes and jobs that may be worked now.
func (c *Cell) keepWorking(ctx context.Context, logger *slog.Logger) {
	repeating := telemetry.Repeating(logger)
	for ctx.Err() == nil {
		held, err := c.onHold(ctx)
		if err == nil {
			err = c.workUntilChanged(ctx, held, logger)
		}
		if err != nil && ctx.Err() == nil {
			repeating.ErrorContext(ctx, "work.not_started", "cell", c.Name, "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(holdEvery):
			}
		}
	}
}

// workUntilChanged works until ctx ends, or until a hold is written or released.
func (c *Cell) workUntilChanged(ctx context.Context, held bool, logger *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	repeating := telemetry.Repeating(logger)
	changed := func() {
		every(ctx, holdEvery, func() {
			now, err := c.onHold(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				repeating.WarnContext(ctx, "hold.unknown", "cell", c.Name, "error", err)
			case err == nil && now != held:
				logger.InfoContext(ctx, "hold.changed", "cell", c.Name, "on_hold", now)
				stop()
			}
		})
	}
	return c.work(ctx, held, changed, logger)
}

// releaseHold is what doctor, /readyz and the log say that an operator does about a cell on hold.
const releaseHold = "decide what becomes of unsent messages: `parley admin hold release`, docs/operations.md, \"Restore\""

// onHoldFound is what doctor, /readyz and the log say about a cell on hold.
func onHoldFound(held *hold.State) string {
	return fmt.Sprintf("on hold since %s (%s): nothing is sent or delivered", held.HeldAt.UTC().Format(time.RFC3339), held.HeldBy)
}

// heldWarning returns a warning if the cell is on hold, else "".
func (c *Cell) heldWarning(ctx context.Context) string {
	held, err := c.Hold.Read(ctx)
	if err != nil || held == nil {
		return "" // the checks of the database reported it
	}
	return onHoldFound(held) + "; " + releaseHold
}

// doctorHold warns of a cell on hold.
func doctorHold(ctx context.Context, db *postgres.DB, now clock.Clock, name string) Finding {
	held, err := hold.New(db, now).Read(ctx)
	switch {
	case err != nil:
		return Finding{Name: name, Found: oneLine(err), Fix: "run `parley migrate`"}
	case held != nil:
		return Finding{Name: name, Found: onHoldFound(held), Fix: releaseHold, Warning: true}
	default:
		return Finding{Name: name, Found: "none"}
	}
}

// Released is the result of ReleaseHold in one cell.
type Released struct {
	Cell   string
	HeldAt time.Time
	// Messages is how many unsent messages were decided about.
	Messages int
}

// ReleaseHold decides about the messages that were unsent when a cell was held, and then lets the cell go on. name is
// the cell; empty means all that are on hold. It calls progress after each transaction. If it fails or its process dies,
// the cell stays on hold and the command is run again.
func (c *Cells) ReleaseHold(
	ctx context.Context, name, by string, unsent hold.Unsent, progress func(cell string, messages int),
) (released []Released, err error) {
	err = c.Each(func(one *Cell) error {
		if name != "" && name != one.Name {
			return nil
		}
		return one.Hold.Alone(ctx, func(ctx context.Context) error {
			held, err := one.Hold.Read(ctx)
			if err != nil || held == nil {
				return err
			}
			if err := c.refuseFrozen(ctx, one); err != nil {
				return err
			}
			decided, err := one.Messages.DecideUnsent(ctx, held, unsent, func(decided int) { progress(one.Name, decided) })
			if err == nil {
				err = one.Hold.Release(ctx, held, by, unsent)
			}
			if err == nil {
				released = append(released, Released{Cell: one.Name, HeldAt: held.HeldAt, Messages: decided})
			}
			return err
		})
	})
	if err == nil && len(released) == 0 {
		err = errors.New("no cell is on hold")
	}
	return released, err
}

// refuseFrozen returns an error if an organization of the cell is closed by a move: its rows are not in lanes.
func (c *Cells) refuseFrozen(ctx context.Context, one *Cell) error {
	frozen, err := c.frozen(ctx, one)
	if err != nil || len(frozen) == 0 {
		return err
	}
	names := make([]string, len(frozen))
	for i, org := range frozen {
		names[i] = org.OrgID.String()
	}
	return fmt.Errorf("organizations are closed by a move that ended early: %s. `parley work` opens them within two minutes; "+
		"then run this again", strings.Join(names, ", "))
}
