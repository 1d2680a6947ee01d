// Package idempotency runs a request with an Idempotency-Key once. The answer is stored, sealed,
// in the transaction of the effect, so that both exist or neither. While that transaction runs,
// its advisory lock refuses a concurrent duplicate of the request; the lock ends with it.
package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
)

// Window is how long the answer of a key is returned to duplicates of its request.
const Window = 24 * time.Hour

// ErrStored means that a duplicate finished after we looked for its answer and before we had the
// lock: Find returns the answer now.
var ErrStored = errors.New("the answer of this key was stored meanwhile")

var errReuse = fault.New(fault.IdempotencyKeyReuse,
	"This Idempotency-Key was used for another request in the last 24 hours. Use a new key for each new request.")

var errInProgress = fault.New(fault.IdempotencyInProgress,
	"A request with this Idempotency-Key is still being processed. Retry in a moment to get its answer.")

var validKey = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)

// Request is a request with an Idempotency-Key.
type Request struct {
	Org ids.Org
	Key string
	// Parts are what identifies the request: the same key with other parts is another request,
	// and refused.
	Parts [][]byte
}

// Check refuses a malformed key.
func Check(key string) error {
	if !validKey.MatchString(key) {
		return fault.New(fault.InvalidFieldValue, "The header Idempotency-Key must be 1 to 255 visible ASCII characters.").At("Idempotency-Key")
	}
	return nil
}

func (r Request) identity() []byte { return append(r.Org.Bytes(), r.Key...) }

// lock returns the number of the advisory lock of the key (fingerprint nil), or of the key with
// this request.
func (r Request) lock(fingerprint []byte) int64 {
	digest := sha256.Sum256(slices.Concat([]byte("idempotency\x00"), r.identity(), []byte{0}, fingerprint))
	return int64(binary.BigEndian.Uint64(digest[:8])) //nolint:gosec // any 64 bits will do
}

// Answer is the response to the first request, byte for byte.
type Answer struct {
	Status    int         `json:"status"`
	RequestID string      `json:"request_id"`
	Header    http.Header `json:"header,omitempty"`
	Body      []byte      `json:"body"`
}

// Store stores answers and leases.
type Store struct {
	box   *sealed.Box
	mac   *sealed.MAC
	clock clock.Clock
}

// New returns a store that seals with keys of the ring.
func New(ring *sealed.Keyring, clock clock.Clock) (*Store, error) {
	box, err := ring.Box("idempotent answer")
	if err != nil {
		return nil, err
	}
	mac, err := ring.MAC("idempotent request")
	return &Store{box: box, mac: mac, clock: clock}, err
}

const sqlCountClosed = `
SELECT count(*)
FROM idempotency_keys
WHERE created_at > @since
  AND substring(answer, 1, @length) <> ALL (@known::bytea[])`

// CountClosed counts the answers of the window that were sealed under a master key that is not here: duplicates of their
// requests cannot be answered. It reads all answers of the window.
func (s *Store) CountClosed(ctx context.Context, all postgres.Scope) (int, error) {
	known := s.box.Prefixes()
	return postgres.One[int](ctx, all, sqlCountClosed,
		postgres.Args{"since": s.clock.Now().Add(-Window), "length": len(known[0]), "known": known})
}

// Stored is what Look found under a key. It may belong to another request and is sealed: only Open
// reads it.
type Stored struct{ rows []row }

type row struct {
	Fingerprint []byte
	Answer      []byte
}

// A lease counts as a use of the key without an answer.
const sqlFind = `
(
    SELECT fingerprint, answer
    FROM idempotency_keys
    WHERE org_id = @org_id
      AND key = @key
      AND created_at > @since
    ORDER BY created_at DESC
    LIMIT 1
)
UNION ALL
(
    SELECT fingerprint, NULL
    FROM idempotency_leases
    WHERE org_id = @org_id
      AND key = @key
      AND created_at > @since
    ORDER BY created_at DESC
    LIMIT 1
)
LIMIT 1`

// Look is a statement that reads what is stored under a key. It needs only the key, so it can be
// sent before the body of the request is there.
func (s *Store) Look(key string, into *Stored) postgres.Statement {
	return postgres.IntoMany(&into.rows, sqlFind, postgres.Args{"key": key, "since": s.clock.Now().Add(-Window)})
}

