package callbacks

import (
	"testing"

	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

func TestCallbacks_FewExpected_EachIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	pgtest.RequireByKey(t, `
INSERT INTO callbacks (org_id, id, phone_number_id, generation, body)
SELECT gen_random_uuid(), ulid('2026-03-14'), n::text, 1, ''
FROM generate_series(1, 10000) AS n`,
		map[string]string{"bodies": sqlBodies})
}
