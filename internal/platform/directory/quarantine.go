package directory

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// QuarantineID names something in quarantine.
type QuarantineID = ids.Public[QuarantineKind]

// QuarantineKind is that of their ids.
type QuarantineKind struct{}

// Prefix begins them.
func (QuarantineKind) Prefix() string { return "qrt_" }

// Quarantined is what the provider pushed and belongs to nobody.
type Quarantined struct {
	ID                QuarantineID
	Reason            string
	PhoneNumberID     *string
	BusinessAccountID *string
	Body              []byte
}

const sqlQuarantine = `
INSERT INTO directory.quarantine (id, reason, phone_number_id, business_account_id, body)
VALUES (@id, @reason, @phone_number_id, @business_account_id, @body)`

// Quarantine keeps what belongs to nobody.
func (d *Directory) Quarantine(ctx context.Context, all ...Quarantined) error {
	_, err := postgres.InSystemTx(ctx, d.db, "quarantine", func(tx *postgres.Tx) (struct{}, error) {
		for _, one := range all {
			_, err := tx.Exec(ctx, sqlQuarantine, postgres.Args{
				"id": ids.New[QuarantineKind](d.clock.Now()), "reason": one.Reason, "phone_number_id": one.PhoneNumberID,
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

// Quarantined lists what is in quarantine, or some of it, the newest first.
func (d *Directory) Quarantined(ctx context.Context, limit int, some ...QuarantineID) ([]Quarantined, error) {
	return postgres.Many[Quarantined](ctx, d.scope(), sqlQuarantined, postgres.Args{"ids": some, "limit": limit})
}

// quarantinedFor is how long anything stays.
const quarantinedFor = 30 * 24 * time.Hour

const (
	sqlLeave  = `DELETE FROM directory.quarantine WHERE id = ANY (@ids)`
	sqlExpire = `DELETE FROM directory.quarantine WHERE id < @oldest`
)

// LeaveQuarantine forgets what belongs to somebody by now.
func (d *Directory) LeaveQuarantine(ctx context.Context, all ...QuarantineID) error {
	_, err := postgres.InSystemTx(ctx, d.db, "quarantine", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlLeave, postgres.Args{"ids": all})
	})
	return err
}

// ExpireQuarantine forgets what nobody wanted for too long.
func (d *Directory) ExpireQuarantine(ctx context.Context) error {
	_, err := postgres.InSystemTx(ctx, d.db, "quarantine", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, sqlExpire, postgres.Args{"oldest": ids.Floor[QuarantineKind](d.clock.Now().Add(-quarantinedFor))})
	})
	return err
}
