package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// TestDispatch_RefusedBeforeARetry_FailedWithOurReason: the checks are made before each attempt.
func TestDispatch_RefusedBeforeARetry_FailedWithOurReason(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131000)))
	made := s.send(t, "+351910000001")
	s.awaitCalls(t, made, 1)
	s.exec(t, `UPDATE organizations SET suspended_at = now() WHERE org_id = @org_id`, nil)
	s.Pass(t, 67*time.Second)
	failed := s.awaitStatus(t, made, messages.Failed)
	require.Equal(t, fault.OrganizationSuspended, *failed.ErrorCode)
	require.Nil(t, failed.ProviderCode)
	require.Equal(t, []string{"1 failed 131000", "2 not_called"}, s.attempts(t, made))
	require.Len(t, s.net.calls("+351910000001"), 1)
	require.Equal(t, []string{"own failed"}, s.told(t, made))
}

// TestDispatch_RefusedBeforeAResend_FailedAndSuperseded: the first attempt may have been delivered, so
// that a callback takes the failure back.
func TestDispatch_RefusedBeforeAResend_FailedAndSuperseded(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	s.exec(t, `UPDATE accounts SET status = 'disconnected' WHERE org_id = @org_id`, nil)
	s.Pass(t, echoWait)
	failed := s.awaitStatus(t, made, messages.Failed)
	require.Equal(t, fault.UpstreamError, *failed.ErrorCode)
	require.Equal(t, []string{"1 unknown", "2 not_called"}, s.attempts(t, made))
	s.push(t, s.status(idOf(made, 1), provider.StatusDelivered, referenceOf(made, 1)))
	proved := s.get(t, made)
	require.Equal(t, messages.Delivered, proved.Status)
	require.Nil(t, proved.ErrorCode)
	require.Equal(t, []string{"delivered", "message.sent", "own failed"}, s.told(t, made))
}

// TestDispatch_LongCoolDown_OverThenSent: the message that met the limit is retried and fails by it, and
// after the cool-down messages are sent again.
func TestDispatch_LongCoolDown_OverThenSent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(refuses(s.failure(t, 131048)))
	limited := s.send(t, "+351910000001")
	s.awaitCalls(t, limited, 1)
	s.net.answers(nil)
	account, err := s.Accounts.Get(t.Context(), s.org, s.account.ID)
	require.NoError(t, err)
	require.Equal(t, s.Clock.Now().Add(time.Hour), account.CooldownUntil.UTC())
	s.Pass(t, 17*time.Minute)
	failed := s.awaitStatus(t, limited, messages.Failed)
	require.Equal(t, provider.AccountRateLimited, *failed.ErrorCode)
	require.Equal(t, []string{"1 failed 131048", "2 not_called"}, s.attempts(t, limited))
	require.Equal(t, []string{"own failed"}, s.told(t, limited))
	s.Pass(t, 44*time.Minute)
	s.awaitStatus(t, s.send(t, "+351910000002"), messages.Sent)
}

// TestDispatch_Receipt_NumberDisconnected_Dropped: a receipt has no failure to show, so that it is dropped.
func TestDispatch_Receipt_NumberDisconnected_Dropped(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.received(t, 1)
	_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: "wamid.in.0"})
	require.NoError(t, err)
	s.exec(t, `UPDATE accounts SET status = 'disconnected' WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": s.account.ID})
	s.Work(t)
	s.awaitNoReceipt(t)
	require.Empty(t, s.receipts())
	require.Empty(t, s.events(t))
}
