package cell

import (
	"context"
	"errors"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Resealed is the result of Reseal.
type Resealed struct {
	// Values is how many tokens and signing secrets were sealed again.
	Values int
	// Frozen are the organizations that could not be written to: they are being moved, or have moved away.
	Frozen []orgs.ID
}

// Reseal seals every provider token and signing secret under the newest master key, a few hundred in
// each transaction. Values that are sealed under it are left alone, so that it may be stopped and
// run again. The audit log of each organization has the number in each transaction. It calls progress after each
// transaction. Stored answers and cursors are not sealed again: they expire.
func (c *Cell) Reseal(ctx context.Context, by audit.Principal, progress func(Resealed)) (done Resealed, err error) {
	all, err := c.Orgs.List(ctx)
	if err != nil {
		return done, err
	}
	for _, org := range all {
		err := c.resealOrg(ctx, org.OrgID, by, func(values int) {
			done.Values += values
			progress(done)
		})
		if errors.Is(err, postgres.ErrNotOpenHere) {
			done.Frozen = append(done.Frozen, org.OrgID)
			continue
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (c *Cell) resealOrg(ctx context.Context, org orgs.ID, by audit.Principal, done func(values int)) error {
	for _, portion := range []func(context.Context, *postgres.Tx) (int, error){c.Webhooks.ResealTx, c.Accounts.ResealTx} {
		for more := true; more; {
			count, err := postgres.InTx(ctx, c.DB, org, func(tx *postgres.Tx) (int, error) {
				count, err := portion(ctx, tx)
				if err != nil || count == 0 {
					return 0, err
				}
				return count, c.Audit.RecordTx(ctx, tx, by, "secrets.resealed", org.String(), map[string]any{"values": count})
			})
			if err != nil {
				return err
			}
			if more = count > 0; more {
				done(count)
			}
		}
	}
	return nil
}

// CheckSeal opens one token and one signing secret that are sealed under another master key than the newest.
// found is false if there are none. It reads in the scope all, because the pool of requests is closed until the check.
func (c *Cell) CheckSeal(ctx context.Context, all postgres.Scope) (found bool, err error) {
	for _, check := range []func(context.Context, postgres.Scope) (bool, error){c.Webhooks.CheckSeal, c.Accounts.CheckSeal} {
		one, err := check(ctx, all)
		if err != nil {
			return true, err
		}
		found = found || one
	}
	return found, nil
}
