package directory

import (
	"context"
	"errors"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Two databases have no common commit, so a route is claimed in three steps: claim here, commit
// in the cell, confirm here. It is released in three steps too: announce here, commit in the
// cell, release here. When a process dies between two steps, Resolve asks the cell whether it
// holds the route, and confirms or releases it.

// ErrTaken means that another organization has the route.
var ErrTaken = errors.New("the route is taken")

// Claim claims a route for an organization, runs the commit in its cell and confirms. The
// commit gets the route's generation and must respect its context's deadline, which ends
// long before Resolve looks at the claim.
func (d *Directory) Claim(
	ctx context.Context, kind Kind, key []byte, org ids.Org, commit func(ctx context.Context, generation int64) error,
) error {
	return d.claim(ctx, kind, key, org, nil, commit)
}

// ClaimNumber is Claim for a number. Other organizations may have numbers of the same business
// account.
func (d *Directory) ClaimNumber(
	ctx context.Context, number, businessAccount string, org ids.Org, commit func(ctx context.Context, generation int64) error,
) error {
	return d.claim(ctx, PhoneNumber, []byte(number), org, &businessAccount, commit)
}

func (d *Directory) claim(
	ctx context.Context, kind Kind, key []byte, org ids.Org, businessAccount *string,
	commit func(ctx context.Context, generation int64) error,
) error {
	generation, err := d.insertClaim(ctx, kind, key, org, businessAccount)
	if err != nil {
		return err
	}
	return d.finish(ctx, [...]string{"claimed", "committed", "confirmed"}, steps{
		commit:  func(ctx context.Context) error { return commit(ctx, generation) },
		confirm: func() error { return d.move(ctx, kind, key, org, generation, "confirmed", "claimed") },
		undo:    func() error { return d.move(ctx, kind, key, org, generation, "released", "claimed") },
	})
}

// Release announces that a route will be free, runs the commit in the cell and releases.
// Until the cell has committed, the route still leads to the organization. A route whose
// confirmation was lost can be released too, because the cell holds it.
func (d *Directory) Release(
	ctx context.Context, kind Kind, key []byte, org ids.Org, generation int64, commit func(context.Context) error,
) error {
	if err := d.move(ctx, kind, key, org, generation, "releasing", "claimed", "confirmed"); err != nil {
		return err
	}
	return d.finish(ctx, [...]string{"announced", "release committed", "released"}, steps{
		commit: commit,
		confirm: func() error {
			d.owners.Remove(routeKey{kind, string(key)})
			return d.move(ctx, kind, key, org, generation, "released", "releasing")
		},
		undo: func() error { return d.move(ctx, kind, key, org, generation, "confirmed", "releasing") },
	})
}

// steps follow the first write to the directory.
type steps struct {
	// commit runs the transaction in the cell.
	commit func(context.Context) error
	// confirm or undo is the second write to the directory, after the cell committed or refused.
	confirm, undo func() error
}

// finish runs the commit in the cell, then confirm, or undo when the cell refused. Errors of
// confirm and undo are ignored, because Resolve does the same later.
func (d *Directory) finish(ctx context.Context, names [3]string, s steps) error {
	d.step(names[0])
	within, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := s.commit(within); err != nil {
		if refused(err) {
			_ = s.undo()
		}
		return err
	}
	d.step(names[1])
	_ = s.confirm()
	d.step(names[2])
	return nil
}

// refused reports whether the cell surely committed nothing: the verb refused, or there was no
// transaction. It is false for a commit whose outcome is unknown.
func refused(err error) bool {
	code := fault.Of(err)
	return code != "" && code != fault.ServiceUnavailable || postgres.Undone(err)
}

// A route is free when it has no row or was released.
const sqlClaim = `
INSERT INTO directory.routes AS r (kind, key, org_id, business_account_id, generation, state, changed_at)
VALUES (@kind, @key, @org, @business_account, 1, 'claimed', @now)
ON CONFLICT (kind, key) DO UPDATE
SET org_id = excluded.org_id,
    business_account_id = excluded.business_account_id,
    generation = r.generation + 1,
    state = 'claimed',
    changed_at = excluded.changed_at
WHERE r.state = 'released'
RETURNING generation`

func (d *Directory) insertClaim(
	ctx context.Context, kind Kind, key []byte, org ids.Org, businessAccount *string,
) (generation int64, err error) {
	generation, err = postgres.InSystemTx(ctx, d.db, "directory", func(tx *postgres.Tx) (int64, error) {
		return postgres.One[int64](ctx, tx, sqlClaim, postgres.Args{
			"kind": kind, "key": key, "org": org, "business_account": businessAccount, "now": d.clock.Now(),
		})
	})
	if errors.Is(err, postgres.ErrNoRow) {
		return 0, ErrTaken
	}
	return generation, err
}

const sqlMove = `
UPDATE directory.routes
SET state = @to,
    business_account_id = CASE WHEN @to <> 'released' THEN business_account_id END,
    changed_at = @now
WHERE kind = @kind
  AND key = @key
  AND org_id = @org
  AND generation = @generation
  AND state = ANY (@from)`

// ErrChanged means that a route was not in the state that a step starts from.
var ErrChanged = errors.New("the route changed meanwhile")

func (d *Directory) move(ctx context.Context, kind Kind, key []byte, org ids.Org, generation int64, to string, from ...string) error {
	moved, err := postgres.InSystemTx(ctx, d.db, "directory", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlMove, postgres.Args{
			"kind": kind, "key": key, "org": org, "generation": generation, "from": from, "to": to, "now": d.clock.Now(),
		})
	})
	if err == nil && moved == 0 {
		return ErrChanged
	}
	return err
}
