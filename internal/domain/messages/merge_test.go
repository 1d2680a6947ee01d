package messages_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

const anaBSUID = "PT.1234567890"

// merge shows that a number and a BSUID are of one person. The newer of two contacts is merged into the older.
func (s *fixture) merge(t *testing.T, number, bsuid string) {
	t.Helper()
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := s.Contacts.ResolveTx(ctx, tx, s.account, []contacts.Sighting{{PhoneNumber: number, BSUID: bsuid, At: s.Clock.Now()}})
		return err
	}))
}

// mergeUnmoved merges two contacts and deletes the job that moves the messages.
func (s *fixture) mergeUnmoved(t *testing.T, number, bsuid string) {
	t.Helper()
	s.merge(t, number, bsuid)
	s.execSystem(t, `DELETE FROM `+jobs.Table+` WHERE kind = 'contacts_settle'`, nil)
}

// sendMerged queues a message to each of two contacts, which are one before the messages are sent or moved.
func (s *fixture) sendMerged(t *testing.T) (kept, merged messages.Message) {
	t.Helper()
	kept, merged = s.send(t, "+"+ana), s.sendDraft(t, messages.Draft{Recipient: anaBSUID})
	require.NotEqual(t, kept.ContactID, merged.ContactID)
	s.mergeUnmoved(t, "+"+ana, anaBSUID)
	return kept, merged
}

func TestMerge_QueuedMessage_SentEventShowsTheOtherContact(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	kept, merged := s.sendMerged(t)
	s.exec(t, `UPDATE contacts SET name = 'Ana' WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": kept.ContactID})
	s.exec(t, `UPDATE conversations SET status = 'pending' WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": kept.ConversationID})
	s.Work(t)
	s.awaitStatus(t, merged, messages.Sent)
	require.Equal(t, merged.ContactID, s.get(t, merged).ContactID, "the message has not moved")
	require.Equal(t, new("+"+ana), s.get(t, merged).ContactNumber)
	for _, one := range s.events(t) {
		if one.Key != merged.ID.String()+":sent" {
			continue
		}
		var sent struct {
			Data struct{ Message, Contact, Conversation fields }
		}
		require.NoError(t, json.Unmarshal(one.Body, &sent))
		require.Equal(t, "+"+ana, sent.Data.Message["to"])
		require.Equal(t, fields{"id": kept.ContactID.String(), "phone_number": "+" + ana, "name": "Ana"}, sent.Data.Contact)
		require.Equal(t, fields{"id": kept.ConversationID.String(), "status": "pending"}, sent.Data.Conversation)
		return
	}
	require.Fail(t, "no message.sent")
}

// Each case changes the contact that is kept, or its conversation, after the other was merged into it.
func TestMerge_QueuedMarketing_CheckedByTheOtherContact(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	const optIn = `UPDATE organizations SET require_opt_in = true WHERE org_id = @org_id AND @id::uuid IS NOT NULL`
	type queued struct {
		*fixture
		merged messages.Message
		code   fault.Code
	}
	cases := map[string]queued{}
	for _, test := range []struct {
		name    string
		changes []string
		code    fault.Code
	}{
		{"opted out", []string{`UPDATE contacts SET marketing = 'opted_out' WHERE org_id = @org_id AND id = @id`}, fault.MarketingOptedOut},
		{"no consent", []string{optIn}, fault.ConsentRequired},
		{"opted in", []string{optIn, `UPDATE contacts SET marketing = 'opted_in' WHERE org_id = @org_id AND id = @id`}, ""},
		{"wrote", []string{optIn, `UPDATE conversations SET last_inbound_at = now() WHERE org_id = @org_id AND contact_id = @id`}, ""},
	} {
		of := s.beside(t)
		kept, merged := of.sendMerged(t)
		of.exec(t, `UPDATE messages SET type = 'template', category = 'MARKETING' WHERE org_id = @org_id AND id = @id`,
			postgres.Args{"id": merged.ID})
		for _, change := range test.changes {
			of.exec(t, change, postgres.Args{"id": kept.ContactID})
		}
		cases[test.name] = queued{of, merged, test.code}
	}
	s.Work(t)
	for name, one := range cases {
		one.await(t, name, func() bool {
			return one.count(t, `SELECT count(*) FROM lane_rows WHERE id = @id`, postgres.Args{"id": one.merged.ID}) == 0
		})
		if one.code == "" {
			require.Equal(t, messages.Sent, one.get(t, one.merged).Status, name)
		} else {
			require.Equal(t, new(one.code), one.get(t, one.merged).ErrorCode, name)
		}
	}
}

func TestMerge_AnswerSaysOptedOut_StoredAtTheOtherContact(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	kept, merged := s.sendMerged(t)
	s.net.answers(func(out provider.Outbound) (provider.Accepted, error) {
		if out.Recipient == anaBSUID {
			return provider.Accepted{}, s.failure(t, 131050)
		}
		return accepted(out)
	})
	s.Work(t)
	s.awaitStatus(t, merged, messages.Failed)
	contact, err := s.Contacts.Get(t.Context(), s.org, s.account, kept.ContactID)
	require.NoError(t, err)
	require.Equal(t, contacts.OptedOut, contact.Marketing)
}

func TestMerge_EditAndRevocation_EventsShowTheOtherContact(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	kept := s.sendDraft(t, messages.Draft{Recipient: anaBSUID})
	s.Clock.Move(time.Minute)
	s.receive(t, s.text("wamid.1", "Helo"))
	require.NotEqual(t, kept.ContactID, s.byID(t, "wamid.1").ContactID)
	s.mergeUnmoved(t, ana, anaBSUID)
	s.receive(t, s.edit("wamid.2", "wamid.1", "Hello"), s.said("wamid.3", "revoke", fields{"original_message_id": "wamid.1"}))
	require.NotEqual(t, kept.ContactID, s.byID(t, "wamid.1").ContactID, "the message has not moved")
	for _, kind := range []string{"message.edited", "message.revoked"} {
		data := s.bodyOf(t, kind)["data"].(fields)
		require.Equal(t, kept.ContactID.String(), data["contact_id"], kind)
		require.Equal(t, kept.ConversationID.String(), data["conversation_id"], kind)
		require.Equal(t, "+"+ana, data["contact_phone_number"], kind)
	}
}

func TestMerge_MessagesMoveToTheOtherContact(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	byNumber := s.send(t, "+351910000001")
	byUser := s.sendDraft(t, messages.Draft{Recipient: "PT.1234567890"})
	s.awaitStatus(t, byNumber, messages.Sent)
	s.awaitStatus(t, byUser, messages.Sent)
	require.NotEqual(t, byNumber.ContactID, byUser.ContactID)
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := s.Contacts.ResolveTx(ctx, tx, s.account, []contacts.Sighting{
			{PhoneNumber: "+351910000001", BSUID: "PT.1234567890", At: s.Clock.Now()},
		})
		if err != nil {
			return err
		}
		// A message in the conversation that stays writes its row again, which then lies behind that of the other.
		_, err = tx.Exec(ctx, `UPDATE conversations SET updated_at = @now WHERE org_id = @org_id AND id = @id`,
			postgres.Args{"id": byNumber.ConversationID, "now": s.Clock.Now()})
		return err
	}))
	s.await(t, "the messages have one contact", func() bool { return s.get(t, byNumber).ContactID == s.get(t, byUser).ContactID })
	require.Equal(t, byNumber.ConversationID, s.get(t, byNumber).ConversationID)
	require.Equal(t, byNumber.ConversationID, s.get(t, byUser).ConversationID)
	require.Equal(t, messages.Sent, s.get(t, byUser).Status)
}
