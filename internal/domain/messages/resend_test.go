package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const echoWait = 2 * time.Minute

// unproved makes a message whose only attempt has no known result.
func (s *fixture) unproved(t *testing.T) messages.Message {
	t.Helper()
	s.net.answers(refuses(ambiguous()))
	made := s.send(t, "+351910000001")
	s.awaitCalls(t, made, 1)
	require.Equal(t, messages.Pending, s.get(t, made).Status)
	require.NotNil(t, s.get(t, made).BegunAt)
	s.net.answers(nil)
	return made
}

func TestResend_Ambiguous_OnceAfterEchoWait(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	s.Pass(t, echoWait-time.Second)
	s.barrier(t)
	require.Len(t, s.net.calls("+351910000001"), 1, "the callback may still come")
	s.Pass(t, time.Second)
	sent := s.awaitStatus(t, made, messages.Sent)
	require.Equal(t, idOf(made, 2), *sent.ProviderID)
	require.True(t, sent.Resent)
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, made))
	require.Equal(t, []string{"message.sent"}, s.told(t, made))

	s.push(t, s.status(idOf(made, 1), provider.StatusDelivered, referenceOf(made, 1)))
	both := s.get(t, made)
	require.Equal(t, []string{idOf(made, 1), idOf(made, 2)}, []string{*both.ProviderID, *both.SecondProviderID})
	require.Equal(t, 2, s.providerIDs(t, made))
}

func TestResend_AmbiguousTwice_FailedThenSuperseded(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	s.net.answers(func(provider.Outbound) (provider.Accepted, error) { panic("the call breaks") })
	s.Pass(t, echoWait)
	s.awaitCalls(t, made, 2)
	s.Pass(t, echoWait)
	failed := s.awaitStatus(t, made, messages.Failed)
	require.Equal(t, fault.UpstreamError, *failed.ErrorCode)
	require.True(t, failed.Synthesized)
	require.Len(t, s.net.calls("+351910000001"), 2, "never a third copy")
	require.Equal(t, []string{"1 unknown", "2 unknown"}, s.attempts(t, made))
	require.Equal(t, []string{"own failed"}, s.told(t, made))

	s.push(t, s.status(idOf(made, 2), provider.StatusDelivered, referenceOf(made, 2)))
	proved := s.get(t, made)
	require.Equal(t, messages.Delivered, proved.Status)
	require.Nil(t, proved.ErrorCode)
	require.Equal(t, []string{"delivered", "message.sent", "own failed"}, s.told(t, made))
}

func TestResend_EchoInTime_NoSecondCopy(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	s.push(t, s.status(idOf(made, 1), provider.StatusSent, referenceOf(made, 1)))
	s.Pass(t, echoWait)
	s.awaitStatus(t, made, messages.Sent)
	require.Len(t, s.net.calls("+351910000001"), 1)
	require.Equal(t, []string{"message.sent", "sent"}, s.told(t, made))
}

// TestResend_DrainerDied_WaitsFromTheBegin writes what a drainer leaves that died in a call.
func TestResend_DrainerDied_WaitsFromTheBegin(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	made := s.send(t, "+351910000001")
	s.exec(t, `UPDATE message_states SET status = 'pending', attempt = 1, begun_at = @now WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": made.ID, "now": s.Clock.Now()})
	s.Clock.Move(echoWait - time.Second)
	s.Work(t)
	s.barrier(t)
	require.Empty(t, s.net.calls("+351910000001"))
	s.Pass(t, time.Second)
	s.awaitStatus(t, made, messages.Sent)
	require.Len(t, s.net.calls("+351910000001"), 1)
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, made))
}

func TestResend_CallbackUnapplied_Waits(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	part := callbacks.Part{OrgID: s.org, NumberID: *s.account.PhoneNumberID, Generation: s.account.Generation}
	part.Body = s.body(t, s.status("wamid.other", provider.StatusSent, ""))
	outcomes, err := s.Callbacks.Store(t.Context(), []callbacks.Part{part})
	require.NoError(t, err)
	require.Equal(t, callbacks.Stored, outcomes[0])
	s.exec(t, `UPDATE lanes SET blocked_until = 'infinity' WHERE org_id = @org_id AND kind = 'callbacks'`, nil)
	s.Work(t)
	made := s.unproved(t)
	s.Pass(t, 30*time.Minute)
	s.barrier(t)
	require.Len(t, s.net.calls("+351910000001"), 1, "the unapplied callback may be its proof")
	s.exec(t, `
UPDATE lane_rows SET due_at = @due_at
WHERE lane_id IN (SELECT lane_id FROM lanes WHERE org_id = @org_id AND kind = 'callbacks')`,
		postgres.Args{"due_at": s.Clock.Now().Add(time.Hour)})
	s.Pass(t, time.Minute)
	s.barrier(t)
	require.Len(t, s.net.calls("+351910000001"), 1, "also one that failed and is retried later")
	s.exec(t, `DELETE FROM lane_rows WHERE lane_id IN (SELECT lane_id FROM lanes WHERE org_id = @org_id AND kind = 'callbacks')`, nil)
	s.Pass(t, 5*time.Second)
	s.awaitStatus(t, made, messages.Sent)
	require.Len(t, s.net.calls("+351910000001"), 2)
}

func TestResend_CallbacksDoNotArrive_WaitsAtMostTenMinutes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	for minute := range 12 {
		s.execSystem(t, `INSERT INTO send_minutes (minute, accepted, called_back) VALUES (@minute, 5, 2)`,
			postgres.Args{"minute": s.Clock.Now().Truncate(time.Minute).Add(time.Duration(minute-4) * time.Minute)})
	}
	s.Pass(t, echoWait+time.Second)
	s.barrier(t)
	s.Pass(t, 7*time.Minute)
	s.barrier(t)
	require.Len(t, s.net.calls("+351910000001"), 1)
	s.Pass(t, time.Minute)
	s.awaitStatus(t, made, messages.Sent)
	require.Len(t, s.net.calls("+351910000001"), 2)
}

func TestResend_MostCallbacksArrive_NoLongerWait(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	s.execSystem(t, `INSERT INTO send_minutes (minute, accepted, called_back) VALUES (@minute, 6, 3)`,
		postgres.Args{"minute": s.Clock.Now().Truncate(time.Minute)})
	s.Pass(t, echoWait)
	s.awaitStatus(t, made, messages.Sent)
	require.Len(t, s.net.calls("+351910000001"), 2)
}
