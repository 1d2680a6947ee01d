package messages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
)

// TestDispatch_MoreNumbersThanConnections_AllSent: a begin must not need a second connection while it
// holds one. Begins of more numbers than the pool has connections would wait for each other.
func TestDispatch_MoreNumbersThanConnections_AllSent(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.net.answers(refuses(ambiguous()))
	const numbers = 20 // the pool of a test has 12 connections
	senders, made := make([]fixture, numbers), make([]messages.Message, numbers)
	for i := range numbers {
		senders[i] = *s
		senders[i].account = s.Account(t, s.org)
		made[i] = senders[i].send(t, "+351910000001")
	}
	s.Work(t)
	for i := range numbers {
		s.await(t, "the first attempt", func() bool {
			s.Clock.Move(tick) // a lane that finds all workers busy is woken again after 50 ms
			return len(senders[i].attempts(t, made[i])) == 1
		})
	}
	s.net.answers(nil)
	s.Pass(t, echoWait) // all of them are sent again at once
	for i := range numbers {
		s.await(t, "the second attempt", func() bool {
			s.Clock.Move(tick)
			return senders[i].get(t, made[i]).Status == messages.Sent
		})
	}
	require.Len(t, s.net.calls("+351910000001"), 2*numbers)
}
