package events

import (
	"context"
	"errors"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Log records the events of one cell.
type Log struct {
	clock clock.Clock
	write Writer
}

// Writer writes events and what follows from them, in one statement that starts with
// Recording.
type Writer func(ctx context.Context, tx *postgres.Tx, events []Event) error

// New builds the log. It can record once somebody writes.
func New(clock clock.Clock) *Log { return &Log{clock: clock} }

// WrittenBy says who writes the events; webhooks does, together with the deliveries.
func (l *Log) WrittenBy(write Writer) { l.write = write }

var errUnwritten = errors.New("nobody writes the events")

// RecordTx records that something happened. Event, deliveries and what wakes their
// couriers are written last in the transaction, by one statement for all its events.
func (l *Log) RecordTx(tx *postgres.Tx, draft Draft) error {
	if l.write == nil {
		return errUnwritten
	}
	event, err := draft.event(l.clock.Now())
	if err != nil {
		return err
	}
	recorded := postgres.Keep(tx, l, func() *[]Event {
		var recorded []Event
		tx.BeforeCommit(func(ctx context.Context) error { return l.write(ctx, tx, recorded) })
		return &recorded
	})
	*recorded = append(*recorded, event)
	return nil
}

// Recording is the beginning of a statement that records events given by Columns, and
// RecordingOne of one that records a single one, given by Values: most transactions record
// one, and arrays cost more than all else. What follows finds the events in the table
// expression `given`, and their time in `at`.
const (
	Recording = `
WITH given AS (
    SELECT id, at, key, type, audience, phone_number_id, subject_id, body
    FROM unnest(
        @ids::uuid[], @ats::timestamptz[], @keys::text[], @types::text[], @audiences::text[], @numbers::text[], @subjects::uuid[],
        @bodies::bytea[]
    ) AS given (id, at, key, type, audience, phone_number_id, subject_id, body)
)` + recorded
	RecordingOne = `
WITH given AS (
    SELECT @id::uuid AS id, @at::timestamptz AS at, @key::text AS key, @type::text AS type, @audience::text AS audience,
           @number::text AS phone_number_id, @subject::uuid AS subject_id, @body::bytea AS body
)` + recorded
	recorded = `, recorded AS (
    INSERT INTO events (org_id, id, key, type, audience, phone_number_id, subject_id, body)
    SELECT @org_id, id, key, type, audience, phone_number_id, subject_id, body FROM given
)`
)

// Values are one event.
func Values(e Event) postgres.Args {
	return postgres.Args{
		"id": e.ID, "at": e.ID.CreatedAt(), "key": e.Key, "type": e.Type, "audience": e.Audience,
		"number": e.PhoneNumberID, "subject": e.SubjectID, "body": e.Body,
	}
}

// Columns are events turned on their side.
func Columns(events []Event) postgres.Args {
	count := len(events)
	eventIDs, ats, keys := make([]ID, count), make([]time.Time, count), make([]string, count)
	types, audiences := make([]Type, count), make([]Audience, count)
	numbers, subjects, bodies := make([]*string, count), make([]ids.Any, count), make([][]byte, count)
	for i, e := range events {
		eventIDs[i], ats[i], keys[i], types[i], audiences[i] = e.ID, e.ID.CreatedAt(), e.Key, e.Type, e.Audience
		numbers[i], subjects[i], bodies[i] = e.PhoneNumberID, e.SubjectID, e.Body
	}
	return postgres.Args{
		"ids": eventIDs, "ats": ats, "keys": keys, "types": types, "audiences": audiences,
		"numbers": numbers, "subjects": subjects, "bodies": bodies,
	}
}
