package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// The rows of an accepted message, as the product writes them.
const (
	bareMessage = `
INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source, request_id, to_number, content)
VALUES ($1, $2, $3, $4, $5, 'outbound', 'text', 'api', $6, $7, $8)`
	bareState        = `INSERT INTO message_states (org_id, id, status) VALUES ($1, $2, 'queued')`
	bareConversation = `UPDATE conversations SET last_message_at = $3, updated_at = $3 WHERE org_id = $1 AND id = $2`
	bareLaneRow      = `INSERT INTO lane_rows (lane_id, priority, due_at, id, key) VALUES ($1, 1, $2, $3, $4)`
	bareAnswer       = `INSERT INTO idempotency_keys (org_id, key, created_at, fingerprint, answer) VALUES ($1, $2, $3, $4, $5)`
	// Of a recipient without a contact.
	bareContact = `
INSERT INTO contacts (org_id, id, account_id, phone_number, marketing, updated_at) VALUES ($1, $2, $3, $4, 'unknown', $5)`
	bareContactKey      = `INSERT INTO contact_keys (org_id, account_id, key, contact_id, since) VALUES ($1, $2, $3, $4, $5)`
	bareNewConversation = `
INSERT INTO conversations (org_id, id, account_id, contact_id, status, unread_count, last_message_at, updated_at)
VALUES ($1, $2, $3, $4, 'open', 0, $5, $5)`
	bareEvent = `
INSERT INTO events (org_id, id, key, type, audience, phone_number_id, contact_id, request_id, body)
VALUES ($1, $2, $6, 'contact.created', 'public', '100000000000000', $3, $4, $5)`
)

// bareLoop writes the rows of accepted messages, and does nothing else: no caller is read, nothing is
// checked, no quota is counted and nothing is locked.
type bareLoop struct {
	pool    *pgxpool.Pool
	org     orgs.ID
	people  []barePerson
	numbers []ids.Any
	// answer is as long as a stored answer of the product.
	answer []byte
	serial atomic.Int64
}

type barePerson struct{ account, contact, conversation ids.Any }

type statement struct {
	sql  string
	args []any
}

// newBareLoop writes to the recipients that the product knows.
func (a *accepting) newBareLoop(ctx context.Context) *bareLoop {
	l := &bareLoop{pool: a.cell.DB.Pool(), org: a.orgs[0]}
	for _, number := range a.numbers {
		l.numbers = append(l.numbers, number.ID.Any())
	}
	rows := must(l.pool.Query(ctx, `SELECT account_id, contact_id, id FROM conversations WHERE org_id = $1`, l.org))
	l.people = must(pgx.CollectRows(rows, func(row pgx.CollectableRow) (one barePerson, err error) {
		return one, row.Scan(&one.account, &one.contact, &one.conversation)
	}))
	var length int
	check(l.pool.QueryRow(ctx, `SELECT avg(length(answer))::int FROM idempotency_keys WHERE org_id = $1`, l.org).Scan(&length))
	l.answer = make([]byte, length)
	must(rand.Read(l.answer))
	return l
}

// known are the statements for a recipient that has a conversation.
func (l *bareLoop) known(serial int64, now time.Time) []statement {
	to := l.people[serial%int64(len(l.people))]
	return append([]statement{{bareConversation, []any{l.org, to.conversation, now}}}, l.message(serial, to, now)...)
}

// fresh are the statements for a recipient that was never seen.
func (l *bareLoop) fresh(serial int64, now time.Time) []statement {
	to := barePerson{account: l.numbers[serial%int64(len(l.numbers))], contact: newRow().ID, conversation: newRow().ID}
	number := fmt.Sprintf("+35193%07d", serial)
	return append([]statement{
		{bareContact, []any{l.org, to.contact, to.account, number, now}},
		{bareContactKey, []any{l.org, to.account, "n" + number[1:], to.contact, now}},
		{bareEvent, []any{l.org, newRow().ID, to.contact, newRow().ID, bodyOf(int(serial)), number}},
		{bareNewConversation, []any{l.org, to.conversation, to.account, to.contact, now}},
	}, l.message(serial, to, now)...)
}

func (l *bareLoop) message(serial int64, to barePerson, now time.Time) []statement {
	id, fingerprint := newRow().ID, make([]byte, 32)
	_, _ = rand.Read(fingerprint)
	content := fmt.Appendf(nil, `{"body":%q}`, messageText)
	return []statement{
		{bareMessage, []any{
			l.org, id, to.account, to.conversation, to.contact, newRow().ID, fmt.Sprintf("+351910%06d", serial%acceptKnown), content,
		}},
		{bareState, []any{l.org, id}},
		{bareLaneRow, []any{to.account, now, id, to.contact}},
		{bareAnswer, []any{l.org, fmt.Sprintf("bare-%d", serial), now, fingerprint, l.answer}},
	}
}

// verb returns a function that writes one message.
func (l *bareLoop) verb(
	ctx context.Context, rows func(serial int64, now time.Time) []statement, write func(context.Context, []statement) error,
) func(client int) error {
	return func(int) error { return write(ctx, rows(l.serial.Add(1), time.Now())) }
}

// eachAlone sends one statement after the other.
func (l *bareLoop) eachAlone(ctx context.Context, all []statement) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		for _, one := range all {
			if _, err := tx.Exec(ctx, one.sql, one.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// inBatch sends the whole transaction in one round trip.
func (l *bareLoop) inBatch(ctx context.Context, all []statement) error {
	batch := &pgx.Batch{}
	for _, one := range all {
		batch.Queue(one.sql, one.args...)
	}
	return l.pool.SendBatch(ctx, batch).Close() // a batch without begin is one transaction
}
