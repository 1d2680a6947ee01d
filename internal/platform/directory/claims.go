package directory

import (
	"context"
	"errors"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Two databases have no common commit, so whatever is unique in the whole service is
// taken in three steps: claim here, commit in the cell, confirm here. It is given back in
// three steps too: announce here, commit in the cell, release here. A process that dies
// between two steps leaves an unsettled route, and Settle asks the cell what became of it.

// ErrTaken means that somebody else has it.
var ErrTaken = errors.New("the route is taken")

// Take claims a route for an organization, runs the commit in its cell and confirms. The
// commit gets the route's generation and must respect its context's deadline, which ends
// long before anybody settles the claim.
func (d *Directory) Take(
	ctx context.Context, kind Kind, key []byte, org ids.Org, commit func(ctx context.Context, generation int64) error,
) error {
	return d.take(ctx, kind, key, org, nil, commit)
}

// TakeNumber is Take for a number, of a business account that others may have numbers of too.
func (d *Directory) TakeNumber(
	ctx context.Context, number, businessAccount string, org ids.Org, commit func(ctx context.Context, generation int64) error,
) error {
	return d.take(ctx, PhoneNumber, []byte(number), org, &businessAccount, commit)
}

func (d *Directory) take(
	ctx context.Context, kind Kind, key []byte, org ids.Org, businessAccount *string,
	commit func(ctx context.Context, generation int64) error,
) error {
	generation, err := d.claim(ctx, kind, key, org, businessAccount)
	if err != nil {
		return err
	}
	return d.finish(ctx, [...]string{"claimed", "committed", "confirmed"}, steps{
		commit:  func(ctx context.Context) error { return commit(ctx, generation) },
		confirm: func() error { return d.move(ctx, kind, key, org, generation, "confirmed", "claimed") },
		undo:    func() error { return d.move(ctx, kind, key, org, generation, "released", "claimed") },
	})
}

// GiveBack announces that a route will be free, runs the commit in the cell and releases.
// Until the cell has committed the route still leads to the organization. One whose
// confirmation was lost may be given back too: the cell has it.
func (d *Directory) GiveBack(
	ctx context.Context, kind Kind, key []byte, org ids.Org, generation int64, commit func(context.Context) error,
) error {
	if err := d.move(ctx, kind, key, org, generation, "releasing", "claimed", "confirmed"); err != nil {
		return err
	}
	return d.finish(ctx, [...]string{"announced", "given back", "released"}, steps{
		commit: commit,
		confirm: func() error {
			d.owners.Remove(routeKey{kind, string(key)})
			return d.move(ctx, kind, key, org, generation, "released", "releasing")
		},
		undo: func() error { return d.move(ctx, kind, key, org, generation, "confirmed", "releasing") },
	})
}

// steps are what follows the first entry in the directory.
type steps struct {
	commit        func(context.Context) error
	confirm, undo func() error
}

// finish runs the commit in the cell and confirms it, or undoes the entry when the cell
// said no. What is lost of confirm and undo is done later by Settle: the cell has spoken.
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

// refused tells a verb that said no or could not even try, and so committed nothing, from
// a commit whose outcome is unknown.
func refused(err error) bool {
	code := fault.Of(err)
	return code != "" && code != fault.ServiceUnavailable || postgres.Undone(err)
}

// A route is free when it never was or was released.
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

func (d *Directory) claim(
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
