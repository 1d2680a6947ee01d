package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

// silentWithin is how long after the last disaster everything is delivered.
const silentWithin = 2 * time.Minute

// TestWebhooks_LoseNothingInCrashes kills process after process while customers change.
// Some answers of the endpoints die on their way too.
func TestWebhooks_LoseNothingInCrashes(t *testing.T) {
	t.Parallel()
	events, kills := sized(600, 20_000), sized(3, 20)
	both := []string{"customer.created", "customer.updated"}
	v := newVillage(t, 4, [][]string{both, {"customer.updated"}, {"customer.created"}, {"message.received", "customer.archived"}})
	v.receiver.Answer(func(one receiver.Request) receiver.Answer {
		return receiver.Answer{Close: one.Attempt() == 1 && oneIn(100, one.DeliveryID())}
	})
	began := time.Now()
	published := v.publish(t.Context(), events, nil)
	for kill := range kills {
		v.awaitChanges(t, (kill+1)*events/(kills+1), silentWithin)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		victim := v.servers[rand.IntN(len(v.servers))]
		victim.Kill()
		v.restart(t, victim)
	}
	require.NoError(t, published())
	took := time.Since(began)
	silence := v.awaitSilence(t, silentWithin)

	found := truth.Require(t, v.run())
	requests := v.receiver.Requests()
	requireOrder(t, requests)
	require.Equal(t, events, found.Events)
	require.Equal(t, 2*events, found.Deliveries)
	t.Logf("%d events in %.0f s (%s), %d kills; all delivered %.1f s later: 0 of %d deliveries missing, %d repeated",
		events, took.Seconds(), rateOf(events, took), kills, silence.Seconds(), found.Deliveries, repeats(requests))
}
