package idempotency

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// LeaseTime is how long a request that calls the provider before it answers holds its key. It is
// longer than any such request may take.
const LeaseTime = time.Minute

// Lease holds a key across transactions, for a request whose effect cannot commit with its
// answer. It ends with the answer, or with a refusal that had no effect. When the effect is
// unknown the lease lapses, or expires after LeaseTime. Then the same request may run again, and
// must first find out whether the effect happened.
type Lease struct {
	request Request
	// holder is the id of this use of the lease; a later use has another.
	holder  ids.Any
	created time.Time
	// Repeated is true when an earlier request with this key never ended.
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

// LeaseTx leases the key for LeaseTime, once the transaction commits. It refuses as ClaimTx does,
// and while another request holds the lease.
func (s *Store) LeaseTx(ctx context.Context, tx *postgres.Tx, request Request) (Lease, error) {
	held, err := s.claimWithLeaseTx(ctx, tx, sqlClaim, request)
	if err != nil {
		return Lease{}, err
	}
	now := s.clock.Now()
	lease := Lease{request: request, holder: ids.NewOrg(now).Any(), created: now}
	switch {
	case len(held) == 0:
		tx.Last(sqlInsertLease, lease.values(now.Add(LeaseTime), s.mac.Sum(request.Parts...)), nil)
		return lease, nil
	case now.Before(held[0].ExpiresAt):
		return Lease{}, errInProgress
	}
	lease.created, lease.Repeated = held[0].CreatedAt, true
	tx.Last(sqlRenewLease, lease.values(now.Add(LeaseTime), nil), nil)
	return lease, nil
}

// claimWithLeaseTx is ClaimTx, and reads the lease of the key under its lock.
func (s *Store) claimWithLeaseTx(ctx context.Context, tx *postgres.Tx, sql string, request Request) (held []leaseRow, err error) {
	read := postgres.IntoMany(&held, sqlLease, postgres.Args{"key": request.Key, "since": s.clock.Now().Add(-Window)})
	err = s.claimTx(ctx, tx, sql, request, read)
	return held, err
}

func (l Lease) values(until time.Time, fingerprint []byte) postgres.Args {
	return postgres.Args{
		"key": l.request.Key, "created_at": l.created, "holder": l.holder, "expires_at": until, "fingerprint": fingerprint,
	}
}

// ClaimLeaseTx is ClaimTx for the holder of a lease. It refuses when the lease expired and another
// request holds it now: that request stores the answer.
func (s *Store) ClaimLeaseTx(ctx context.Context, tx *postgres.Tx, lease Lease) error {
	held, err := s.claimWithLeaseTx(ctx, tx, sqlClaimHeld, lease.request)
	if err == nil && (len(held) == 0 || held[0].Holder != lease.holder) {
		return errInProgress
	}
	return err
}

// EndTx deletes the lease with the commit: after a refusal, or before KeepTx in the same
// transaction.
func (s *Store) EndTx(_ context.Context, tx *postgres.Tx, lease Lease) error {
	tx.Last(sqlEndLease, lease.values(lease.created, nil), nil)
	return nil
}

// LapseTx ends the lease early, with the commit, so that the same request can run again at once
// and find out whether the effect happened.
func (s *Store) LapseTx(_ context.Context, tx *postgres.Tx, lease Lease) error {
	args := lease.values(lease.created, nil)
	args["now"] = s.clock.Now()
	tx.Last(sqlLapseLease, args, nil)
	return nil
}

type repeatedKey struct{}

// With returns a context from which Repeats reads the lease.
func With(ctx context.Context, lease Lease) context.Context {
	return context.WithValue(ctx, repeatedKey{}, lease.Repeated)
}

// Repeats reports whether an earlier request with the same key never ended. The verb must then
// find out whether the effect happened before it causes it again.
func Repeats(ctx context.Context) bool {
	repeated, _ := ctx.Value(repeatedKey{}).(bool)
	return repeated
}
