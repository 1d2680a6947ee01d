package messages_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// breaks makes the database refuse each change of a message to a status.
func (s *fixture) breaks(t *testing.T, of messages.Message, status messages.Status) (repair func()) {
	t.Helper()
	s.execSystem(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken row'; END $$`, nil)
	s.execSystem(t, fmt.Sprintf(`CREATE TRIGGER broken BEFORE UPDATE ON message_states
FOR EACH ROW WHEN (NEW.id = '%s' AND NEW.status = '%s') EXECUTE FUNCTION broken()`, of.ID.Any(), status), nil)
	return func() { s.execSystem(t, `DROP TRIGGER broken ON message_states`, nil) }
}

// eventually is await, but faults of lanes are expected.
func (s *fixture) eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(tick) {
		require.True(t, time.Now().Before(deadline), what)
		s.Wake(t)
	}
}

// TestSetAside_BeginFails_FailedOthersGoOn: after the third fault the message fails, and what was
// queued with it was sent.
func TestSetAside_BeginFails_FailedOthersGoOn(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	bad := s.sendDraft(t, messages.Draft{To: "+351910000001", ClientReference: "order 7"})
	good := []messages.Message{s.send(t, "+351910000002"), s.send(t, "+351910000001"), s.send(t, "+351910000003")}
	s.breaks(t, bad, messages.Pending)
	s.Work(t)
	for i, wait := range []time.Duration{5 * time.Second, 20 * time.Second} {
		s.eventually(t, "a fault is counted", func() bool {
			return s.count(t, `SELECT coalesce(max(times), 0) FROM lane_faults WHERE id = @id`, postgres.Args{"id": bad.ID}) == i+1
		})
		require.Equal(t, messages.Queued, s.get(t, bad).Status)
		s.Pass(t, wait+time.Second)
	}
	s.eventually(t, "it is set aside", func() bool { return s.get(t, bad).Status == messages.Failed })
	failed := s.get(t, bad)
	require.Equal(t, fault.InternalError, *failed.ErrorCode)
	require.True(t, failed.Synthesized)
	require.Nil(t, failed.ProviderCode)
	require.Len(t, s.net.calls("+351910000001"), 1, "of the other message to this contact")
	require.Equal(t, []string{"own failed"}, s.told(t, bad))
	for _, one := range s.events(t) {
		if one.Key == bad.ID.String() {
			require.Equal(t, -1, one.status(t).Errors[0].Code)
			require.Equal(t, "order 7", *one.status(t).Reference)
		}
	}
	for _, one := range good {
		s.eventually(t, "the others are sent", func() bool { return s.get(t, one).Status == messages.Sent })
		require.Equal(t, []string{"message.sent"}, s.told(t, one))
	}
	aside, err := s.Lanes.Aside(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, aside, 1)
	require.Equal(t, bad.ID.Any(), aside[0].ID)
}

// TestSetAside_PutBackByOperator_NotSentAgain: the message has failed, so that its row leaves the lane
// without a call.
func TestSetAside_PutBackByOperator_NotSentAgain(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	bad := s.send(t, "+351910000001")
	repair := s.breaks(t, bad, messages.Pending)
	s.Work(t)
	for range 2 {
		s.eventually(t, "a fault is counted", func() bool {
			return s.count(t, `SELECT count(*) FROM lane_rows WHERE id = @id AND due_at > @now`, postgres.Args{"id": bad.ID, "now": s.Clock.Now()}) == 1
		})
		s.Pass(t, 21*time.Second)
	}
	s.eventually(t, "it is set aside", func() bool { return s.get(t, bad).Status == messages.Failed })
	repair()
	_, err := s.Lanes.Retry(t.Context(), bad.ID.Any())
	require.NoError(t, err)
	s.eventually(t, "its row leaves the lane", func() bool {
		return s.count(t, `SELECT count(*) FROM lane_rows WHERE id = @id`, postgres.Args{"id": bad.ID}) == 0
	})
	require.Equal(t, messages.Failed, s.get(t, bad).Status)
	require.Empty(t, s.net.calls("+351910000001"))
	require.Equal(t, []string{"own failed"}, s.told(t, bad))
}

// TestSettle_AnswerCannotBeWritten_WaitsForItsCallback: the provider took the message, so that it must
// not be called again at once.
func TestSettle_AnswerCannotBeWritten_WaitsForItsCallback(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	made := s.send(t, "+351910000001")
	repair := s.breaks(t, made, messages.Sent)
	s.Work(t)
	s.eventually(t, "the attempt is noted as unknown", func() bool { return len(s.attempts(t, made)) == 1 })
	require.Equal(t, []string{"1 unknown"}, s.attempts(t, made))
	require.NotNil(t, s.get(t, made).BegunAt)
	repair()
	s.Pass(t, echoWait-time.Second)
	s.barrier(t)
	require.Len(t, s.net.calls("+351910000001"), 1)
	s.push(t, s.status(idOf(made, 1), provider.StatusDelivered, referenceOf(made, 1)))
	s.Pass(t, time.Second)
	s.awaitStatus(t, made, messages.Delivered)
	require.Len(t, s.net.calls("+351910000001"), 1)
	require.Equal(t, []string{"delivered", "message.sent"}, s.told(t, made))
}

// TestPostponed_BeginTookTooLong_CalledOnceByTheNextAttempt: a row may be called only within 5 s of its
// take. The begin here waits longer than that for the lock of a message.
func TestPostponed_BeginTookTooLong_CalledOnceByTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	made := s.send(t, "+351910000001")
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, `SELECT FROM message_states WHERE org_id = @org_id AND id = @id FOR UPDATE`, postgres.Args{"id": made.ID})
		s.Work(t)
		s.await(t, "the begin waits for the lock", func() bool {
			return s.count(t, `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()`, nil) > 0
		})
		time.Sleep(startWithin + 100*time.Millisecond)
		return err
	}))
	sent := s.awaitStatus(t, made, messages.Sent)
	require.Len(t, s.net.calls("+351910000001"), 1, "the first attempt was begun and not called")
	require.Equal(t, referenceOf(made, 2), s.net.calls("+351910000001")[0].Reference)
	require.Equal(t, idOf(made, 2), *sent.ProviderID)
	require.Nil(t, sent.BegunAt)
	require.False(t, sent.Resent, "nothing left this machine: it did not wait for a callback")
	require.Zero(t, sent.Failures)
	require.Empty(t, s.attempts(t, made))
	require.Equal(t, []string{"message.sent"}, s.told(t, made))
}

// startWithin is how long after its take a row may be called.
const startWithin = 5 * time.Second
