package accounts

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const own = `a.id, a.team_id, a.customer_id, a.business_account_id, a.phone_number_id, a.phone_number, a.name,
    a.status, a.status_reason, a.provider_status, a.subscribed, a.refusal, a.checked_at, a.notices, a.connected_at,
    a.quality, a.messaging_limit, a.throughput, a.coexistence, a.cooldown_until, a.generation, a.token, a.registering_until, a.pin_tried_at,
    a.due_at, a.updated_at, a.deleted_at`

const (
	sqlAll = `
SELECT ` + own + `, c.name AS customer_name, c.status AS customer_status
FROM accounts a
LEFT JOIN customers c ON c.org_id = a.org_id AND c.id = a.customer_id
WHERE a.org_id = @org_id`
	sqlActive = sqlAll + `
  AND a.deleted_at IS NULL`
	sqlWithNumber = sqlActive + `
  AND a.phone_number_id = @phone_number_id`
	sqlWithID = sqlActive + `
  AND a.id = @id`
	sqlLocked = `
FOR UPDATE OF a`
)

func byNumber(phoneNumberID string) postgres.Args {
	return postgres.Args{"phone_number_id": phoneNumberID}
}

func accountByNumber(ctx context.Context, scope postgres.Scope, phoneNumberID string) (Account, error) {
	return postgres.One[Account](ctx, scope, sqlWithNumber, byNumber(phoneNumberID))
}

func lockByNumber(ctx context.Context, tx *postgres.Tx, phoneNumberID string) (Account, error) {
	return postgres.One[Account](ctx, tx, sqlWithNumber+sqlLocked, byNumber(phoneNumberID))
}

func accountByID(ctx context.Context, scope postgres.Scope, id ID) (Account, error) {
	return postgres.One[Account](ctx, scope, sqlWithID, postgres.Args{"id": id})
}

func lockByID(ctx context.Context, tx *postgres.Tx, id ID) (Account, error) {
	return postgres.One[Account](ctx, tx, sqlWithID+sqlLocked, postgres.Args{"id": id})
}

// What concerns a business account concerns all its numbers, unless one is named.
const (
	sqlOfBusinessAccount = sqlActive + `
  AND a.business_account_id = @business_account_id`
	sqlWithDisplay = `
  AND a.phone_number = @phone_number`
	sqlInOrder = `
ORDER BY a.id`
)

func lockConcerned(ctx context.Context, tx *postgres.Tx, said provider.Notification) ([]Account, error) {
	sql := sqlOfBusinessAccount
	switch {
	case said.NumberID != "":
		sql = sqlWithNumber
	case said.DisplayNumber != "":
		sql += sqlWithDisplay
	}
	return postgres.Many[Account](ctx, tx, sql+sqlInOrder+sqlLocked, postgres.Args{
		"phone_number_id": said.NumberID, "business_account_id": said.BusinessAccountID, "phone_number": said.DisplayNumber,
	})
}

// The conditions of a list. Each is in the statement only when the filter has it. No index
// serves the status.
const (
	sqlAfter        = ` AND a.id < @after`
	sqlWithStatus   = `status = @status`
	sqlWithCustomer = ` AND a.customer_id = @customer_id`
)

// walked is an account that a Walk read.
type walked struct {
	Account
	paging.Mark
}

func listAccounts(ctx context.Context, scope postgres.Scope, filter Filter, slice paging.Slice[ID]) (paging.Page[Account, ID], error) {
	walk := paging.Walk{Rows: sqlActive + sqlAfter, Order: `id DESC`, Filter: `true`}
	if filter.Status != "" {
		walk.Filter = sqlWithStatus
	}
	if filter.CustomerID != nil {
		walk.Rows += sqlWithCustomer
	}
	args := postgres.Args{"status": filter.Status, "customer_id": filter.CustomerID}
	return paging.ReadWalk(ctx, scope, walk.SQL(), args, slice,
		func(w walked) Account { return w.Account }, func(a Account) ID { return a.ID })
}

