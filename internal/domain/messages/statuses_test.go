package messages_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
)

func (s *fixture) providerIDs(t *testing.T, of messages.Message) int {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM provider_messages WHERE org_id = @org_id AND message_id = @id`, postgres.Args{"id": of.ID})
}

func (s *fixture) parked(t *testing.T) int {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM parked_statuses WHERE org_id = @org_id`, nil)
}

func TestSend_Accepted_SentOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.sendDraft(t, messages.Draft{To: "+351910000001", ClientReference: "order 7"})
	sent := s.awaitStatus(t, made, messages.Sent)
	require.Equal(t, idOf(made, 1), *sent.ProviderID)
	require.Equal(t, s.Clock.Now(), sent.SentAt.UTC())
	require.Nil(t, sent.BegunAt)
	require.Equal(t, 1, sent.Attempt)
	require.Equal(t, 1, s.providerIDs(t, made))
	require.Equal(t, []string{"message.sent"}, s.told(t, made))
	require.Empty(t, s.attempts(t, made))
	calls := s.net.calls("+351910000001")
	require.Len(t, calls, 1)
	require.Equal(t, referenceOf(made, 1), calls[0].Reference)
	require.JSONEq(t, `{"body":"Hello"}`, string(calls[0].Content))
}

func TestStatuses_ByReferenceAndByID_OncePerStatus(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.sendDraft(t, messages.Draft{To: "+351910000001", ClientReference: "order 7"})
	s.awaitStatus(t, made, messages.Sent)
	id := idOf(made, 1)
	s.push(t, s.status(id, provider.StatusSent, referenceOf(made, 1)))
	require.Equal(t, messages.Sent, s.get(t, made).Status)
	s.push(t, s.status(id, provider.StatusRead, ""), s.status(id, provider.StatusDelivered, referenceOf(made, 1)))
	require.Equal(t, messages.Read, s.get(t, made).Status)
	s.push(t, s.status(id, provider.StatusDelivered, ""), s.status(id, provider.StatusRead, referenceOf(made, 1)))
	read := s.get(t, made)
	require.Equal(t, messages.Read, read.Status)
	require.NotNil(t, read.DeliveredAt)
	require.NotNil(t, read.ReadAt)
	require.Equal(t, []string{"delivered", "message.sent", "read", "sent"}, s.told(t, made))
	for _, one := range s.events(t) {
		if one.Type == "message.status" {
			require.Equal(t, "order 7", *one.status(t).Reference)
		}
	}
}

func TestStatuses_FailedCallback_ErrorAndOneEvent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.send(t, "+351910000001")
	s.awaitStatus(t, made, messages.Sent)
	failed := s.status(idOf(made, 1), provider.StatusFailed, referenceOf(made, 1), errorsOf(131047))
	s.push(t, failed, failed)
	s.push(t, failed)
	found := s.get(t, made)
	require.Equal(t, messages.Failed, found.Status)
	require.Equal(t, provider.OutsideWindow, *found.ErrorCode)
	require.Equal(t, 131047, *found.ProviderCode)
	require.False(t, found.Synthesized)
	require.Equal(t, []string{"failed", "message.sent"}, s.told(t, made))
}

func TestStatuses_FailedWithoutCode_NumberStaysConnected(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for i, errors := range []any{[]any{map[string]any{"title": "x"}}, []any{map[string]any{}}, []any{map[string]any{"code": "abc"}}} {
		made := s.send(t, fmt.Sprintf("+35191000000%d", i))
		s.awaitStatus(t, made, messages.Sent)
		s.push(t, s.status(idOf(made, 1), provider.StatusFailed, referenceOf(made, 1), map[string]any{"errors": errors}))
		found := s.get(t, made)
		require.Equal(t, fault.UpstreamError, *found.ErrorCode)
		require.Nil(t, found.ProviderCode)
	}
	account, err := s.Accounts.Get(t.Context(), s.org, s.account.ID)
	require.NoError(t, err)
	require.Equal(t, accounts.Connected, account.Status)
}

