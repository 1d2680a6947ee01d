package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

type anyKind struct{}

func (anyKind) Prefix() string { return "any_" }

// parkByHand parks a status as a transaction does that does not see the one with the message's id.
func (s *fixture) parkByHand(t *testing.T, id string, status map[string]any) {
	t.Helper()
	s.exec(t, `
INSERT INTO parked_statuses (org_id, provider_id, status, id, account_id, body, due_at)
VALUES (@org_id, @provider_id, @status, @id, @account_id, @body, @due_at)`, postgres.Args{
		"provider_id": id, "status": status["status"], "id": ids.New[anyKind](s.Clock.Now()), "account_id": s.account.ID, "body": s.body(t, status),
		"due_at": s.Clock.Now().Add(20 * time.Second),
	})
}

func (s *fixture) release(t *testing.T) int {
	t.Helper()
	released, err := s.Messages.ReleaseParked(t.Context())
	require.NoError(t, err)
	return released
}

func TestParked_CommittedBesideItsID_AppliedAtTheFirstLook(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.send(t, "+351910000001")
	s.awaitStatus(t, made, messages.Sent)
	s.parkByHand(t, idOf(made, 1), s.status(idOf(made, 1), provider.StatusDelivered, ""))
	require.Zero(t, s.release(t))
	s.Clock.Move(20 * time.Second)
	require.Equal(t, 1, s.release(t))
	require.Equal(t, messages.Delivered, s.get(t, made).Status)
	require.Equal(t, []string{"delivered", "message.sent"}, s.told(t, made))
	require.Zero(t, s.parked(t))
}

func TestParked_UnknownAtTheFirstLook_WaitsOn(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.push(t, s.status("wamid.app", provider.StatusRead, ""))
	for range 3 {
		s.Clock.Move(4 * time.Minute)
		require.Zero(t, s.release(t))
		require.Equal(t, 1, s.parked(t))
	}
	s.Clock.Move(3 * time.Minute)
	require.Equal(t, 1, s.release(t))
	require.Len(t, s.events(t), 1)
}

// TestParked_TakenMeanwhile_NotAnnounced has ReleaseParked wait for a transaction that takes its row.
func TestParked_TakenMeanwhile_NotAnnounced(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.push(t, s.status("wamid.app", provider.StatusRead, ""))
	s.Clock.Move(15 * time.Minute)
	released := make(chan int, 1)
	_, err := postgres.InTx(t.Context(), s.DB, s.org, func(tx *postgres.Tx) (struct{}, error) {
		if _, err := tx.Exec(t.Context(), `DELETE FROM parked_statuses WHERE org_id = @org_id`, nil); err != nil {
			return struct{}{}, err
		}
		go func() {
			count, err := s.Messages.ReleaseParked(t.Context())
			if err != nil {
				count = -1
			}
			released <- count
		}()
		require.Eventually(t, func() bool {
			return s.count(t, `
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil) > 0
		}, 3*time.Minute, time.Millisecond)
		return struct{}{}, nil
	})
	require.NoError(t, err)
	require.Zero(t, <-released)
	require.Empty(t, s.events(t))
}

// TestParked_UnreadableBody_GivenUp parks what cannot be parsed beside a good status.
func TestParked_UnreadableBody_GivenUp(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.send(t, "+351910000001")
	s.awaitStatus(t, made, messages.Sent)
	s.parkByHand(t, "wamid.bad", s.status("wamid.bad", provider.StatusRead, ""))
	s.exec(t, `UPDATE parked_statuses SET body = 'x' WHERE org_id = @org_id`, nil)
	s.parkByHand(t, idOf(made, 1), s.status(idOf(made, 1), provider.StatusDelivered, ""))
	s.Clock.Move(20 * time.Second)
	require.Equal(t, 1, s.release(t))
	require.Equal(t, messages.Delivered, s.get(t, made).Status)
	require.Zero(t, s.parked(t))
}

func TestStatuses_ForeignReferenceOwnID_Applied(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	sibling := *s
	sibling.account = s.Account(t, s.org)
	foreign := sibling.send(t, "+351910000001")
	made := s.send(t, "+351910000002")
	before := sibling.awaitStatus(t, foreign, messages.Sent)
	s.awaitStatus(t, made, messages.Sent)
	s.push(t, s.status(idOf(made, 1), provider.StatusDelivered, referenceOf(foreign, 1)))
	require.Equal(t, messages.Delivered, s.get(t, made).Status)
	require.Equal(t, before, sibling.get(t, foreign))
	require.Zero(t, s.parked(t))
}

func TestStatuses_IDLearnedInTheSameBatch_Applied(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(ambiguous()))
	made := s.send(t, "+351910000001")
	s.awaitCalls(t, made, 1)
	s.push(t, s.status("wamid.new", provider.StatusRead, ""), s.status("wamid.new", provider.StatusSent, referenceOf(made, 1)))
	require.Equal(t, messages.Read, s.get(t, made).Status)
	require.Zero(t, s.parked(t))
}

func TestParked_SameStatusTwice_AnnouncedOnce(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	delivered := s.status("wamid.app", provider.StatusDelivered, "")
	s.push(t, delivered, delivered)
	s.push(t, delivered, s.status("wamid.app", provider.StatusRead, ""))
	require.Equal(t, 2, s.parked(t))
	s.Clock.Move(15 * time.Minute)
	require.Equal(t, 2, s.release(t))
	require.Len(t, s.events(t), 2)
}

// TestStatuses_UnusableValues_TimeOfReceiptAndNoCode pushes a time and a code that no column takes.
func TestStatuses_UnusableValues_TimeOfReceiptAndNoCode(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.send(t, "+351910000001")
	sent := s.awaitStatus(t, made, messages.Sent)
	broken := s.status(idOf(made, 1), provider.StatusDelivered, "", map[string]any{"timestamp": "abc"})
	s.push(t, broken)
	delivered := s.get(t, made)
	require.Equal(t, sent.SentAt, delivered.SentAt)
	require.Equal(t, s.Clock.Now(), delivered.DeliveredAt.UTC())
	s.push(t, s.status(idOf(made, 1), provider.StatusFailed, "", errorsOf(2147483648)))
	failed := s.get(t, made)
	require.Equal(t, messages.Failed, failed.Status)
	require.Nil(t, failed.ProviderCode)
}
