package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/signature"
)

// SecretID names a signing secret.
type SecretID = ids.Public[secretKind]

type secretKind struct{}

func (secretKind) Prefix() string { return "sec_" }

// Secret signs the deliveries of a subscription until it expires.
type Secret struct {
	SubscriptionID SubscriptionID
	ID             SecretID
	Sealed         []byte
	ExpiresAt      *time.Time
	// Plaintext is set only when the secret is minted, and for signing.
	Plaintext string `db:"-"`
}

func (s Secret) active(now time.Time) bool { return s.ExpiresAt == nil || now.Before(*s.ExpiresAt) }

// SecretDraft mints another secret.
type SecretDraft struct {
	// ExpireCurrentIn is in how many seconds the secrets that are active now expire; nil: not.
	ExpireCurrentIn *int64 `json:"expire_current_in"`
}

// maxExpiry keeps the time of expiry within the range that can be stored.
const maxExpiry = 100 * 365 * 24 * time.Hour

func (d SecretDraft) check() error {
	if d.ExpireCurrentIn != nil && *d.ExpireCurrentIn > int64(maxExpiry/time.Second) {
		return fault.Invalid("expire_current_in", "is longer than a hundred years")
	}
	return nil
}

// newSecret mints a secret and seals it for its row: copied to another row it cannot be opened.
func (s *Service) newSecret(org orgs.ID, subscription SubscriptionID, now time.Time) (Secret, error) {
	secret := Secret{SubscriptionID: subscription, ID: ids.New[secretKind](now), Plaintext: signature.NewSecret()}
	var err error
	secret.Sealed, err = s.box.Seal([]byte(secret.Plaintext), placeOf(org, secret))
	return secret, err
}

// openSecrets decrypts the secrets.
func (s *Service) openSecrets(org orgs.ID, secrets []Secret) ([]Secret, error) {
	opened := slices.Clone(secrets)
	for i, secret := range opened {
		plaintext, err := s.box.Open(secret.Sealed, placeOf(org, secret))
		if err != nil {
			return nil, err
		}
		opened[i].Plaintext = string(plaintext)
	}
	return opened, nil
}

// CheckSeal opens one signing secret that is sealed under another key than the newest. found is false if there
// is none.
func (s *Service) CheckSeal(ctx context.Context, all postgres.Scope) (found bool, err error) {
	type row struct {
		OrgID          orgs.ID
		SubscriptionID SubscriptionID
		ID             SecretID
		Sealed         []byte
	}
	one, err := postgres.One[row](ctx, all, sqlUnderOlderKey,
		postgres.Args{"newest": s.box.NewestPrefix(), "now": s.clock.Now()})
	if errors.Is(err, postgres.ErrNoRow) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := s.box.Open(one.Sealed, placeOf(one.OrgID, Secret{SubscriptionID: one.SubscriptionID, ID: one.ID})); err != nil {
		return true, fmt.Errorf("secret %s: %w", one.ID, sealed.ErrOtherKey)
	}
	return true, nil
}

// ResealTx seals signing secrets of the organization under the newest master key, and returns how many. It
// returns 0 when none is sealed under another key. Expired ones are deleted.
func (s *Service) ResealTx(ctx context.Context, tx *postgres.Tx) (int, error) {
	if _, err := tx.Exec(ctx, sqlDeleteAllExpired, postgres.Args{"now": s.clock.Now()}); err != nil {
		return 0, err
	}
	secrets, err := postgres.Many[Secret](ctx, tx, sqlSecretsToReseal, postgres.Args{"newest": s.box.NewestPrefix()})
	if err != nil || len(secrets) == 0 {
		return 0, err
	}
	for i, one := range secrets {
		if secrets[i].Sealed, err = s.box.Reseal(one.Sealed, placeOf(tx.Org(), one)); err != nil {
			return 0, fmt.Errorf("secret %s: %w", one.ID, err)
		}
	}
	_, err = tx.Exec(ctx, sqlResealSecrets, postgres.Columns(secrets,
		postgres.Col("subscriptions", func(s Secret) SubscriptionID { return s.SubscriptionID }),
		postgres.Col("ids", func(s Secret) SecretID { return s.ID }), postgres.Col("sealed", func(s Secret) []byte { return s.Sealed })))
	return len(secrets), err
}

func placeOf(org orgs.ID, secret Secret) []byte {
	return []byte("webhook_secrets " + org.String() + " " + secret.SubscriptionID.String() + " " + secret.ID.String())
}

// MintSecret adds a secret. From now on deliveries are signed with it too.
func (s *Service) MintSecret(ctx context.Context, org orgs.ID, by audit.Principal, id SubscriptionID, draft SecretDraft) (Secret, error) {
	if err := draft.check(); err != nil {
		return Secret{}, err
	}
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Secret, error) {
		subscription, err := s.lockTx(ctx, tx, id)
		if err != nil {
			return Secret{}, err
		}
		now := s.clock.Now()
		if err := deleteExpired(ctx, tx, id, now); err != nil { // so that rotations leave no rows behind
			return Secret{}, err
		}
		if len(subscription.Secrets) >= maxSecrets {
			return Secret{}, fault.New(fault.LimitReached,
				"The subscription has %d active secrets, the most there may be: revoke one first.", maxSecrets)
		}
		if draft.ExpireCurrentIn != nil {
			at := now.Add(time.Duration(*draft.ExpireCurrentIn) * time.Second)
			if err := expireSecrets(ctx, tx, id, at); err != nil {
				return Secret{}, err
			}
		}
		secret, err := s.newSecret(org, id, now)
		if err != nil {
			return Secret{}, err
		}
		if err := insertSecret(ctx, tx, secret); err != nil {
			return Secret{}, err
		}
		subscription.Version++ // senders read the secrets again
		if err := updateSubscription(ctx, tx, subscription); err != nil {
			return Secret{}, err
		}
		return secret, s.audit.RecordTx(ctx, tx, by, "webhook_secret.issued", secret.ID.String(), nil)
	})
}

// RevokeSecret deletes a secret, so that it signs no more. One secret that does not expire must remain: else
// the subscription would sign nothing once the others have expired.
func (s *Service) RevokeSecret(
	ctx context.Context, org orgs.ID, by audit.Principal, id SubscriptionID, secretID SecretID,
) (Secret, error) {
	return postgres.InTx(ctx, s.db, org, func(tx *postgres.Tx) (Secret, error) {
		subscription, err := s.lockTx(ctx, tx, id)
		if err != nil {
			return Secret{}, err
		}
		at := slices.IndexFunc(subscription.Secrets, func(secret Secret) bool { return secret.ID == secretID })
		if at < 0 {
			return Secret{}, fault.NotFound("secret")
		}
		revoked := subscription.Secrets[at]
		others := slices.Delete(slices.Clone(subscription.Secrets), at, at+1)
		lasts := func(secret Secret) bool { return secret.ExpiresAt == nil }
		if !slices.ContainsFunc(others, lasts) && (lasts(revoked) || len(others) == 0) {
			return Secret{}, fault.New(fault.CannotRevokeLastSecret,
				"Without this secret the subscription would have none that lasts. Mint another one, then revoke this one.")
		}
		if err := deleteSecret(ctx, tx, id, secretID); err != nil {
			return Secret{}, err
		}
		subscription.Version++
		if err := updateSubscription(ctx, tx, subscription); err != nil {
			return Secret{}, err
		}
		return revoked, s.audit.RecordTx(ctx, tx, by, "webhook_secret.revoked", secretID.String(), nil)
	})
}