const sqlNumbers = `
SELECT phone_number_id
FROM accounts
WHERE org_id = @org_id
  AND deleted_at IS NULL
  AND phone_number_id = ANY (@numbers)
FOR KEY SHARE`

// knownNumbers are those of the given that the organization has; they stay its own until
// the transaction ends.
func knownNumbers(ctx context.Context, tx *postgres.Tx, given []string) ([]string, error) {
	return postgres.Many[string](ctx, tx, sqlNumbers, postgres.Args{"numbers": given})
}

// The lock lets what is being stored for a number be stored before the number goes.
const sqlHold = `
SELECT id
FROM accounts
WHERE org_id = @org_id
  AND phone_number_id = @phone_number_id
  AND generation = @generation
  AND deleted_at IS NULL
FOR SHARE`

func holdNumber(ctx context.Context, tx *postgres.Tx, phoneNumberID string, generation int64) (ID, error) {
	return postgres.One[ID](ctx, tx, sqlHold, postgres.Args{"phone_number_id": phoneNumberID, "generation": generation})
}

const sqlInsertAccount = `
INSERT INTO accounts (org_id, id, team_id, customer_id, business_account_id, phone_number_id, phone_number, name,
    status, status_reason, provider_status, subscribed, refusal, checked_at, notices, connected_at,
    quality, messaging_limit, throughput, coexistence, cooldown_until, generation, token, pin_tried_at, due_at, updated_at)
VALUES (@org_id, @id, @team_id, @customer_id, @business_account_id, @phone_number_id, @phone_number, @name,
    @status, @status_reason, @provider_status, @subscribed, @refusal, @checked_at, @notices, @connected_at,
    @quality, @messaging_limit, @throughput, @coexistence, @cooldown_until, @generation, @token, @pin_tried_at, @due_at, @updated_at)`

func insertAccount(ctx context.Context, tx *postgres.Tx, a Account) error {
	_, err := tx.Exec(ctx, sqlInsertAccount, a.values())
	return err
}

const sqlTriedBefore = `
SELECT unnest(pin_tried_at)
FROM accounts
WHERE org_id = @org_id
  AND phone_number_id = @phone_number_id
  AND deleted_at = (
    SELECT max(deleted_at)
    FROM accounts
    WHERE org_id = @org_id
      AND phone_number_id = @phone_number_id
  )`

// pinsTriedBefore are the times at which PINs were tried for a number before it was disconnected.
func pinsTriedBefore(ctx context.Context, tx *postgres.Tx, phoneNumberID string) ([]time.Time, error) {
	return postgres.Many[time.Time](ctx, tx, sqlTriedBefore, byNumber(phoneNumberID))
}

const sqlUpdateAccount = `
UPDATE accounts
SET business_account_id = @business_account_id,
    phone_number = @phone_number,
    name = @name,
    status = @status,
    status_reason = @status_reason,
    provider_status = @provider_status,
    subscribed = @subscribed,
    refusal = @refusal,
    checked_at = @checked_at,
    notices = @notices,
    connected_at = @connected_at,
    quality = @quality,
    messaging_limit = @messaging_limit,
    throughput = @throughput,
    coexistence = @coexistence,
    cooldown_until = @cooldown_until,
    token = @token,
    registering_until = @registering_until,
    pin_tried_at = @pin_tried_at,
    due_at = @due_at,
    updated_at = @updated_at,
    deleted_at = @deleted_at
WHERE org_id = @org_id
  AND id = @id`

func updateAccount(ctx context.Context, tx *postgres.Tx, a Account) error {
	_, err := tx.Exec(ctx, sqlUpdateAccount, a.values())
	return err
}