// TestStatuses_FailedBeforeRegistration_NumberStaysConnected repeats a callback that asked for a registration after that was made.
func TestStatuses_FailedBeforeRegistration_NumberStaysConnected(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.account = s.networkAccount(t, s.org)
	s.Network.Number(t, s.account.BusinessAccountID, *s.account.PhoneNumberID, map[string]any{"pin": canary.PIN})
	status := func() accounts.Status {
		account, err := s.Accounts.Get(t.Context(), s.org, s.account.ID)
		require.NoError(t, err)
		return account.Status
	}
	unregistered := func(id string) map[string]any {
		s.Clock.Move(time.Minute)
		return s.status(id, provider.StatusFailed, "", errorsOf(133010))
	}
	first := unregistered("wamid.1")
	s.push(t, first)
	require.Equal(t, accounts.Degraded, status())
	s.Clock.Move(time.Minute)
	done, err := s.Accounts.Register(t.Context(), s.org, *s.account.PhoneNumberID, provider.NewPIN(canary.PIN))
	require.NoError(t, err)
	require.Nil(t, done.Refusal)
	require.Equal(t, accounts.Connected, status())

	s.push(t, first)
	require.Equal(t, accounts.Connected, status(), "the callback is older than the registration")
	s.push(t, unregistered("wamid.2"), first)
	require.Equal(t, accounts.Degraded, status(), "of the failures of a batch the newest counts")
}

func TestStatuses_OfAReceivedMessage_Ignored(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Hello"))
	s.push(t, s.status("wamid.1", provider.StatusFailed, "", errorsOf(131026)))
	require.Equal(t, messages.Delivered, s.byID(t, "wamid.1").Status)
	require.Zero(t, s.countEvents(t, "message.status"))
}

// TestStatuses_BeforeTheAnswer_Settled applies callbacks while the call is still under way.
func TestStatuses_BeforeTheAnswer_Settled(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	called, answered := make(chan struct{}), make(chan struct{})
	s.net.answers(func(out provider.Outbound) (provider.Accepted, error) {
		close(called)
		<-answered
		return accepted(out)
	})
	made := s.send(t, "+351910000001")
	<-called
	s.push(t, s.status(idOf(made, 1), provider.StatusDelivered, referenceOf(made, 1)))
	require.Equal(t, messages.Delivered, s.get(t, made).Status)
	close(answered)
	found := s.awaitStatus(t, made, messages.Delivered)
	require.Equal(t, idOf(made, 1), *found.ProviderID)
	require.Nil(t, found.SecondProviderID)
	require.Equal(t, []string{"delivered", "message.sent"}, s.told(t, made))
	require.NoError(t, s.Messages.FlushMinutes(t.Context()))
	require.Equal(t, 1, s.count(t, `SELECT sum(accepted)::int FROM send_minutes`, nil))
	require.Equal(t, 1, s.count(t, `SELECT sum(called_back)::int FROM send_minutes`, nil), "its callback counts, although it came first")
}

func TestStatuses_UnknownMessage_ParkedAndAdopted(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.net.answers(func(provider.Outbound) (provider.Accepted, error) {
		return provider.Accepted{MessageID: "wamid.early"}, nil
	})
	s.push(t, s.status("wamid.early", provider.StatusDelivered, ""), s.status("wamid.early", provider.StatusSent, ""))
	s.push(t, s.status("wamid.other", provider.StatusSent, ""))
	require.Equal(t, 3, s.parked(t))
	require.Empty(t, s.events(t))
	made := s.send(t, "+351910000001")
	found := s.awaitStatus(t, made, messages.Delivered)
	require.Equal(t, "wamid.early", *found.ProviderID)
	require.Equal(t, 1, s.parked(t), "that of the other message")
	require.Len(t, s.events(t), 3, "message.sent and two statuses")
	s.push(t, s.status("wamid.early", provider.StatusSent, ""))
	require.Len(t, s.events(t), 3)
}

