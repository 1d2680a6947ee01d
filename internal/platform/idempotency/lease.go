package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// LeaseTime is how long a request that calls others before it answers holds its key. It is
// longer than any such request may take.
const LeaseTime = time.Minute

// Lease is a key that is held across transactions, by a request whose effect cannot commit
// with its answer. It ends with the answer, or with a refusal that did nothing. Where
// nobody knows what was done it lapses, at the latest by itself: then the same request may
// come again, and must find out first.
type Lease struct {
	request Request
	holder  ids.Any
	created time.Time
	// Repeated tells that an earlier request with this key never ended.
	Repeated bool
}

type leaseRow struct {
	CreatedAt time.Time
	Holder    ids.Any
	ExpiresAt time.Time
}

const sqlLease = `
SELECT created_at, holder, expires_at
FROM idempotency_leases
WHERE org_id = @org_id
  AND key = @key
  AND created_at > @since
ORDER BY created_at DESC
LIMIT 1`

const (
	sqlInsertLease = `
INSERT INTO idempotency_leases (org_id, key, created_at, fingerprint, holder, expires_at)
VALUES (@org_id, @key, @created_at, @fingerprint, @holder, @expires_at)`
	sqlRenewLease = `
UPDATE idempotency_leases
SET holder = @holder,
    expires_at = @expires_at
WHERE org_id = @org_id
  AND key = @key
  AND created_at = @created_at`
	sqlLapseLease = `
UPDATE idempotency_leases
SET expires_at = @now
WHERE org_id = @org_id
  AND key = @key
  AND created_at = @created_at
  AND holder = @holder`
	sqlEndLease = `
DELETE FROM idempotency_leases
WHERE org_id = @org_id
  AND key = @key
  AND created_at = @created_at
  AND holder = @holder`
)

// LeaseTx takes the key for LeaseTime. It refuses as ClaimTx does, and while another holds
// the lease.
func (s *Store) LeaseTx(ctx context.Context, tx *postgres.Tx, request Request) (Lease, error) {
	if err := s.ClaimTx(ctx, tx, request); err != nil {
		return Lease{}, err
	}
	now := s.clock.Now()
	lease := Lease{request: request, holder: ids.NewOrg(now).Any(), created: now}
	row, err := s.leaseTx(ctx, tx, request)
	switch {
	case errors.Is(err, postgres.ErrNoRow):
		_, err = tx.Exec(ctx, sqlInsertLease, lease.values(now.Add(LeaseTime), s.mac.Sum(request.Parts...)))
		return lease, err
	case err != nil:
		return Lease{}, err
	case now.Before(row.ExpiresAt):
		return Lease{}, errInProgress
	}
	lease.created, lease.Repeated = row.CreatedAt, true
	_, err = tx.Exec(ctx, sqlRenewLease, lease.values(now.Add(LeaseTime), nil))
	return lease, err
}

func (s *Store) leaseTx(ctx context.Context, tx *postgres.Tx, request Request) (leaseRow, error) {
	return postgres.One[leaseRow](ctx, tx, sqlLease, postgres.Args{"key": request.Key, "since": s.clock.Now().Add(-Window)})
}

func (l Lease) values(until time.Time, fingerprint []byte) postgres.Args {
	return postgres.Args{
		"key": l.request.Key, "created_at": l.created, "holder": l.holder, "expires_at": until, "fingerprint": fingerprint,
	}
}

// ClaimLeaseTx is ClaimTx for who holds the lease still. Who was away for longer may find
// that another has taken it over, and must leave the answer to them.
func (s *Store) ClaimLeaseTx(ctx context.Context, tx *postgres.Tx, lease Lease) error {
	if err := s.ClaimTx(ctx, tx, lease.request); err != nil {
		return err
	}
	row, err := s.leaseTx(ctx, tx, lease.request)
	if errors.Is(err, postgres.ErrNoRow) || err == nil && row.Holder != lease.holder {
		return errInProgress
	}
	return err
}

// EndTx gives the key back, or makes room for the answer that is kept in the same transaction.
func (s *Store) EndTx(ctx context.Context, tx *postgres.Tx, lease Lease) error {
	_, err := tx.Exec(ctx, sqlEndLease, lease.values(lease.created, nil))
	return err
}

// LapseTx lets the same request come again at once, to find out what this one did.
func (s *Store) LapseTx(ctx context.Context, tx *postgres.Tx, lease Lease) error {
	args := lease.values(lease.created, nil)
	args["now"] = s.clock.Now()
	_, err := tx.Exec(ctx, sqlLapseLease, args)
	return err
}

type repeatedKey struct{}

// With tells verbs under ctx about the lease of their request.
func With(ctx context.Context, lease Lease) context.Context {
	return context.WithValue(ctx, repeatedKey{}, lease.Repeated)
}

// Repeats tells a verb that an earlier request for the same thing never ended: before it
// does it again, it asks whether it was done.
func Repeats(ctx context.Context) bool {
	repeated, _ := ctx.Value(repeatedKey{}).(bool)
	return repeated
}
