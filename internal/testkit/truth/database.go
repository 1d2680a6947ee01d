package truth

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// database reads tables directly, without the product's code.
type database struct{ conn *pgx.Conn }

func open(ctx context.Context, url string) (database, error) {
	conn, err := pgx.Connect(ctx, url)
	return database{conn}, err
}

func (d database) close(ctx context.Context) { _ = d.conn.Close(ctx) }

func rowsOf[T any](ctx context.Context, d database, sql string, args ...any) ([]T, error) {
	rows, err := d.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

type event struct {
	OrgID         orgs.ID
	ID            events.ID
	Key           string
	Type          string
	Audience      string
	PhoneNumberID *string
	// MessageID is zero for an event that is about no message.
	MessageID ids.Any
	ContactID ids.Any
	Body      []byte
}

func (c *checker) readEvents(ctx context.Context, db database) error {
	all, err := rowsOf[event](ctx, db, `SELECT org_id, id, key, type, audience, phone_number_id, message_id, contact_id, body FROM events`)
	for i := range all {
		one := &all[i]
		c.events[one.ID.String()] = one
		if !one.MessageID.IsZero() {
			c.about[one.MessageID] = append(c.about[one.MessageID], one)
		}
		for _, mark := range marksIn(one.Body) {
			c.marked[mark] = append(c.marked[mark], one)
		}
	}
	return err
}

type delivery struct {
	OrgID          orgs.ID
	ID             webhooks.DeliveryID
	SubscriptionID webhooks.SubscriptionID
	EventID        events.ID
	Replay         bool
}

func (c *checker) readDeliveries(ctx context.Context, db database) error {
	all, err := rowsOf[delivery](ctx, db,
		`SELECT org_id, id, subscription_id, event_id, replayed_from IS NOT NULL AS replay FROM webhook_deliveries`)
	for _, one := range all {
		c.deliveries[one.ID.String()] = one
	}
	return err
}

type keyUse struct {
	OrgID orgs.ID
	Key   string
	Times int
}

func (c *checker) readKeys(ctx context.Context, db database) error {
	repeated, err := rowsOf[keyUse](ctx, db,
		`SELECT org_id, key, count(*) AS times FROM idempotency_keys GROUP BY org_id, key HAVING count(*) > 1`)
	for _, one := range repeated {
		c.violated(Once, "the key %q of %s keeps %d answers", one.Key, one.OrgID, one.Times)
	}
	return err
}
