package directory

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Unresolved is a route whose claim or release was interrupted, or an organization (Kind is
// empty) whose placement was.
type Unresolved struct {
	Kind       Kind
	Key        []byte
	OrgID      ids.Org
	Generation int64
	State      string
}

// Holder asks the organization's cell whether the organization holds the route. When the kind is
// empty, it asks whether the cell has the organization.
type Holder func(ctx context.Context, step Unresolved) (bool, error)

// ErrNotServed means that another process serves the cell; the route stays unresolved.
var ErrNotServed = errors.New("another process serves the cell")

// The order is random, so that 500 routes that cannot be resolved do not block all others.
const sqlUnresolved = `
SELECT kind, key, org_id, generation, state
FROM directory.routes
WHERE state IN ('claimed', 'releasing')
  AND changed_at < @before
ORDER BY random()
LIMIT 500`

const sqlUnresolvedOrgs = `
SELECT org_id
FROM directory.org_routes
WHERE state = 'claimed'
  AND changed_at < @before
ORDER BY random()
LIMIT 500`

// Resolve ends the claims and releases that were interrupted more than five minutes ago: a route
// that the cell holds is confirmed, any other is released. Routes of a cell that does not answer
// stay for the next call.
func (d *Directory) Resolve(ctx context.Context, holds Holder) (resolved int, err error) {
	before := d.clock.Now().Add(-resolveAfter)
	orgs, err := postgres.Many[ids.Org](ctx, d.scope(), sqlUnresolvedOrgs, postgres.Args{"before": before})
	if err != nil {
		return 0, err
	}
	var failures []error
	for _, org := range orgs {
		held, err := holds(ctx, Unresolved{OrgID: org})
		if err == nil {
			err = d.resolveHome(ctx, org, held)
		}
		resolved, failures = count(resolved, failures, err)
	}
	steps, err := postgres.Many[Unresolved](ctx, d.scope(), sqlUnresolved, postgres.Args{"before": before})
	if err != nil {
		return resolved, errors.Join(append(failures, err)...)
	}
	for _, step := range steps {
		resolved, failures = count(resolved, failures, d.resolve(ctx, step, holds))
	}
	return resolved, errors.Join(failures...)
}

func count(resolved int, failures []error, err error) (int, []error) {
	switch {
	case errors.Is(err, ErrNotServed):
		return resolved, failures
	case err != nil:
		return resolved, append(failures, err)
	default:
		return resolved + 1, failures
	}
}

func (d *Directory) resolve(ctx context.Context, step Unresolved, holds Holder) error {
	held, err := holds(ctx, step)
	if errors.Is(err, ErrUnknown) {
		held, err = false, nil // the organization was never created
	}
	if err != nil {
		return fmt.Errorf("resolve a %s of %s: %w", step.Kind, step.OrgID, err)
	}
	outcome := "released"
	if held {
		outcome = "confirmed"
	}
	err = d.move(ctx, step.Kind, step.Key, step.OrgID, step.Generation, outcome, step.State)
	if errors.Is(err, ErrChanged) {
		return nil // the process that claimed it has finished meanwhile
	}
	return err
}
