package cell_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// Events and deliveries about a deleted contact go with it, also those under the id of a contact that was merged into it.
// Those of others stay.
func TestErase_Contact_EventsAndDeliveriesGone(t *testing.T) {
	t.Parallel()
	w := factory.New(t)
	ctx := t.Context()
	org, _ := w.Org(t)
	account := w.Account(t, org)
	gone, alias, other := w.Contact(t, org, account), w.Contact(t, org, account), w.Contact(t, org, account)
	in := func(work func(tx *postgres.Tx) error) {
		_, err := postgres.InTx(ctx, w.DB, org, func(tx *postgres.Tx) (struct{}, error) { return struct{}{}, work(tx) })
		require.NoError(t, err)
	}
	about := map[contacts.ID]int{gone.ID: postgres.Portion + 20, alias.ID: 3, other.ID: 5}
	for contact, count := range about {
		in(func(tx *postgres.Tx) error {
			drafts := make([]events.Draft, count-1) // there is one already: contact.created
			for i := range drafts {
				drafts[i] = events.Draft{Type: events.ContactUpdated, Contact: contact.Any(), Data: map[string]any{}}
			}
			return w.Events.RecordTx(ctx, tx, drafts...)
		})
	}
	in(func(tx *postgres.Tx) error { // merged long ago
		_, err := tx.Exec(ctx, `UPDATE contacts SET departure = 'joined', joined_into = @into WHERE org_id = @org_id AND id = @id`,
			postgres.Args{"into": gone.ID, "id": alias.ID})
		return err
	})
	in(func(tx *postgres.Tx) error { // one delivery of each event, with an attempt
		_, err := tx.Exec(ctx, `-- locks: own rows
WITH made AS (
    INSERT INTO webhook_deliveries (org_id, id, subscription_id, event_id, event_key, event_type, status)
    SELECT @org_id, id, id, id, key, type, 'dead' FROM events WHERE org_id = @org_id RETURNING id
)
INSERT INTO webhook_attempts (org_id, id, delivery_id, attempt, duration_ms) SELECT @org_id, id, id, 1, 1 FROM made`, nil)
		return err
	})
	count := func(table string) int {
		rows, err := postgres.One[int](ctx, w.DB.Of(org), `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, nil)
		require.NoError(t, err)
		return rows
	}
	require.Equal(t, postgres.Portion+28, count("events"))
	_, err := w.Contacts.Delete(ctx, org, account, gone.ID)
	require.NoError(t, err)
	w.Work(t)
	require.Eventually(t, func() bool { return count("contacts") == 1 }, 3*time.Minute, 10*time.Millisecond)
	for _, table := range []string{"events", "webhook_deliveries", "webhook_attempts"} {
		require.Equal(t, about[other.ID], count(table), table)
	}
}