func TestStatuses_NeverKnown_ReleasedWithoutMessage(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	gone := s.send(t, "+351910000001")
	s.exec(t, `DELETE FROM message_states WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": gone.ID})
	s.push(t, s.status("wamid.app", provider.StatusRead, ""), s.status("wamid.gone", provider.StatusSent, referenceOf(gone, 1)))
	s.Clock.Move(15*time.Minute - time.Millisecond)
	released, err := s.Messages.ReleaseParked(t.Context())
	require.NoError(t, err)
	require.Zero(t, released)
	s.Clock.Move(time.Millisecond)
	released, err = s.Messages.ReleaseParked(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, released)
	require.Zero(t, s.parked(t))
	told := s.events(t) // it checks that no event has our reference
	require.Len(t, told, 2)
	require.Equal(t, []string{"wamid.app", "wamid.gone"}, []string{told[0].Key, told[1].Key})
	require.Equal(t, "read", told[0].status(t).Status)
	require.Nil(t, told[1].status(t).Reference)
	released, err = s.Messages.ReleaseParked(t.Context())
	require.NoError(t, err)
	require.Zero(t, released)
}

// A status that the specification does not know has no event, with its message or without.
func TestStatuses_OtherWords_NoEvent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.send(t, "+351910000001")
	s.awaitStatus(t, made, messages.Sent)
	s.push(t, s.status("wamid.unknown", "deleted", ""), s.status(*s.get(t, made).ProviderID, "deleted", ""))
	require.Zero(t, s.parked(t), "nothing waits for its message, to be announced without it")
	require.Equal(t, messages.Sent, s.get(t, made).Status)
	require.Zero(t, s.countEvents(t, "message.status"))
}

// TestStatuses_ReferenceOfAnotherNumber_ChangesNothing pushes a status of a number with the
// references of messages of another number, and of another organization.
func TestStatuses_ReferenceOfAnotherNumber_ChangesNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	sibling, stranger := *s, s.beside(t)
	sibling.account = s.Account(t, s.org)
	for _, of := range []*fixture{&sibling, stranger} {
		made := of.send(t, "+351910000001")
		before := of.awaitStatus(t, made, messages.Sent)
		s.push(t,
			s.status("wamid.forged", provider.StatusFailed, referenceOf(made, 1), errorsOf(131050)),
			s.status("wamid.forged", provider.StatusRead, referenceOf(made, 1)))
		require.Equal(t, before, of.get(t, made))
		require.Equal(t, []string{"message.sent"}, of.told(t, made))
		contact, err := s.Contacts.Get(t.Context(), of.org, of.account, made.ContactID)
		require.NoError(t, err)
		require.NotEqual(t, "opted_out", string(contact.Marketing))
	}
	require.Equal(t, 2, s.parked(t), "failed and read, each once")
	s.Clock.Move(16 * time.Minute)
	_, err := s.Messages.ReleaseParked(t.Context())
	require.NoError(t, err)
	require.Len(t, s.events(t), 3, "of the sibling, and the two")
}

func TestStatuses_UnknownNumberOrStatus_Ignored(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.send(t, "+351910000001")
	s.awaitStatus(t, made, messages.Sent)
	s.push(t, s.status(idOf(made, 1), "deleted", referenceOf(made, 1)))
	require.Equal(t, messages.Sent, s.get(t, made).Status)
	require.Equal(t, []string{"message.sent"}, s.told(t, made))
	gone := *s
	gone.account.PhoneNumberID = new("1999")
	gone.push(t, s.status(idOf(made, 1), provider.StatusRead, referenceOf(made, 1)))
	require.Equal(t, messages.Sent, s.get(t, made).Status)
}

func TestGet_OfAnotherNumber_NotFound(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	made := s.send(t, "+351910000001")
	_, err := s.Messages.Get(t.Context(), s.org, s.Account(t, s.org), made.ID)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	other := s.beside(t)
	_, err = s.Messages.Get(t.Context(), other.org, s.account, made.ID)
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
}
