package apikeys

import (
	"context"
	"errors"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Service is the keys of one cell.
type Service struct {
	db        *postgres.DB
	clock     clock.Clock
	audit     *audit.Log
	directory *directory.Branch
}

// New builds the service.
func New(db *postgres.DB, clock clock.Clock, log *audit.Log, branch *directory.Branch) *Service {
	return &Service{db: db, clock: clock, audit: log, directory: branch}
}

// Issue makes a key and returns its plaintext, which is never shown again.
func (s *Service) Issue(ctx context.Context, org orgs.ID, by audit.Principal, draft Draft) (Key, string, error) {
	now := s.clock.Now()
	if err := draft.check(now); err != nil {
		return Key{}, "", err
	}
	plaintext := generate()
	key := Key{ID: ids.NewPlain[keyKind](now), Name: draft.Name, Last4: plaintext[len(plaintext)-4:], ExpiresAt: draft.ExpiresAt}
	err := s.directory.Claim(ctx, directory.APIKey, hash(plaintext), org, func(ctx context.Context, _ int64) error {
		_, err := postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Key, error) {
			if err := insertKey(ctx, tx, key, hash(plaintext)); err != nil {
				return Key{}, err
			}
			return key, s.audit.RecordTx(ctx, tx, by, "key.issued", key.ID.String(), map[string]any{"name": key.Name, "last4": key.Last4})
		})
		return err
	})
	return key, plaintext, err
}

// Holds tells whether the organization has a key with that hash.
func (s *Service) Holds(ctx context.Context, org orgs.ID, hash []byte) (bool, error) {
	return hasKey(ctx, s.db.Of(org), hash)
}

// ErrElsewhere means that the organization is not in this cell, or not in that epoch, or is being
// moved: the caller has an outdated route, or must wait.
var ErrElsewhere = errors.New("the organization lives elsewhere")

// Authenticate returns the caller whose key has that hash. A known key that may not be
// used is returned with its refusal, so that it can be logged under its organization. Other
// statements of the organization are sent in the same round trip. What they read must be used only
// if Authenticate returns no error.
func (s *Service) Authenticate(
	ctx context.Context, org orgs.ID, epoch int64, hash []byte, others ...postgres.Statement,
) (Caller, error) {
	caller, err := callerByHash(ctx, s.db.Of(org), hash, others...)
	switch {
	case errors.Is(err, postgres.ErrNoRow):
		return Caller{}, ErrElsewhere
	case err != nil:
		return Caller{}, err
	case caller.Epoch != epoch || caller.FrozenAt != nil:
		return Caller{}, ErrElsewhere
	case caller.KeyID.IsZero():
		return Caller{}, errInvalid // claimed in the directory, but never written here
	}
	return caller, caller.refuses(s.clock.Now())
}

// Get returns one key.
func (s *Service) Get(ctx context.Context, org orgs.ID, id ID) (Key, error) {
	key, err := keyByID(ctx, s.db.Of(org), id)
	return key, notFound(err)
}

// List returns the keys of an organization, oldest first.
func (s *Service) List(ctx context.Context, org orgs.ID) ([]Key, error) {
	return listKeys(ctx, s.db.Of(org))
}

// Revoke makes a key unusable for ever; revoking it again changes nothing.
func (s *Service) Revoke(ctx context.Context, org orgs.ID, by audit.Principal, id ID) (Key, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Key, error) {
		key, err := lockKey(ctx, tx, id)
		if err != nil || key.RevokedAt != nil {
			return key, notFound(err)
		}
		now := s.clock.Now()
		key.RevokedAt = &now
		if err := revokeKey(ctx, tx, key); err != nil {
			return Key{}, err
		}
		return key, s.audit.RecordTx(ctx, tx, by, "key.revoked", id.String(), nil)
	})
}

func notFound(err error) error { return postgres.NotFound(err, "API key", "") }
