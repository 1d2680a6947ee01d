package messages_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

// received stores inbound messages of a conversation, with the provider's ids wamid.in.0 and so on.
func (s *fixture) received(t *testing.T, count int) conversations.Conversation {
	t.Helper()
	conversation := s.Conversation(t, s.org, s.account)
	for i := range count {
		s.Clock.Move(time.Millisecond)
		s.exec(t, `
WITH made AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source)
    VALUES (@org_id, ulid(@now), @account, @conversation, @contact, 'inbound', 'text', 'contact') RETURNING id
), state AS (
    INSERT INTO message_states (org_id, id, status, provider_id) SELECT @org_id, id, 'delivered', @provider_id FROM made
)
INSERT INTO provider_messages (org_id, provider_id, message_id) SELECT @org_id, @provider_id, id FROM made`, postgres.Args{
			"now": s.Clock.Now(), "account": s.account.ID, "conversation": conversation.ID, "contact": conversation.ContactID,
			"provider_id": fmt.Sprintf("wamid.in.%d", i),
		})
	}
	s.exec(t, `UPDATE conversations SET unread_count = @unread WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": conversation.ID, "unread": count})
	return conversation
}

func (s *fixture) receipts() []provider.Receipt {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	return append([]provider.Receipt(nil), s.net.receipts...)
}

func (s *fixture) awaitNoReceipt(t *testing.T) {
	t.Helper()
	s.await(t, "receipts are settled", func() bool {
		return s.count(t, `SELECT count(*) FROM receipts WHERE org_id = @org_id`, nil) == 0
	})
}

func TestMarkRead_EarlierOnesToo_SentAtOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	conversation := s.received(t, 4)
	marked, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: "wamid.in.2", Typing: true})
	require.NoError(t, err)
	require.Equal(t, messages.Read, marked.Status)
	found, err := s.Conversations.Get(t.Context(), s.org, s.account, conversation.ID)
	require.NoError(t, err)
	require.Equal(t, 1, found.UnreadCount)
	require.Equal(t, 3, s.count(t, `SELECT count(*) FROM message_states WHERE org_id = @org_id AND status = 'read'`, nil))
	s.awaitNoReceipt(t)
	require.Equal(t, []provider.Receipt{{MessageID: "wamid.in.2", Typing: true}}, s.receipts())
}

// The conversation counts three messages that have expired since. A receipt in the middle leaves what came after it, and one for
// the last message leaves nothing.
func TestMarkRead_CountHasExpiredMessages_LeavesWhatCameAfter(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	conversation := s.received(t, 4)
	s.exec(t, `UPDATE conversations SET unread_count = unread_count + 3 WHERE org_id = @org_id AND id = @id`,
		postgres.Args{"id": conversation.ID})
	for _, upTo := range []struct {
		message string
		left    int
	}{{"wamid.in.1", 2}, {"wamid.in.3", 0}} {
		_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: upTo.message})
		require.NoError(t, err)
		found, err := s.Conversations.Get(t.Context(), s.org, s.account, conversation.ID)
		require.NoError(t, err)
		require.Equal(t, upTo.left, found.UnreadCount, upTo.message)
	}
	require.Equal(t, 4, s.count(t, `SELECT count(*) FROM message_states WHERE org_id = @org_id AND status = 'read'`, nil))
}

// A receipt looks back a bounded number of messages, because a conversation may have hundreds of thousands.
func TestMarkRead_LongConversation_LooksBackSoFar(t *testing.T) {
	t.Parallel()
	const between = 20_000
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.old", "Hello"), s.said("wamid.like", "reaction", fields{"message_id": "wamid.ours", "emoji": "👍"}))
	old := s.byID(t, "wamid.old")
	s.Clock.Move(time.Second)
	s.exec(t, `
WITH said AS (
    INSERT INTO messages (org_id, id, account_id, conversation_id, contact_id, direction, type, source)
    SELECT @org_id, ulid(@at::timestamptz), @account, @conversation, @contact, 'outbound', 'text', 'api' FROM generate_series(1, @count::int)
    RETURNING org_id, id
)
INSERT INTO message_states (org_id, id, status) SELECT org_id, id, 'sent' FROM said`, postgres.Args{
		"at": s.Clock.Now(), "account": s.account.ID, "conversation": old.ConversationID, "contact": old.ContactID, "count": between,
	})
	s.Clock.Move(time.Second)
	s.receive(t, s.text("wamid.new", "Still there?"))
	_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: "wamid.new"})
	require.NoError(t, err)
	require.Equal(t, messages.Read, s.byID(t, "wamid.new").Status)
	require.Equal(t, 2, s.count(t, `
SELECT count(*) FROM message_states WHERE org_id = @org_id AND provider_id IN ('wamid.old', 'wamid.like') AND status = 'delivered'`, nil))
	require.Zero(t, s.thread(t, old).UnreadCount)
}

// Reactions add no unread, but they are read like other messages: earlier ones of other batches, in the same batch as the answer,
// and one that the receipt is for.
func TestMarkRead_Reactions_BecomeRead(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	like := func(id string) item {
		s.Clock.Move(time.Second)
		return s.said(id, "reaction", fields{"message_id": "wamid.ours", "emoji": "👍"})
	}
	receipt := func(id string) {
		_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: id})
		require.NoError(t, err)
	}
	statuses := func(ids ...string) (all []messages.Status) {
		for _, id := range ids {
			all = append(all, s.byID(t, id).Status)
		}
		return all
	}
	unread := func() int { return s.thread(t, s.byID(t, "wamid.text")).UnreadCount }

	s.receive(t, like("wamid.1"), s.text("wamid.text", "Hello"), like("wamid.2"))
	s.receive(t, like("wamid.3"), s.text("wamid.later", "Still there?"))
	receipt("wamid.2")
	require.Equal(t, []messages.Status{messages.Read, messages.Read, messages.Read, messages.Delivered, messages.Delivered},
		statuses("wamid.1", "wamid.text", "wamid.2", "wamid.3", "wamid.later"))
	require.Equal(t, 1, unread())
	receipt("wamid.later")
	require.Equal(t, messages.Read, s.byID(t, "wamid.3").Status)
	require.Zero(t, unread())

	s.receive(t, like("wamid.4"))
	receipt("wamid.4")
	require.Equal(t, messages.Read, s.byID(t, "wamid.4").Status, "nothing else is unread")
	s.receive(t, like("wamid.5"))
	s.receive(t, like("wamid.6"), s.echo("wamid.answer", "text", fields{"body": "Yes"}), like("wamid.7"))
	require.Equal(t, []messages.Status{messages.Read, messages.Read, messages.Delivered}, statuses("wamid.5", "wamid.6", "wamid.7"))
	first := s.echo("wamid.first", "text", fields{"body": "Yes"})
	between := like("wamid.8")
	s.Clock.Move(time.Second)
	s.receive(t, between)
	s.receive(t, first, s.echo("wamid.second", "text", fields{"body": "Thanks"}))
	require.Equal(t, messages.Read, s.byID(t, "wamid.8").Status, "the second answer of the batch is later")
	require.Zero(t, unread())
}

func TestMarkRead_UnknownOrOutbound_Refused(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: "wamid.none"})
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	made := s.send(t, "+351910000001")
	s.awaitStatus(t, made, messages.Sent)
	_, err = s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: idOf(made, 1)})
	require.Equal(t, fault.InvalidFieldValue, fault.Of(err))
	other := s.Account(t, s.org)
	s.received(t, 1)
	_, err = s.Messages.MarkRead(t.Context(), s.org, other, messages.Receipt{MessageID: "wamid.in.0"})
	require.Equal(t, fault.ResourceNotFound, fault.Of(err))
	require.Empty(t, s.receipts())
}

func TestMarkRead_UnknownOutcome_NotRepeated(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.received(t, 1)
	s.net.read = func(provider.Receipt) error { panic("the call breaks") }
	_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: "wamid.in.0"})
	require.NoError(t, err)
	s.awaitNoReceipt(t)
	s.Pass(t, time.Minute)
	s.barrier(t)
	require.Len(t, s.receipts(), 1)
}

func TestMarkRead_OldOrBegunReceipt_Dropped(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.received(t, 2)
	mark := func(id string) {
		_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: id})
		require.NoError(t, err)
	}
	mark("wamid.in.0")
	s.Clock.Move(21 * time.Second)
	mark("wamid.in.1")
	s.exec(t, `UPDATE receipts SET begun = true WHERE org_id = @org_id AND provider_id = 'wamid.in.1'`, nil)
	s.Work(t)
	s.awaitNoReceipt(t)
	require.Empty(t, s.receipts())
}

// TestMarkRead_DisconnectedMeanwhile_Dropped disconnects the number while its lane is being drained.
func TestMarkRead_DisconnectedMeanwhile_Dropped(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.received(t, 2)
	_, err := s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: "wamid.in.0"})
	require.NoError(t, err)
	s.awaitNoReceipt(t)
	require.Len(t, s.receipts(), 1)
	_, err = postgres.InTx(t.Context(), s.DB, s.org, func(tx *postgres.Tx) (struct{}, error) {
		_, err := tx.Exec(t.Context(), `UPDATE accounts SET status = 'disconnected' WHERE org_id = @org_id`, nil)
		return struct{}{}, err
	})
	require.NoError(t, err)
	_, err = s.Messages.MarkRead(t.Context(), s.org, s.account, messages.Receipt{MessageID: "wamid.in.1"})
	require.NoError(t, err)
	s.awaitNoReceipt(t)
	require.Len(t, s.receipts(), 1, "the second one is not sent")
}

func TestSend_ContactDeleted_NoCallNoEvent(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	made := s.send(t, "+351910000001")
	_, err := s.Contacts.Delete(t.Context(), s.org, s.account, made.ContactID)
	require.NoError(t, err)
	s.Work(t)
	s.await(t, "the row leaves the lane", func() bool {
		return s.count(t, `SELECT count(*) FROM lane_rows WHERE id = @id`, postgres.Args{"id": made.ID}) == 0
	})
	s.await(t, "the message is erased", func() bool {
		return s.count(t, `SELECT count(*) FROM messages WHERE org_id = @org_id`, nil) == 0
	})
	require.Empty(t, s.net.calls("+351910000001"))
	require.Empty(t, s.told(t, made))
}

func TestErasure_EverythingOfTheMessagesGoes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	made := s.unproved(t)
	s.Pass(t, echoWait)
	s.awaitStatus(t, made, messages.Sent)
	other := s.send(t, "+351910000002")
	s.awaitStatus(t, other, messages.Sent)
	_, err := s.Contacts.Delete(t.Context(), s.org, s.account, made.ContactID)
	require.NoError(t, err)
	for table, left := range map[string]int{"messages": 1, "message_states": 1, "send_attempts": 0, "provider_messages": 1} {
		s.await(t, table, func() bool { return s.count(t, `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, nil) == left })
	}
	require.Equal(t, messages.Sent, s.get(t, other).Status)
}