// values are the columns of an account.
func (a Account) values() postgres.Args {
	return postgres.Args{
		"id": a.ID, "team_id": a.TeamID, "customer_id": a.CustomerID, "business_account_id": a.BusinessAccountID,
		"phone_number_id": a.PhoneNumberID, "phone_number": a.PhoneNumber, "name": a.Name,
		"status": a.Status, "status_reason": a.StatusReason,
		"provider_status": a.ProviderStatus, "subscribed": a.Subscribed, "refusal": a.Refusal, "checked_at": a.CheckedAt,
		"notices": orEmpty(a.Notices), "connected_at": a.ConnectedAt,
		"quality": a.Quality, "messaging_limit": a.MessagingLimit, "throughput": a.Throughput,
		"coexistence": a.Coexistence, "cooldown_until": a.CooldownUntil,
		"generation": a.Generation, "token": a.Token,
		"registering_until": a.RegisteringUntil, "pin_tried_at": orNone(a.PinTriedAt),
		"due_at": a.DueAt, "updated_at": a.UpdatedAt, "deleted_at": a.DeletedAt,
	}
}

func orEmpty(n notices) notices {
	if n == nil {
		return notices{}
	}
	return n
}

func orNone[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}

// A deleted account's row, for its purge.
func deletedByID(ctx context.Context, scope postgres.Scope, id ID) (Account, error) {
	return postgres.One[Account](ctx, scope, sqlAll+` AND a.deleted_at IS NOT NULL AND a.id = @id`, postgres.Args{"id": id})
}

const sqlDeleteAccount = `
DELETE FROM accounts
WHERE org_id = @org_id
  AND id = @id
  AND deleted_at IS NOT NULL`

func deleteAccount(ctx context.Context, tx *postgres.Tx, id ID) error {
	_, err := tx.Exec(ctx, sqlDeleteAccount, postgres.Args{"id": id})
	return err
}

const sqlLeastRecentlyChecked = `
SELECT org_id, id
FROM accounts
WHERE deleted_at IS NULL
  AND phone_number_id IS NOT NULL
ORDER BY checked_at
LIMIT @limit`

// place is an account of any organization.
type place struct {
	OrgID ids.Org
	ID    ID
}

func leastRecentlyChecked(ctx context.Context, scope postgres.Scope, most int) ([]place, error) {
	return postgres.Many[place](ctx, scope, sqlLeastRecentlyChecked, postgres.Args{"limit": most})
}

// due is an account that is to be refreshed, or purged when it was deleted.
type due struct {
	OrgID   ids.Org
	ID      ID
	Deleted bool
}

func dueAccounts() jobs.Due[due] {
	return jobs.Due[due]{
		Table: "accounts", Key: "id", Returning: `t.org_id, t.id, t.deleted_at IS NOT NULL AS deleted`, Every: refreshEvery, AtOnce: dueAtOnce,
		Job: func(one due) jobs.Args {
			if one.Deleted {
				return purgeArgs{Org: one.OrgID, Account: one.ID}
			}
			return refreshArgs{Org: one.OrgID, Account: one.ID}
		},
	}
}

const (
	// Deleted accounts too: their purge still calls the provider.
	sqlToReseal = `
SELECT id, token
FROM accounts
WHERE org_id = @org_id
  AND token <> '' -- an empty one was never sealed
  AND substring(token FOR length(@newest::bytea)) <> @newest
ORDER BY id
LIMIT @limit
FOR NO KEY UPDATE`
	// Of an organization that moved away, a frozen copy is left for an hour: it does not count.
	sqlUnderOlderKey = `
SELECT a.org_id, a.id, a.token
FROM accounts a
JOIN organizations o ON o.org_id = a.org_id AND o.frozen_at IS NULL
WHERE a.token <> ''
  AND substring(a.token FOR length(@newest::bytea)) <> @newest
LIMIT 1`
	sqlReseal = `
UPDATE accounts a
SET token = given.token
FROM unnest(@ids::uuid[], @tokens::bytea[]) AS given (id, token)
WHERE a.org_id = @org_id
  AND a.id = given.id`
)
