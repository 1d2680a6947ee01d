package directory

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Unsettled is a step that nobody finished.
type Unsettled struct {
	Kind       Kind
	Key        []byte
	OrgID      ids.Org
	Generation int64
	State      string
}

// Holder tells whether an organization holds a route: it asks the organization's cell.
// For an organization itself the kind is empty, and it tells whether the cell has it.
type Holder func(ctx context.Context, step Unsettled) (bool, error)

// ErrNotAsked means that the cell is not this process's to ask.
var ErrNotAsked = errors.New("another process serves the cell")

// In no order: steps that cannot be settled must not stand in the way of others.
const sqlUnsettled = `
SELECT kind, key, org_id, generation, state
FROM directory.routes
WHERE state IN ('claimed', 'releasing')
  AND changed_at < @before
ORDER BY random()
LIMIT 500`

const sqlUnsettledOrgs = `
SELECT org_id
FROM directory.org_routes
WHERE state = 'claimed'
  AND changed_at < @before
ORDER BY random()
LIMIT 500`

// Settle finishes the steps that processes left behind when they died: what the cell
// holds is confirmed, what it does not hold is released. A cell that does not answer
// leaves its steps for the next time.
func (d *Directory) Settle(ctx context.Context, holds Holder) (settled int, err error) {
	before := d.clock.Now().Add(-unsettledAfter)
	orgs, err := postgres.Many[ids.Org](ctx, d.scope(), sqlUnsettledOrgs, postgres.Args{"before": before})
	if err != nil {
		return 0, err
	}
	var failures []error
	for _, org := range orgs {
		held, err := holds(ctx, Unsettled{OrgID: org})
		if err == nil {
			err = d.settleHome(ctx, org, held)
		}
		settled, failures = count(settled, failures, err)
	}
	steps, err := postgres.Many[Unsettled](ctx, d.scope(), sqlUnsettled, postgres.Args{"before": before})
	if err != nil {
		return settled, errors.Join(append(failures, err)...)
	}
	for _, step := range steps {
		settled, failures = count(settled, failures, d.settle(ctx, step, holds))
	}
	return settled, errors.Join(failures...)
}

func count(settled int, failures []error, err error) (int, []error) {
	switch {
	case errors.Is(err, ErrNotAsked):
		return settled, failures
	case err != nil:
		return settled, append(failures, err)
	default:
		return settled + 1, failures
	}
}

func (d *Directory) settle(ctx context.Context, step Unsettled, holds Holder) error {
	held, err := holds(ctx, step)
	if errors.Is(err, ErrUnknown) {
		held, err = false, nil // its organization never came to be
	}
	if err != nil {
		return fmt.Errorf("settle a %s of %s: %w", step.Kind, step.OrgID, err)
	}
	outcome := "released"
	if held {
		outcome = "confirmed"
	}
	err = d.move(ctx, step.Kind, step.Key, step.OrgID, step.Generation, outcome, step.State)
	if errors.Is(err, ErrChanged) {
		return nil // its owner came back and finished
	}
	return err
}
