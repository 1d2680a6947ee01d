package conversations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/fault"
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
