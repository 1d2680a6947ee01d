package messages

import (
	"testing"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

func TestMessages_FewExpected_EachIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	pgtest.RequireByKey(t, `
WITH said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source)
    SELECT gen_random_uuid(), ulid('2026-03-14'), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'inbound', 'text', 'phone'
    FROM generate_series(1, 10000)
    RETURNING org_id, id
), named AS (
    INSERT INTO provider_messages (org_id, provider_id, message_id) SELECT org_id, id::text, id FROM said
), erased AS (
    INSERT INTO erased_messages (org_id, hash, erased_at) SELECT org_id, sha256(id::text::bytea), '2026-03-14' FROM said
)
INSERT INTO message_states (org_id, id, status) SELECT org_id, id, 'read' FROM said`,
		map[string]string{
			"lock": sqlLockStates, "of": sqlMessagesOf, "begin": sqlBegin, "write": sqlWriteBook, "arrived": sqlArrivedIDs,
			"places": sqlPlacesOf, "people": sqlPeople, "read": sqlMarkRead, "unread": sqlCountUnread,
		})
}