// Find returns the stored answer of a request, or nil when there is none.
func (s *Store) Find(ctx context.Context, scope postgres.Scope, request Request) (*Answer, error) {
	var found Stored
	if err := postgres.Batch(ctx, scope, s.Look(request.Key, &found)); err != nil {
		return nil, err
	}
	return s.Open(found, request)
}

// Open returns the answer that Look found for the request, or nil when there is none. It refuses a
// request that is not the one that the answer belongs to.
func (s *Store) Open(found Stored, request Request) (*Answer, error) {
	if len(found.rows) == 0 {
		return nil, nil //nolint:nilnil // no answer yet is not an error
	}
	stored := found.rows[0]
	if !s.mac.Matches(stored.Fingerprint, request.Parts...) {
		return nil, errReuse
	}
	if stored.Answer == nil {
		return nil, nil //nolint:nilnil // no answer yet is not an error
	}
	plain, err := s.box.Open(stored.Answer, request.identity())
	if err != nil {
		return nil, err
	}
	answer := &Answer{}
	return answer, json.Unmarshal(plain, answer)
}

// The lock of the request is taken first, then that of the key. If the first is held, a duplicate
// is running; its transaction may not have the second yet, so the second must not be tried. If
// only the second is held, another request with the same key is running, or a duplicate has just committed and
// gives its locks back one after the other: then its answer is there. OFFSET 0 keeps the
// planner from merging the subquery, so that the first lock is tried once, and before the second.
const sqlClaim = `-- locks: idempotency_keys, idempotency_leases
SELECT request, CASE WHEN request THEN pg_try_advisory_xact_lock(@key) ELSE false END AS key
FROM (SELECT pg_try_advisory_xact_lock(@request) AS request OFFSET 0) AS first`

// The holder of a lease waits for the locks. Duplicates hold them for a moment, to see that the lease is held; if the holder
// gave up, the effect that it has made would be lost.
const sqlClaimHeld = `-- locks: idempotency_keys, idempotency_leases
SELECT true AS request, true AS key
FROM (SELECT pg_advisory_xact_lock(@request) AS request OFFSET 0) AS first,
     LATERAL (SELECT pg_advisory_xact_lock(@key), first.request OFFSET 0) AS second`

// ClaimTx locks the key for this transaction. It refuses while a duplicate or another request
// with the same key runs, and returns ErrStored when a duplicate has just finished.
func (s *Store) ClaimTx(ctx context.Context, tx *postgres.Tx, request Request) error {
	return s.claimTx(ctx, tx, sqlClaim, request)
}

// claimTx is ClaimTx by a statement that tries the locks or waits for them, and with other statements, which run after it.
func (s *Store) claimTx(ctx context.Context, tx *postgres.Tx, sql string, request Request, others ...postgres.Statement) error {
	var locked struct{ Request, Key bool }
	var found Stored
	claim := postgres.IntoOne(&locked, sql, postgres.Args{
		"request": request.lock(s.mac.Sum(request.Parts...)), "key": request.lock(nil),
	})
	// Look is a second statement, because its snapshot must be newer than the locks.
	statements := append([]postgres.Statement{claim, s.Look(request.Key, &found)}, others...)
	err := postgres.Batch(ctx, tx, statements...)
	switch {
	case err != nil:
		return err
	case !locked.Request:
		return errInProgress
	case !locked.Key && len(found.rows) == 0:
		return errReuse
	}
	answer, err := s.Open(found, request)
	switch {
	case err == nil && answer != nil:
		return ErrStored
	case err == nil && !locked.Key:
		return errInProgress
	}
	return err
}

const sqlKeep = `
INSERT INTO idempotency_keys (org_id, key, created_at, fingerprint, answer)
VALUES (@org_id, @key, @created_at, @fingerprint, @answer)`

// KeepTx stores the answer in the transaction of its effect, by a statement that is sent with the
// commit.
func (s *Store) KeepTx(_ context.Context, tx *postgres.Tx, request Request, answer Answer) error {
	plain, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	ciphertext, err := s.box.Seal(plain, request.identity())
	if err != nil {
		return err
	}
	tx.Last(sqlKeep, postgres.Args{
		"key": request.Key, "created_at": s.clock.Now(), "fingerprint": s.mac.Sum(request.Parts...), "answer": ciphertext,
	}, nil)
	return nil
}
