package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

// deliveredWithin is how long after the last kill all deliveries have succeeded.
const deliveredWithin = 2 * time.Minute

// TestWebhooks_ProcessesKilled_NoDeliveryIsLost kills processes, one after another, while customers
// change. Some answers of the endpoints are lost as well.
func TestWebhooks_ProcessesKilled_NoDeliveryIsLost(t *testing.T) {
	t.Parallel()
	events, kills := sized(600, 20_000), sized(3, 20)
	both := []string{"customer.created", "customer.updated"}
	f := newWebhookFixture(t, 4, [][]string{both, {"customer.updated"}, {"customer.created"}, {"message.received", "customer.archived"}})
	f.receiver.Answer(func(one receiver.Request) receiver.Answer {
		return receiver.Answer{Close: one.Attempt() == 1 && oneIn(100, one.DeliveryID())}
	})
	began := time.Now()
	published := f.publish(t.Context(), events, nil)
	for kill := range kills {
		f.awaitChanges(t, (kill+1)*events/(kills+1), deliveredWithin)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		victim := f.servers[rand.IntN(len(f.servers))]
		victim.Kill()
		f.restart(t, victim)
	}
	require.NoError(t, published())
	took := time.Since(began)
	rest := f.awaitDelivered(t, deliveredWithin)

	found := truth.Require(t, f.run())
	requests := f.receiver.Requests()
	requireOrder(t, requests)
	require.Equal(t, events, found.Events)
	require.Equal(t, 2*events, found.Deliveries)
	t.Logf("%d events in %.0f s (%s), %d kills; all delivered %.1f s later: 0 of %d deliveries missing, %d repeated",
		events, took.Seconds(), rateOf(events, took), kills, rest.Seconds(), found.Deliveries, repeats(requests))
}
