package messages_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// sqlSent makes the queued messages of an organization look as if the provider had taken them, each under
// the number that it went to.
const sqlSent = `
WITH sent AS (
    UPDATE message_states st
    SET status = 'sent', provider_id = 'wamid.' || m.to_number, announced = 1, attempt = 1, sent_at = @now
    FROM messages m
    WHERE st.org_id = @org_id AND m.org_id = @org_id AND m.id = st.id
    RETURNING st.id, st.provider_id
)
INSERT INTO provider_messages (org_id, provider_id, message_id) SELECT @org_id, provider_id, id FROM sent`

// sqlShown is what statuses change of messages, and which events they have.
const sqlShown = `
SELECT concat_ws(' ', st.provider_id, st.status, st.error_code, st.provider_code, st.synthesized,
    st.delivered_at - m.at, st.read_at - m.at, st.played_at - m.at, st.failed_at - m.at)
FROM message_states st, (SELECT @now::timestamptz AS at) AS m
WHERE st.org_id = @org_id
UNION ALL
SELECT concat_ws(' ', key, convert_from(body, 'UTF8')::json #>> '{entry,0,changes,0,value,statuses,0,status}')
FROM events WHERE org_id = @org_id AND type = 'message.status'`

// TestStatuses_AnyOrder_SameRowsAndEvents applies the same callbacks, repeated at random, in other orders and
// other batches to the messages of many organizations: all end with equal rows and equal sets of events.
func TestStatuses_AnyOrder_SameRowsAndEvents(t *testing.T) {
	t.Parallel()
	world := newIdleFixture(t)
	count, orders := proof.Sized(20, 100), proof.Sized(6, 50)
	callbacks := func(s *fixture, random *rand.Rand) (all []map[string]any) {
		for n := range count {
			for _, status := range []string{provider.StatusDelivered, provider.StatusRead, provider.StatusPlayed, provider.StatusFailed, provider.StatusSent} {
				if random.IntN(3) == 0 {
					continue
				}
				more := map[string]any{"timestamp": strconv.FormatInt(s.Clock.Now().Add(time.Duration(random.IntN(60))*time.Second).Unix(), 10)}
				if status == provider.StatusFailed {
					if random.IntN(4) > 0 {
						continue
					}
					more["errors"] = errorsOf(131000 + random.IntN(3))["errors"]
				}
				all = append(all, s.status(fmt.Sprintf("wamid.+3519100%05d", n), status, "", more))
			}
		}
		return all
	}
	var expected []string
	for order := range orders {
		s := world.beside(t)
		for n := range count {
			s.send(t, fmt.Sprintf("+3519100%05d", n))
		}
		s.exec(t, sqlSent, postgres.Args{"now": s.Clock.Now()})
		all := callbacks(s, rand.New(rand.NewPCG(7, 7))) // the same for each
		random := rand.New(rand.NewPCG(uint64(order), 1))
		if order > 0 {
			for range len(all) / 3 {
				all = append(all, all[random.IntN(len(all))])
			}
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		for len(all) > 0 {
			size := min(1+random.IntN(60), len(all))
			s.push(t, all[:size]...)
			all = all[size:]
		}
		shown, err := postgres.Many[string](t.Context(), s.DB.Of(s.org), sqlShown, postgres.Args{"now": s.Clock.Now()})
		require.NoError(t, err)
		slices.Sort(shown)
		if order == 0 {
			expected = shown
			require.Greater(t, len(shown), 2*count)
		}
		require.Equal(t, expected, shown, "order %d", order)
	}
}
