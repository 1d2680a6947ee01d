package events

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/requestid"
)

// LaneKind is the kind of the lanes that deliveries wait in, one lane for each subscription.
// Package webhooks registers it and sends what waits there.
const LaneKind = "webhooks"

// Log records the events of one cell.
type Log struct {
	clock clock.Clock
	lanes *lanes.Lanes
}

// New builds the log.
func New(clock clock.Clock, lanes *lanes.Lanes) *Log { return &Log{clock: clock, lanes: lanes} }

// RecordTx writes events in the transaction of their change, by one statement: the events,
// and one delivery for each subscription that matches. The deliveries are then added to the
// lanes of their subscriptions. Paused and disabled subscriptions get deliveries too, which
// wait until the subscription is resumed.
func (l *Log) RecordTx(ctx context.Context, tx *postgres.Tx, drafts ...Draft) error {
	if len(drafts) == 0 {
		return nil
	}
	_, err := l.recordTx(ctx, tx, Public, ids.Any{}, drafts)
	return err
}

// RecordForTx records an event for one subscription, whatever types that subscribes to, and
// returns the id of its delivery.
func (l *Log) RecordForTx(ctx context.Context, tx *postgres.Tx, subscription ids.Any, draft Draft) (delivery ids.Any, err error) {
	made, err := l.recordTx(ctx, tx, Internal, subscription, []Draft{draft})
	if err != nil || len(made) == 0 {
		return ids.Any{}, err
	}
	return made[0].ID, nil
}

func (l *Log) recordTx(ctx context.Context, tx *postgres.Tx, audience Audience, only ids.Any, drafts []Draft) ([]delivery, error) {
	events, now := make([]Draft, len(drafts)), l.clock.Now()
	for i, draft := range drafts {
		var err error
		if events[i], err = draft.complete(now); err != nil {
			return nil, err
		}
	}
	sql, args := sqlRecord, columnsOf(events)
	if len(events) == 1 {
		sql, args = sqlRecordOne, valuesOf(events[0])
	}
	args["audience"], args["only"], args["request_id"] = audience, only, requestid.From(ctx)
	made, err := postgres.Many[delivery](ctx, tx, sql, args)
	if err != nil {
		return nil, err
	}
	for _, one := range made {
		row := lanes.Row{ID: one.ID, Key: one.SubjectID, DueAt: one.NextAttemptAt}
		if err := l.lanes.AddTx(ctx, tx, LaneKind, one.SubscriptionID, row); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// delivery is what a lane needs to know of a delivery that was just written.
type delivery struct {
	ID             ids.Any
	SubscriptionID ids.Any
	SubjectID      ids.Any
	NextAttemptAt  time.Time
}

const (
	// Most transactions record one event. Arrays would triple the time of this statement, so
	// that a single event is given by values.
	sqlRecordOne = `
WITH given AS (
    SELECT @id::uuid AS id, @at::timestamptz AS at, @key::text AS key, @type::text AS type, @number::text AS phone_number_id,
           @subject::uuid AS subject_id, @resource::uuid AS resource_id, @contact::uuid AS contact_id, @message::uuid AS message_id,
           @body::bytea AS body
)` + sqlWriteGiven

	sqlRecord = `
WITH given AS (
    SELECT *
    FROM unnest(
        @ids::uuid[], @ats::timestamptz[], @keys::text[], @types::text[], @numbers::text[],
        @subjects::uuid[], @resources::uuid[], @contacts::uuid[], @messages::uuid[],
        @bodies::bytea[]
    ) AS given (id, at, key, type, phone_number_id, subject_id, resource_id, contact_id, message_id, body)
)` + sqlWriteGiven

	// The statement mints the ids of the deliveries, because only it knows how many there are.
	// Their time is that of the event, so that the deliveries of one subject are due in the
	// order of its events.
	sqlWriteGiven = `, recorded AS (
    INSERT INTO events
        (org_id, id, key, type, audience, phone_number_id, subject_id, resource_id, contact_id, message_id, request_id, body)
    SELECT @org_id, id, key, type, @audience::text, nullif(phone_number_id, ''), subject_id, resource_id, contact_id, message_id,
           @request_id::uuid, body
    FROM given
)
INSERT INTO webhook_deliveries
    (org_id, id, subscription_id, event_id, event_key, event_type, subject_id, status, next_attempt_at)
SELECT @org_id, ulid(e.at), s.id, e.id, e.key, e.type, e.subject_id, 'pending', e.at
FROM given e
JOIN webhook_subscriptions s ON s.org_id = @org_id
 AND CASE WHEN @only::uuid IS NOT NULL THEN s.id = @only::uuid
          ELSE e.type = ANY (s.events)
           AND (e.phone_number_id = '' OR s.phone_number_ids IS NULL OR e.phone_number_id = ANY (s.phone_number_ids))
     END
RETURNING id, subscription_id, subject_id, next_attempt_at`
)

func valuesOf(e Draft) postgres.Args {
	return postgres.Args{
		"id": e.id, "at": e.id.CreatedAt(), "key": e.Key, "type": e.Type, "number": e.PhoneNumberID, "subject": e.Subject,
		"resource": e.Resource, "contact": e.Contact, "message": e.Message, "body": e.Body,
	}
}

// columnsOf turns events into one array for each column, for unnest.
func columnsOf(events []Draft) postgres.Args {
	return postgres.Columns(events,
		postgres.Col("ids", func(e Draft) ID { return e.id }),
		postgres.Col("ats", func(e Draft) time.Time { return e.id.CreatedAt() }),
		postgres.Col("keys", func(e Draft) string { return e.Key }),
		postgres.Col("types", func(e Draft) Type { return e.Type }),
		postgres.Col("numbers", func(e Draft) string { return e.PhoneNumberID }),
		postgres.Col("subjects", func(e Draft) ids.Any { return e.Subject }),
		postgres.Col("resources", func(e Draft) ids.Any { return e.Resource }),
		postgres.Col("contacts", func(e Draft) ids.Any { return e.Contact }),
		postgres.Col("messages", func(e Draft) ids.Any { return e.Message }),
		postgres.Col("bodies", func(e Draft) []byte { return e.Body }))
}
