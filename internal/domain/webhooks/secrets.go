package webhooks

import (
	"context"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
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

func activeOf(secrets []Secret, now time.Time) []Secret {
	return slices.DeleteFunc(slices.Clone(secrets), func(s Secret) bool { return !s.active(now) })
}

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
		if len(activeOf(subscription.Secrets, now)) >= maxSecrets {
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

// RevokeSecret deletes a secret, so that it signs no more. One active secret must remain.
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
		remaining := activeOf(slices.Delete(slices.Clone(subscription.Secrets), at, at+1), s.clock.Now())
		if len(remaining) == 0 {
			return Secret{}, fault.New(fault.CannotRevokeLastSecret,
				"This is the only active secret of the subscription. Mint another one, then revoke this one.")
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
