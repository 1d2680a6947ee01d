package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/hold"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// restored is what a restored database has: messages in all states in which they may be unsent, and one that was
// accepted during the hold.
type restored struct {
	*fixture

	held *hold.State
	// queued was never tried, begun has an attempt under way, retried waits for its second try.
	queued, begun, retried, later messages.Message
}

func newRestored(t *testing.T) *restored {
	t.Helper()
	s := &restored{fixture: newIdleFixture(t)}
	s.queued, s.begun, s.retried = s.send(t, "+351910000001"), s.send(t, "+351910000002"), s.send(t, "+351910000003")
	s.exec(t, `UPDATE message_states SET status = 'pending', attempt = 1, begun_at = @now WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": s.begun.ID, "now": s.Clock.Now()})
	s.exec(t, `UPDATE message_states SET status = 'pending', attempt = 1, failures = 1, last_begun_at = @now WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": s.retried.ID, "now": s.Clock.Now()})
	s.execSystem(t, `UPDATE lane_rows SET due_at = @due_at WHERE id = @id`,
		postgres.Args{"id": s.retried.ID, "due_at": s.Clock.Now().Add(3 * time.Hour)})
	s.Clock.Move(time.Hour)
	var err error
	s.held, err = s.Hold.Write(t.Context(), "operator")
	require.NoError(t, err)
	s.Clock.Move(time.Minute)
	s.later = s.send(t, "+351910000004")
	return s
}

// decide is what a release does before it lifts the hold.
func (s *restored) decide(t *testing.T, unsent hold.Unsent) (decided int) {
	t.Helper()
	decided, err := s.Messages.DecideUnsent(t.Context(), s.held, unsent, func(int) {})
	require.NoError(t, err)
	return decided
}

func (s *restored) old() []messages.Message { return []messages.Message{s.queued, s.begun, s.retried} }

func TestDecideUnsent_Wait_FailAfterEchoWaitWithoutACall(t *testing.T) {
	t.Parallel()
	s := newRestored(t)
	require.Equal(t, 3, s.decide(t, hold.Wait), "the one that was accepted during the hold is not in doubt")
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, s.begun), "noted with the time at which it really began")
	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM message_states WHERE org_id = @org_id AND id = @id AND last_begun_at = begun_at`,
		postgres.Args{"id": s.retried.ID}), "the timeline shows the attempt that may have been made, not the one before")
	s.Work(t)
	s.awaitStatus(t, s.later, messages.Sent)
	s.Pass(t, echoWait-time.Second)
	s.barrier(t)
	for _, one := range s.old() {
		require.Equal(t, messages.Pending, s.get(t, one).Status, "its callback may still come")
	}
	s.Pass(t, time.Second)
	for _, one := range s.old() {
		failed := s.awaitStatus(t, one, messages.Failed)
		require.Equal(t, fault.UpstreamError, *failed.ErrorCode)
		require.Contains(t, *failed.ErrorMessage, "It may have been delivered.")
		require.True(t, failed.Synthesized)
		require.Equal(t, []string{"own failed"}, s.told(t, one))
		require.Empty(t, s.net.calls(*one.ToNumber))
	}
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, s.queued))
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, s.begun))
	require.Equal(t, []string{"2 unknown"}, s.attempts(t, s.retried))
	require.Len(t, s.net.calls(*s.later.ToNumber), 1)
}

// TestDecideUnsent_Wait_CallbackProves: a callback names an attempt that this database never began. Later ones than
// the last known attempt are noted, so that the ids of two copies are in their order whichever callback comes first.
func TestDecideUnsent_Wait_CallbackProves(t *testing.T) {
	t.Parallel()
	s := newRestored(t)
	s.push(t, s.status(idOf(s.retried, 3), provider.StatusSent, referenceOf(s.retried, 3)))
	require.Equal(t, messages.Sent, s.get(t, s.retried).Status, "it came during the hold")
	require.Equal(t, 2, s.decide(t, hold.Wait))
	s.push(t, s.status(idOf(s.queued, 1), provider.StatusDelivered, referenceOf(s.queued, 1)))
	s.push(t, s.status(idOf(s.begun, 1), provider.StatusSent, referenceOf(s.begun, 1)))
	s.Work(t)
	s.awaitStatus(t, s.queued, messages.Delivered)
	s.awaitStatus(t, s.begun, messages.Sent)
	sent := s.awaitStatus(t, s.retried, messages.Sent)
	require.Equal(t, 3, sent.Attempt)
	s.push(t, s.status(idOf(s.retried, 2), provider.StatusSent, referenceOf(s.retried, 2)))
	both := s.get(t, s.retried)
	require.Equal(t, []string{idOf(s.retried, 2), idOf(s.retried, 3)}, []string{*both.ProviderID, *both.SecondProviderID})
	s.Pass(t, echoWait)
	s.barrier(t)
	for _, one := range s.old() {
		require.Empty(t, s.net.calls(*one.ToNumber))
		require.Contains(t, s.told(t, one), "message.sent")
		require.NotContains(t, s.told(t, one), "own failed")
	}
}

func TestDecideUnsent_Fail_AtOnceThenSuperseded(t *testing.T) {
	t.Parallel()
	s := newRestored(t)
	require.Equal(t, 3, s.decide(t, hold.Fail))
	for _, one := range s.old() {
		failed := s.get(t, one)
		require.Equal(t, messages.Failed, failed.Status)
		require.Equal(t, fault.UpstreamError, *failed.ErrorCode)
		require.Equal(t, []string{"own failed"}, s.told(t, one))
	}
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, s.queued))
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, s.begun))
	require.Equal(t, []string{"2 unknown"}, s.attempts(t, s.retried))
	s.Work(t)
	s.awaitStatus(t, s.later, messages.Sent)
	for _, one := range s.old() {
		s.awaitStatus(t, one, messages.Failed) // its row left the lane
		require.Empty(t, s.net.calls(*one.ToNumber))
	}
	s.push(t, s.status(idOf(s.queued, 1), provider.StatusDelivered, referenceOf(s.queued, 1)))
	proved := s.get(t, s.queued)
	require.Equal(t, messages.Delivered, proved.Status)
	require.Nil(t, proved.ErrorCode)
}

// TestDecideUnsent_Send_OnlyWithoutAnAttemptUnderWay: the attempt under way may have reached the provider before the
// time of the backup, and its callback may have come after it.
func TestDecideUnsent_Send_OnlyWithoutAnAttemptUnderWay(t *testing.T) {
	t.Parallel()
	s := newRestored(t)
	s.decide(t, hold.Send)
	require.Equal(t, messages.Queued, s.get(t, s.queued).Status)
	s.Work(t)
	sent := s.awaitStatus(t, s.queued, messages.Sent)
	require.Equal(t, idOf(s.queued, 101), *sent.ProviderID, "no reference is used twice")
	require.Equal(t, idOf(s.retried, 102), *s.awaitStatus(t, s.retried, messages.Sent).ProviderID)
	s.push(t, s.status(idOf(s.queued, 1), provider.StatusDelivered, referenceOf(s.queued, 1)))
	both := s.get(t, s.queued)
	require.Equal(t, []string{idOf(s.queued, 1), idOf(s.queued, 101)}, []string{*both.ProviderID, *both.SecondProviderID})
	s.Pass(t, echoWait)
	s.awaitStatus(t, s.begun, messages.Failed)
	require.Empty(t, s.net.calls(*s.begun.ToNumber))
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, s.begun))
}

// TestDecideUnsent_Interrupted_GoesOn: one lane cannot be decided about, so that the release ends in the middle. The
// next one decides the rest, also in another way.
func TestDecideUnsent_Interrupted_GoesOn(t *testing.T) {
	t.Parallel()
	s := newRestored(t)
	other := s.beside(t)
	second := other.send(t, "+351910000009")
	s.held.HeldAt = s.Clock.Now().Add(time.Second)
	repair := s.breaks(t, second, messages.Failed)
	first, err := s.Messages.DecideUnsent(t.Context(), s.held, hold.Fail, func(int) {})
	require.ErrorContains(t, err, "broken row")
	require.Equal(t, messages.Queued, other.get(t, second).Status)
	repair()
	again, err := s.Messages.DecideUnsent(t.Context(), s.held, hold.Wait, func(int) {})
	require.NoError(t, err)
	require.Equal(t, 5, first+again, "each is decided about once: those that failed are not unsent any more")
	require.Equal(t, messages.Pending, other.get(t, second).Status)
	third, err := s.Messages.DecideUnsent(t.Context(), s.held, hold.Fail, func(int) {})
	require.NoError(t, err)
	require.Equal(t, again, third)
	for _, one := range append(s.old(), s.later) {
		require.Equal(t, []string{"own failed"}, s.told(t, one))
	}
	require.Equal(t, messages.Failed, other.get(t, second).Status)
}

// TestDecideUnsent_WaitsForUpload: a message that waited for the upload of its file at the time of the backup may have
// been sent since, like any other.
func TestDecideUnsent_WaitsForUpload(t *testing.T) {
	t.Parallel()
	for _, unsent := range []hold.Unsent{hold.Wait, hold.Fail, hold.Send} {
		t.Run(string(unsent), func(t *testing.T) {
			t.Parallel()
			s := &restored{fixture: newIdleFixture(t)}
			made := s.mustSendFile(t, "+351910000001", s.libraryFile(t, "bill.pdf", pdf))
			s.Clock.Move(time.Hour)
			var err error
			s.held, err = s.Hold.Write(t.Context(), "operator")
			require.NoError(t, err)
			s.decide(t, unsent)
			s.Work(t)
			if unsent == hold.Send {
				sent := s.awaitStatus(t, made, messages.Sent)
				require.Greater(t, sent.Attempt, 100)
				require.Len(t, s.net.calls("+351910000001"), 1)
				return
			}
			s.Pass(t, echoWait)
			failed := s.awaitStatus(t, made, messages.Failed)
			require.Equal(t, fault.UpstreamError, *failed.ErrorCode)
			require.Empty(t, s.net.calls("+351910000001"))
			uploads, _ := s.net.uploadsBefore()
			require.Empty(t, uploads)
		})
	}
}
