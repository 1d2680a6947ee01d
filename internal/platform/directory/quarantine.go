package directory

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// QuarantineID is the id of a quarantined callback.
type QuarantineID = ids.Public[QuarantineKind]

// QuarantineKind is the noun of QuarantineID.
type QuarantineKind struct{}

// Prefix is the prefix of quarantine ids.
func (QuarantineKind) Prefix() string { return "qrt_" }

// Quarantined is a callback, or a part of one, that belongs to no organization.
type Quarantined struct {
	ID QuarantineID
	// Reason says why it is here: unknown number, malformed body.
	Reason string
	// PhoneNumberID is the number that the callback names; nil when it names none.
	PhoneNumberID *string
	// BusinessAccountID is the business account that the callback names; nil when it names none.
	BusinessAccountID *string
	// Body is the JSON that was pushed.
	Body []byte
	// ReceivedAt is for Quarantine: when the callback came, if not now. Later it is the time in the ID.
	ReceivedAt time.Time `db:"-"`
}

const sqlQuarantine = `
INSERT INTO directory.quarantine (id, reason, phone_number_id, business_account_id, body)
VALUES (@id, @reason, @phone_number_id, @business_account_id, @body)`

// Quarantine stores callbacks that belong to no organization.
func (d *Directory) Quarantine(ctx context.Context, all ...Quarantined) error {
	_, err := postgres.InSystemTx(ctx, d.db, "quarantine", func(tx *postgres.Tx) (struct{}, error) {
		for _, one := range all {
			at := one.ReceivedAt
			if at.IsZero() {
				at = d.clock.Now()
			}
			_, err := tx.Exec(ctx, sqlQuarantine, postgres.Args{
				"id": ids.New[QuarantineKind](at), "reason": one.Reason, "phone_number_id": one.PhoneNumberID,
				"business_account_id": one.BusinessAccountID, "body": one.Body,
			})
			if err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

const sqlQuarantined = `
SELECT id, reason, phone_number_id, business_account_id, body
FROM directory.quarantine
WHERE @ids::uuid[] IS NULL OR id = ANY (@ids)
ORDER BY id DESC
LIMIT @limit`

// Quarantined lists quarantined callbacks, newest first: those with the ids, or all without ids.
func (d *Directory) Quarantined(ctx context.Context, limit int, some ...QuarantineID) ([]Quarantined, error) {
	return postgres.Many[Quarantined](ctx, d.scope(), sqlQuarantined, postgres.Args{"ids": some, "limit": limit})
}

// quarantinedFor is how long a callback stays in quarantine.
const quarantinedFor = 30 * 24 * time.Hour

const (
	sqlLeave  = `DELETE FROM directory.quarantine WHERE id = ANY (@ids)`
	sqlExpire = `DELETE FROM directory.quarantine WHERE id < @oldest`
)

// LeaveQuarantine deletes callbacks that an organization has received by now.
func (d *Directory) LeaveQuarantine(ctx context.Context, all ...QuarantineID) error {
	_, err := postgres.InSystemTx(ctx, d.db, "quarantine", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlLeave, postgres.Args{"ids": all})
	})
	return err
}

// ExpireQuarantine deletes callbacks that are older than 30 days.
func (d *Directory) ExpireQuarantine(ctx context.Context) error {
	_, err := postgres.InSystemTx(ctx, d.db, "quarantine", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlExpire, postgres.Args{"oldest": ids.Floor[QuarantineKind](d.clock.Now().Add(-quarantinedFor))})
	})
	return err
}
