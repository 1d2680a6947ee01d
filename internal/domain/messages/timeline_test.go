package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/provider"
)

func (s *fixture) story(t *testing.T, of messages.Message) []messages.Attempt {
	t.Helper()
	story, err := s.Messages.Story(t.Context(), s.org, s.account, of.ID)
	require.NoError(t, err)
	return story.Attempts
}

// TestStory_EveryAttempt_HasItsTimes: an attempt that fails, one without a result and the resend of that, which succeeds. Calls take a second
// each.
func TestStory_EveryAttempt_HasItsTimes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	answers := []func(provider.Outbound) (provider.Accepted, error){refuses(s.failure(t, 131016)), refuses(ambiguous()), accepted}
	s.net.answers(func(out provider.Outbound) (provider.Accepted, error) {
		s.Clock.Move(time.Second)
		return answers[len(s.net.calls(out.To))-1](out)
	})
	began := s.Clock.Now()
	made := s.send(t, "+351910000001")
	s.awaitCalls(t, made, 1)
	s.Pass(t, 70*time.Second) // the first retry is after a minute, give or take a tenth
	s.awaitCalls(t, made, 2)
	s.Pass(t, echoWait)
	s.awaitStatus(t, made, messages.Sent)
	s.push(t, s.status(idOf(made, 3), provider.StatusDelivered, referenceOf(made, 3)))

	attempts := s.story(t, made)
	require.Len(t, attempts, 3)
	for i, want := range []struct {
		outcome messages.AttemptOutcome
		after   time.Duration
		resend  bool
	}{
		{messages.AttemptFailed, 0, false},
		{messages.AttemptUnknown, 71 * time.Second, false},
		{messages.AttemptSent, 72*time.Second + echoWait, true},
	} {
		a := attempts[i]
		require.Equal(t, want.outcome, a.Outcome)
		require.Equal(t, i+1, a.Attempt)
		require.Equal(t, want.after, a.BegunAt.Sub(began), "attempt %d", i+1)
		require.Equal(t, time.Second, a.EndedAt.Sub(a.BegunAt), "attempt %d", i+1)
		require.Equal(t, want.resend, a.Resend)
	}
	require.Equal(t, 131016, *attempts[0].ProviderCode)
	require.Equal(t, attempts[2].BegunAt, *attempts[1].WaitedUntil)
}

// TestStory_CallbackBeforeTheAnswer_KeepsBoth: the callback proves the attempt, and the answer still gets its time.
func TestStory_CallbackBeforeTheAnswer_KeepsBoth(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var made messages.Message
	sent, pushed := make(chan struct{}), make(chan struct{})
	s.net.answers(func(out provider.Outbound) (provider.Accepted, error) {
		close(sent)
		<-pushed
		return accepted(out)
	})
	made = s.send(t, "+351910000001")
	s.await(t, "the call", func() bool {
		select {
		case <-sent:
			return true
		default:
			return false
		}
	})
	require.Equal(t, messages.AttemptUnderWay, s.story(t, made)[0].Outcome)
	s.push(t, s.status(idOf(made, 1), provider.StatusDelivered, referenceOf(made, 1)))
	require.Equal(t, messages.AttemptUnknown, s.story(t, made)[0].Outcome, "the answer is still missing")
	close(pushed)
	s.await(t, "the answer", func() bool { return s.story(t, made)[0].Outcome == messages.AttemptSent })
	require.NotNil(t, s.story(t, made)[0].EndedAt)
}
