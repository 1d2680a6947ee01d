package conversations_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

func TestLabel_OneMoreThanTheMost_LimitReached(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	contact, err := b.Contacts.Create(ctx, b.org, b.account, contacts.Draft{PhoneNumber: new("+351910000001")})
	require.NoError(t, err)
	thread := b.said(t, conversations.Message{ContactID: contact.ID, At: b.Clock.Now(), Inbound: true})[0]
	var last labels.ID
	onContact := func(label labels.ID, operation contacts.Operation) fault.Code {
		_, err := b.Contacts.Label(ctx, b.org, b.account, contact.ID, label, operation)
		return fault.Of(err)
	}
	onConversation := func(label labels.ID, attach bool) fault.Code {
		_, err := b.Conversations.Label(ctx, b.org, b.account, thread.ID, label, attach)
		return fault.Of(err)
	}
	for range labels.MaxCarried {
		last = b.Label(t, b.org).ID
		require.Empty(t, onContact(last, contacts.Attach))
		require.Empty(t, onConversation(last, true))
	}
	require.Empty(t, onContact(last, contacts.Attach), "one that it has already changes nothing")
	require.Empty(t, onConversation(last, true))
	more := b.Label(t, b.org).ID
	require.Equal(t, fault.LimitReached, onContact(more, contacts.Attach))
	require.Equal(t, fault.LimitReached, onConversation(more, true))
	other, err := b.Contacts.Create(ctx, b.org, b.account, contacts.Draft{PhoneNumber: new("+351910000002")})
	require.NoError(t, err)
	_, err = b.Contacts.BulkLabel(ctx, b.org, b.account,
		contacts.Bulk{ContactIDs: []contacts.ID{other.ID, contact.ID}, LabelID: more, Operation: contacts.Attach})
	require.Equal(t, fault.LimitReached, fault.Of(err))
	require.ErrorContains(t, err, contact.ID.String())
	read, err := b.Contacts.Get(ctx, b.org, b.account, other.ID)
	require.NoError(t, err)
	require.Empty(t, read.Labels, "a bulk that is refused changes nothing")
	require.Empty(t, onContact(last, contacts.Detach))
	require.Empty(t, onContact(more, contacts.Attach))
}

// A batch of messages names a conversation once for each of them.
func TestLabelsTx_ConversationNamedTwice_EachLabelOnce(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	contact, err := b.Contacts.Create(ctx, b.org, b.account, contacts.Draft{PhoneNumber: new("+351910000001")})
	require.NoError(t, err)
	thread := b.said(t, conversations.Message{ContactID: contact.ID, At: b.Clock.Now(), Inbound: true})[0]
	label := b.Label(t, b.org)
	_, err = b.Conversations.Label(ctx, b.org, b.account, thread.ID, label.ID, true)
	require.NoError(t, err)
	found, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (map[conversations.ID][]conversations.Label, error) {
		return b.Conversations.LabelsTx(ctx, tx, []conversations.ID{thread.ID, thread.ID, thread.ID})
	})
	require.NoError(t, err)
	require.Len(t, found[thread.ID], 1)
}

// Two people with 60 labels each turn out to be one.
func TestLabel_MergedContacts_KeepAtMostTheMost(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	b.Work(t)
	sightings := []contacts.Sighting{
		{PhoneNumber: "+351910000001", At: b.Clock.Now()}, {BSUID: "PT.1234567890", At: b.Clock.Now()},
	}
	resolve := func(seen ...contacts.Sighting) []contacts.Contact {
		found, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]contacts.Contact, error) {
			return b.Contacts.ResolveTx(ctx, tx, b.account, seen)
		})
		require.NoError(t, err)
		return found
	}
	people := resolve(sightings...)
	for _, person := range people {
		thread := b.said(t, conversations.Message{ContactID: person.ID, At: b.Clock.Now(), Inbound: true})[0]
		for range 60 {
			label := b.Label(t, b.org).ID
			_, err := b.Contacts.Label(ctx, b.org, b.account, person.ID, label, contacts.Attach)
			require.NoError(t, err)
			_, err = b.Conversations.Label(ctx, b.org, b.account, thread.ID, label, true)
			require.NoError(t, err)
		}
	}
	one := resolve(contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1234567890", At: b.Clock.Now()})[0]
	carried := func(table string) int {
		count, err := postgres.One[int](ctx, b.DB.Of(b.org), `SELECT count(*) FROM `+table+` WHERE org_id = @org_id`, nil)
		require.NoError(t, err)
		return count
	}
	require.Eventually(t, func() bool {
		b.Pass(t, time.Second)
		left, err := postgres.One[int](ctx, b.DB.Of(b.org), `SELECT count(*) FROM conversations WHERE org_id = @org_id AND joined_into IS NULL`, nil)
		require.NoError(t, err)
		return left == 1 && carried("contact_labels") <= labels.MaxCarried && carried("conversation_labels") <= labels.MaxCarried
	}, 3*time.Minute, 50*time.Millisecond)
	require.Equal(t, labels.MaxCarried, carried("contact_labels"))
	require.Equal(t, labels.MaxCarried, carried("conversation_labels"))
	read, err := b.Contacts.Get(ctx, b.org, b.account, one.ID)
	require.NoError(t, err)
	require.Len(t, read.Labels, labels.MaxCarried)
}
