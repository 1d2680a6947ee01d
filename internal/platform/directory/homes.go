package directory

import (
	"context"
	"errors"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Branch is the directory for the services of one cell. They do not learn the names of other
// cells.
type Branch struct {
	*Directory

	cell string
}

// Branch returns the directory for the services of a cell.
func (d *Directory) Branch(cell string) *Branch { return &Branch{Directory: d, cell: cell} }

const sqlPlace = `
INSERT INTO directory.org_routes (org_id, cell, epoch, state, changed_at)
VALUES (@org, @cell, @epoch, 'claimed', @now)`

// FirstEpoch is the epoch of an organization that never moved.
const FirstEpoch = 1

// Place makes this cell the home of a new organization: claim, commit, confirm.
func (b *Branch) Place(ctx context.Context, org ids.Org, commit func(context.Context) error) error {
	_, err := postgres.InSystemTx(ctx, b.db, "directory", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlPlace, postgres.Args{"org": org, "cell": b.cell, "epoch": FirstEpoch, "now": b.clock.Now()})
	})
	if err != nil {
		return err
	}
	return b.finish(ctx, [...]string{"claimed", "committed", "confirmed"}, steps{
		commit:  commit,
		confirm: func() error { return b.resolveHome(ctx, org, true) },
		undo:    func() error { return b.resolveHome(ctx, org, false) },
	})
}

const (
	sqlConfirmHome = `
UPDATE directory.org_routes
SET state = 'confirmed',
    changed_at = @now
WHERE org_id = @org
  AND state = 'claimed'`
	sqlDeleteHome = `
DELETE FROM directory.org_routes
WHERE org_id = @org
  AND state = 'claimed'`
)

// resolveHome confirms a claimed home that the cell holds and deletes any other.
func (d *Directory) resolveHome(ctx context.Context, org ids.Org, held bool) error {
	_, err := postgres.InSystemTx(ctx, d.db, "directory", func(tx *postgres.Tx) (int64, error) {
		if held {
			return tx.Exec(ctx, sqlConfirmHome, postgres.Args{"org": org, "now": d.clock.Now()})
		}
		return tx.Exec(ctx, sqlDeleteHome, postgres.Args{"org": org})
	})
	return err
}

const sqlMoveHome = `
UPDATE directory.org_routes
SET cell = @to,
    epoch = @epoch + 1,
    changed_at = @now
WHERE org_id = @org
  AND cell = @from
  AND epoch = @epoch`

// MoveHome changes the home of an organization from one cell to another and increments the
// epoch. It returns ErrChanged when from is not the current home.
func (d *Directory) MoveHome(ctx context.Context, org ids.Org, from Home, to string) (Home, error) {
	moved, err := postgres.InSystemTx(ctx, d.db, "directory", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlMoveHome, postgres.Args{
			"org": org, "from": from.Cell, "epoch": from.Epoch, "to": to, "now": d.clock.Now(),
		})
	})
	if err == nil && moved == 0 {
		err = ErrChanged
	}
	if err != nil {
		return from, err
	}
	home := Home{Cell: to, Epoch: from.Epoch + 1}
	d.homes.Add(org, home)
	return home, nil
}

// Alone runs a move of an organization under a lock, so that no other process moves it.
func (d *Directory) Alone(ctx context.Context, org ids.Org, move func(context.Context) error) error {
	return d.db.Alone(ctx, "move of organization "+org.String(), move)
}

const sqlEnsureCell = `
INSERT INTO directory.cells (name)
VALUES (@name)
ON CONFLICT DO NOTHING`

// EnsureCells inserts the cells that the directory does not have yet.
func (d *Directory) EnsureCells(ctx context.Context, names []string) error {
	_, err := postgres.InSystemTx(ctx, d.db, "directory", func(tx *postgres.Tx) (int64, error) {
		for _, name := range names {
			if _, err := tx.Exec(ctx, sqlEnsureCell, postgres.Args{"name": name}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	return err
}

// CellCount is a cell and the number of organizations that live there.
type CellCount struct {
	Name                 string
	AcceptsOrganizations bool
	Organizations        int64
}

const sqlCells = `
SELECT c.name, c.accepts_organizations, count(o.org_id) AS organizations
FROM directory.cells c
LEFT JOIN directory.org_routes o ON o.cell = c.name
GROUP BY c.name
ORDER BY count(o.org_id), c.name`

// Cells lists the cells, the emptiest first.
func (d *Directory) Cells(ctx context.Context) ([]CellCount, error) {
	return postgres.Many[CellCount](ctx, d.scope(), sqlCells, nil)
}

// ErrNoCell means that no cell accepts a new organization.
var ErrNoCell = errors.New("no cell accepts new organizations")

// Choose returns the cell for a new organization: of the cells that accept organizations the
// one with the fewest, then the first by name.
func (d *Directory) Choose(ctx context.Context) (string, error) {
	cells, err := d.Cells(ctx)
	if err != nil {
		return "", err
	}
	for _, cell := range cells {
		if cell.AcceptsOrganizations {
			return cell.Name, nil
		}
	}
	return "", ErrNoCell
}
