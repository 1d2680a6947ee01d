package customers

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/textkey"
)

// last_event_at is null in rows that an older version inserted, and behind updated_at in those that it updated.
const columns = `id, team_id, name, email, status, previous_status, metadata, archived_at, updated_at,
       greatest(last_event_at, updated_at) AS last_event_at`

const sqlInsertCustomer = `
INSERT INTO customers (org_id, id, team_id, name, name_key, email, email_key, status, previous_status, metadata, archived_at, updated_at,
                       last_event_at)
VALUES (@org_id, @id, @team_id, @name, @name_key, @email, @email_key, @status, @previous_status, @metadata, @archived_at, @updated_at,
        @last_event_at)`

func insertCustomer(ctx context.Context, tx *postgres.Tx, c Customer) error {
	_, err := tx.Exec(ctx, sqlInsertCustomer, c.values())
	return err
}

// values are the columns of a customer, and the keys under which a list finds it.
func (c Customer) values() postgres.Args {
	var emailKey *string
	if c.Email != nil {
		emailKey = new(textkey.Fold(*c.Email))
	}
	return postgres.Args{
		"id": c.ID, "team_id": c.TeamID, "name": c.Name, "name_key": textkey.Fold(c.Name), "email": c.Email, "email_key": emailKey,
		"status": c.Status, "previous_status": c.PreviousStatus, "metadata": c.Metadata, "archived_at": c.ArchivedAt, "updated_at": c.UpdatedAt,
		"last_event_at": c.LastEventAt,
	}
}

const sqlCustomerByID = `
SELECT ` + columns + `
FROM customers
WHERE org_id = @org_id
  AND id = @id`

func customerByID(ctx context.Context, scope postgres.Scope, id ID) (Customer, error) {
	return postgres.One[Customer](ctx, scope, sqlCustomerByID, postgres.Args{"id": id})
}

func lockCustomer(ctx context.Context, tx *postgres.Tx, id ID) (Customer, error) {
	return postgres.One[Customer](ctx, tx, sqlCustomerByID+` FOR UPDATE`, postgres.Args{"id": id})
}

func holdCustomer(ctx context.Context, tx *postgres.Tx, id ID) (Customer, error) {
	return postgres.One[Customer](ctx, tx, sqlCustomerByID+` FOR SHARE`, postgres.Args{"id": id})
}

const sqlUpdateCustomer = `
UPDATE customers
SET name = @name,
    name_key = @name_key,
    email = @email,
    email_key = @email_key,
    status = @status,
    previous_status = @previous_status,
    metadata = @metadata,
    archived_at = @archived_at,
    updated_at = @updated_at,
    last_event_at = @last_event_at
WHERE org_id = @org_id
  AND id = @id`

func updateCustomer(ctx context.Context, tx *postgres.Tx, c Customer) error {
	_, err := tx.Exec(ctx, sqlUpdateCustomer, c.values())
	return err
}

// The conditions of a list. Each is in the statement only when the filter has it: a plan made
// for `@email IS NULL OR …` could use no index. No index serves the status.
const (
	sqlAfter      = ` AND id < @after`
	sqlWithStatus = `status = @status`
	sqlWithEmail  = ` AND email_key = @email_key`
)

const sqlListCustomers = `
SELECT ` + columns + `
FROM customers
WHERE org_id = @org_id`

// A UNION of two ranges, made before anything is sorted or cut, reads exactly the matches, each
// range by its own index, and shows a customer once whose name and email both match. An OR would
// leave a choice to the planner, whose statistics are those of all organizations: where others
// have many matches and this one has three, it reads all customers of this one, newest first.
const (
	sqlMatching = `
WITH matching AS MATERIALIZED (`
	sqlName = `
    SELECT id FROM customers WHERE org_id = @org_id AND name_key >= @q AND name_key < @q_end`
	sqlOrEmail = `
    UNION
    SELECT id FROM customers WHERE org_id = @org_id AND email_key >= @q AND email_key < @q_end`
	sqlListMatching = `
)` + sqlListCustomers + `
  AND id IN (SELECT id FROM matching ORDER BY id DESC LIMIT @limit)
ORDER BY id DESC`
)

// sqlOf is the statement of a filter.
func sqlOf(filter Filter) string {
	conditions := sqlAfter
	if filter.Email != "" {
		conditions += sqlWithEmail
	}
	status := `true`
	if filter.Status != "" {
		status = sqlWithStatus
	}
	if filter.Q != "" {
		conditions += ` AND ` + status
		return sqlMatching + sqlName + conditions + sqlOrEmail + conditions + sqlListMatching
	}
	return paging.Walk{Rows: sqlListCustomers + conditions, Order: `id DESC`, Filter: status}.SQL()
}

// walked is a customer that a Walk read.
type walked struct {
	Customer
	paging.Mark
}

func listCustomers(ctx context.Context, scope postgres.Scope, filter Filter, slice paging.Slice[ID]) (paging.Page[Customer, ID], error) {
	q, id := textkey.Fold(filter.Q), func(c Customer) ID { return c.ID }
	args := postgres.Args{"status": filter.Status, "email_key": textkey.Fold(filter.Email), "q": q, "q_end": textkey.After(q)}
	if filter.Q != "" {
		return paging.Read(ctx, scope, sqlOf(filter), args, slice, id)
	}
	return paging.ReadWalk(ctx, scope, sqlOf(filter), args, slice, func(w walked) Customer { return w.Customer }, id)
}