// The network repeats a callback for days if an answer was lost. What it repeats of a contact that was erased must not come back.
func TestErasure_CallbackComesAgain_NothingComesBack(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	text, edit := s.text("wamid.1", "My secret"), s.edit("wamid.2", "wamid.1", "My other secret")
	revoke, echo := s.said("wamid.3", "revoke", fields{"original_message_id": "wamid.1"}), s.echo("wamid.5", "text", fields{"body": "Hush"})
	later := s.edit("wamid.6", "wamid.1", "My third secret")
	s.receive(t, text)
	s.receive(t, edit, echo)
	_, err := s.Contacts.Delete(t.Context(), s.org, s.account, s.byID(t, "wamid.1").ContactID)
	require.NoError(t, err)
	for _, table := range []string{"messages", "conversations"} {
		s.await(t, "erased: "+table, func() bool { return s.count(t, `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, nil) == 0 })
	}
	for _, batch := range [][]item{{text}, {edit}, {revoke}, {echo}, {later}, {text, edit, revoke}, {later, echo, edit, text}} {
		s.receive(t, batch...)
	}
	left := map[string]int{}
	for _, table := range []string{"messages", "conversations", "parked_statuses", "provider_messages"} {
		left[table] = s.count(t, `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, nil)
	}
	left["contacts"] = s.count(t, `SELECT count(*) FROM contacts WHERE org_id = @org_id AND departure IS NULL`, nil)
	require.Equal(t, map[string]int{"messages": 0, "conversations": 0, "parked_statuses": 0, "provider_messages": 0, "contacts": 0}, left)
	require.Zero(t, s.countEvents(t, "message.received"))

	s.receive(t, s.text("wamid.4", "I am back"))
	require.Equal(t, 1, s.countEvents(t, "message.received"), "a new message of the same person is a new contact's")
}

func TestPurge_EverythingOfTheNumberGoes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.awaitStatus(t, s.send(t, "+351910000001"), messages.Sent)
	s.received(t, 1)
	s.push(t, s.status("wamid.app", provider.StatusRead, ""))
	sibling := *s
	sibling.account = s.Account(t, s.org)
	kept := sibling.send(t, "+351910000001")
	sibling.awaitStatus(t, kept, messages.Sent)
	require.NoError(t, s.Messages.Purge(t.Context(), s.org, s.account, ids.Any{}))
	for table, left := range map[string]int{"messages": 1, "message_states": 1, "provider_messages": 1, "parked_statuses": 0, "receipts": 0} {
		require.Equal(t, left, s.count(t, `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, nil), table)
	}
	require.Equal(t, messages.Sent, sibling.get(t, kept).Status)
}

func TestMove_LanesRebuilt_NothingLost(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	made := []messages.Message{s.send(t, "+351910000001"), s.send(t, "+351910000002")}
	s.RebuildLanes(t, s.org)
	s.Work(t)
	for _, one := range made {
		s.awaitStatus(t, one, messages.Sent)
		require.Len(t, s.net.calls(*one.ToNumber), 1)
	}
}
