package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// A process that stood still learns its result after another process has taken its lane over. It must
// not write the result: the new owner may have begun the next attempt.
func TestSettle_LaneTakenOver_ResultIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	called, proceed := make(chan struct{}), make(chan struct{})
	failure := s.failure(t, 131000)
	s.net.answers(func(provider.Outbound) (provider.Accepted, error) {
		close(called)
		<-proceed
		return provider.Accepted{}, failure
	})
	made := s.send(t, "+351910000001")
	select {
	case <-called:
	case <-time.After(patience):
		require.FailNow(t, "no call was made")
	}
	s.exec(t, `UPDATE lanes SET token = token + 1000000 WHERE org_id = @org_id AND lane_id = @lane`, postgres.Args{"lane": s.account.ID})
	close(proceed)
	time.Sleep(3 * time.Second) // results are settled after 50 ms
	left := s.get(t, made)
	require.Equal(t, messages.Pending, left.Status)
	require.NotNil(t, left.BegunAt, "the attempt is still open")
	require.Zero(t, left.Failures)
	require.Empty(t, s.attempts(t, made))
}
