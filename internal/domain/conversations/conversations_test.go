package conversations_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/domain/conversations"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// fixture is a cell with one organization and its number.
type fixture struct {
	*factory.World

	org     orgs.ID
	account accounts.Account
}

func setup(t *testing.T) (context.Context, fixture) {
	t.Helper()
	b := fixture{World: factory.New(t)}
	b.org, _ = b.Org(t)
	b.account = b.Account(t, b.org)
	return t.Context(), b
}

type messageKind struct{}

func (messageKind) Prefix() string { return "msg_" }

func (b fixture) said(t *testing.T, messages ...conversations.Message) []conversations.Thread {
	t.Helper()
	threads, err := b.trySay(t.Context(), messages...)
	require.NoError(t, err)
	return threads
}

func (b fixture) trySay(ctx context.Context, messages ...conversations.Message) ([]conversations.Thread, error) {
	return postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]conversations.Thread, error) {
		return b.Conversations.SaidTx(ctx, tx, b.account, messages)
	})
}

func (b fixture) get(t *testing.T, id conversations.ID) conversations.Conversation {
	t.Helper()
	conversation, err := b.Conversations.Get(t.Context(), b.org, b.account, id)
	require.NoError(t, err)
	return conversation
}

// known is what a conversation should show.
type known struct {
	id            conversations.ID
	status        conversations.Status
	unread        int
	last, inbound *time.Time
	lastID        ids.Any
	updated       time.Time
}

func (k *known) say(m conversations.Message) {
	if k.last == nil || !m.At.Before(*k.last) {
		k.last, k.lastID = &m.At, m.ID
	}
	if m.Inbound {
		k.status = conversations.Open
		if k.inbound == nil || m.At.After(*k.inbound) {
			k.inbound = &m.At
		}
	}
}

// read counts the unread messages after a batch. A late message with Read does not change the old count: the package messages
// subtracts what it read.
func (k *known) read(batch []conversations.Message) (late bool) {
	isUnread := func(i int) bool {
		for j, m := range batch {
			if m.Read && (m.At.After(batch[i].At) || j > i && m.At.Equal(batch[i].At)) {
				return false
			}
		}
		return true
	}
	var readAt time.Time
	unread := 0
	for i, m := range batch {
		if m.Read && m.At.After(readAt) {
			readAt = m.At
		}
		if m.Inbound && isUnread(i) {
			unread++
		}
	}
	if late = !readAt.IsZero() && k.inbound != nil && readAt.Before(*k.inbound); readAt.IsZero() || late {
		unread += k.unread
	}
	k.unread = unread
	return late
}

// TestService_SaidTx_AnyBatches_LastMessagesAndUnreadCount compares with a model: whatever is said in whatever batches, a
// conversation knows its last messages and how many are unread.
func TestService_SaidTx_AnyBatches_LastMessagesAndUnreadCount(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	var people []contacts.ID
	for range 5 {
		people = append(people, b.Contact(t, b.org, b.account).ID)
	}
	model := map[contacts.ID]*known{}
	rapid.Check(t, func(r *rapid.T) {
		var messages []conversations.Message
		for range rapid.IntRange(1, 6).Draw(r, "messages") {
			inbound := rapid.Bool().Draw(r, "inbound")
			messages = append(messages, conversations.Message{
				ID:        ids.New[messageKind](b.Clock.Now()).Any(),
				ContactID: rapid.SampledFrom(people).Draw(r, "contact"),
				At:        b.Clock.Now().Add(time.Duration(rapid.IntRange(-20, 5).Draw(r, "at")) * time.Second),
				Inbound:   inbound,
				Read:      !inbound && rapid.Bool().Draw(r, "read"),
				Reaction:  rapid.IntRange(0, 3).Draw(r, "reaction") == 0,
			})
		}
		b.Clock.Move(time.Duration(rapid.IntRange(0, 1).Draw(r, "pause")) * time.Second)
		before := map[contacts.ID]int{}
		for id, k := range model {
			before[id] = k.unread
		}
		threads, touched := b.said(t, messages...), map[contacts.ID]bool{}
		ofContact := map[contacts.ID][]conversations.Message{}
		for _, m := range messages {
			if !m.Reaction {
				ofContact[m.ContactID] = append(ofContact[m.ContactID], m)
			}
		}
		late := map[contacts.ID]bool{}
		for id, batch := range ofContact {
			if model[id] == nil {
				model[id], touched[id] = &known{status: conversations.Open}, true
			}
			late[id] = model[id].read(batch)
		}
		for i, m := range messages {
			k := model[m.ContactID]
			if k == nil {
				k = &known{status: conversations.Open}
				model[m.ContactID], touched[m.ContactID] = k, true
			}
			if k.id.IsZero() {
				k.id = threads[i].ID
			}
			require.Equal(r, []any{before[m.ContactID], k.unread, late[m.ContactID]},
				[]any{threads[i].UnreadBefore, threads[i].Unread, threads[i].ReadLate})
			if !m.Reaction {
				k.say(m)
				touched[m.ContactID] = true
			}
			require.Equal(r, m.ContactID, threads[i].ContactID)
			require.Equal(r, k.id, threads[i].ID, "one conversation for ever")
		}
		for _, m := range messages {
			k, is := model[m.ContactID], b.get(t, model[m.ContactID].id)
			require.Equal(r, []any{k.status, k.unread, k.last, k.inbound}, []any{is.Status, is.UnreadCount, is.LastMessageAt, is.LastInboundAt})
			require.Equal(r, touched[m.ContactID], is.UpdatedAt.After(k.updated), "time goes on with each change")
			last, err := postgres.One[ids.Any](t.Context(), b.DB.Of(b.org),
				`SELECT last_message_id FROM conversations WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": k.id})
			require.NoError(r, err)
			require.Equal(r, k.lastID, last)
		}
		for _, m := range messages {
			model[m.ContactID].updated = b.get(t, model[m.ContactID].id).UpdatedAt
		}
		if k := model[messages[0].ContactID]; rapid.Bool().Draw(r, "resolve") {
			k.status = conversations.Resolved
			closed, err := b.Conversations.Update(t.Context(), b.org, b.account, audit.Operator(), k.id,
				conversations.Patch{Status: patch.To(conversations.Resolved)})
			require.NoError(r, err)
			k.updated = closed.UpdatedAt
		}
	})
}

func TestService_Update_ClosedByAUser_NamedInTheEvent(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Conversation(t, b.org, b.account)
	user, err := b.Orgs.CreateUser(ctx, b.org, audit.Operator(), nil, "Marta", "marta@example.com")
	require.NoError(t, err)
	_, err = b.Conversations.Update(ctx, b.org, b.account, audit.ByUser(user.ID), made.ID,
		conversations.Patch{Status: patch.To(conversations.Resolved)})
	require.NoError(t, err)
	body, err := postgres.One[string](ctx, b.DB.Of(b.org), `
SELECT convert_from(body, 'UTF8') FROM events WHERE org_id = @org_id AND type = 'conversation.closed'`, nil)
	require.NoError(t, err)
	require.Contains(t, body, `"closed_by_user_id":"`+user.ID.String()+`"`)
}

// patiently retries while the verb is unavailable, because on a busy machine a lock may take
// longer than the lock timeout.
func patiently(verb func() error) (err error) {
	for range 20 {
		if err = verb(); fault.Of(err) != fault.ServiceUnavailable {
			return err
		}
	}
	return err
}

// TestService_SaidTx_Concurrent_NothingLost: batches that name the same contacts in different orders wait
// for each other and lose nothing, while contacts are renamed, labelled and deleted.
func TestService_SaidTx_Concurrent_NothingLost(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	var people []contacts.ID
	for range 12 {
		people = append(people, b.Contact(t, b.org, b.account).ID)
	}
	const workers, batches, size = 6, 8, 8
	var group sync.WaitGroup
	failed := make(chan error, workers*batches+100)
	for worker := range workers {
		group.Go(func() {
			for batch := range batches {
				var messages []conversations.Message
				for i := range size {
					messages = append(messages, conversations.Message{ContactID: people[(worker*5+batch*3+i*7)%10], At: b.Clock.Now(), Inbound: true})
				}
				failed <- patiently(func() error {
					_, err := b.trySay(ctx, messages...)
					return err
				})
			}
		})
	}
	group.Go(func() {
		for i := range 20 {
			failed <- patiently(func() error {
				_, err := b.Contacts.Update(ctx, b.org, b.account, people[i%10], contacts.Patch{Name: patch.To(fmt.Sprintf("Name %d", i))})
				return err
			})
		}
	})
	group.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	unread, err := postgres.One[int](ctx, b.DB.Of(b.org), `SELECT sum(unread_count)::int FROM conversations WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.Equal(t, workers*batches*size, unread)
}

// TestService_SaidTx_ContactDeleted_TransactionRunsAgain: a contact that was deleted after it was resolved has the
// transaction made again, or refused when that does not help.
func TestService_SaidTx_ContactDeleted_TransactionRunsAgain(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	made := b.Conversation(t, b.org, b.account)
	_, err := b.Contacts.Delete(ctx, b.org, b.account, made.ContactID)
	require.NoError(t, err)
	_, err = b.trySay(ctx, conversations.Message{ContactID: made.ContactID, At: b.Clock.Now()})
	require.ErrorIs(t, err, postgres.ErrAgain)
	require.Equal(t, fault.ServiceUnavailable, fault.Of(err))

	other := b.Conversation(t, b.org, b.account)
	number, tries := *other.ContactNumber, 0
	threads, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]conversations.Thread, error) {
		found, err := b.Contacts.ResolveTx(ctx, tx, b.account, []contacts.Sighting{{At: b.Clock.Now(), PhoneNumber: number}})
		if err != nil {
			return nil, err
		}
		if tries++; tries == 1 {
			if _, err := b.Contacts.Delete(ctx, b.org, b.account, other.ContactID); err != nil {
				return nil, err
			}
		}
		return b.Conversations.SaidTx(ctx, tx, b.account, []conversations.Message{{ContactID: found[0].ID, At: b.Clock.Now()}})
	})
	require.NoError(t, err)
	require.Equal(t, 2, tries)
	require.NotEqual(t, other.ID, threads[0].ID, "a new contact and a new conversation")
}

const mergedNumber, mergedBSUID = "351910000077", "PT.7700000077"

func (b fixture) resolve(ctx context.Context, t *testing.T, sightings ...contacts.Sighting) []contacts.ID {
	t.Helper()
	found, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]contacts.Contact, error) {
		return b.Contacts.ResolveTx(ctx, tx, b.account, sightings)
	})
	require.NoError(t, err)
	return postgres.Each(found, func(c contacts.Contact) contacts.ID { return c.ID })
}

// toMerge makes two contacts that are merged by one sighting. The older one is kept.
func (b fixture) toMerge(t *testing.T) (kept, merged contacts.ID, merge contacts.Sighting) {
	t.Helper()
	kept = b.resolve(t.Context(), t, contacts.Sighting{At: b.Clock.Now(), PhoneNumber: mergedNumber})[0]
	b.Clock.Move(time.Second)
	merged = b.resolve(t.Context(), t, contacts.Sighting{At: b.Clock.Now(), BSUID: mergedBSUID})[0]
	return kept, merged, contacts.Sighting{At: b.Clock.Now(), PhoneNumber: mergedNumber, BSUID: mergedBSUID}
}

// visible counts the conversations that the merged contact has, and those of the kept one.
func (b fixture) visible(t *testing.T, kept, merged contacts.ID) []int {
	t.Helper()
	count := func(id contacts.ID) int {
		count, err := postgres.One[int](t.Context(), b.DB.Of(b.org), `
SELECT count(*) FROM conversations WHERE org_id = @org_id AND contact_id = @id AND departure IS NULL`, postgres.Args{"id": id})
		require.NoError(t, err)
		return count
	}
	return []int{count(kept), count(merged)}
}

// A contact whose name changes is locked too: its first message does not wait for that.
func TestService_SaidTx_ContactIsBeingChanged_ConversationIsMade(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	contact := b.resolve(ctx, t, contacts.Sighting{At: b.Clock.Now(), PhoneNumber: mergedNumber})[0]
	_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (int64, error) {
		changed, err := tx.Exec(ctx, `UPDATE contacts SET name = 'Ana' WHERE org_id = @org_id AND id = @id`, postgres.Args{"id": contact})
		b.said(t, conversations.Message{ContactID: contact, At: b.Clock.Now()})
		return changed, err
	})
	require.NoError(t, err)
}

// The merge would not find the conversation, and no list would find it afterwards.
func TestService_SaidTx_MergeNotCommitted_RunsAgain(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	kept, merged, sighting := b.toMerge(t)
	_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]contacts.Contact, error) {
		found, err := b.Contacts.ResolveTx(ctx, tx, b.account, []contacts.Sighting{sighting})
		_, refused := b.trySay(ctx, conversations.Message{ContactID: merged, At: b.Clock.Now()})
		require.ErrorIs(t, refused, postgres.ErrAgain)
		return found, err
	})
	require.NoError(t, err)
	b.said(t, conversations.Message{ContactID: kept, At: b.Clock.Now()})
	require.Equal(t, []int{1, 0}, b.visible(t, kept, merged))
}

func TestService_SaidTx_MergedBeforeItIsCommitted_MergeFindsTheConversation(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	kept, merged, sighting := b.toMerge(t)
	ended := make(chan error, 1)
	_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]conversations.Thread, error) {
		threads, err := b.Conversations.SaidTx(ctx, tx, b.account, []conversations.Message{{ContactID: merged, At: b.Clock.Now()}})
		go func() {
			_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) ([]contacts.Contact, error) {
				return b.Contacts.ResolveTx(ctx, tx, b.account, []contacts.Sighting{sighting})
			})
			ended <- err
		}()
		require.Eventually(t, func() bool {
			waiting, err := postgres.One[int](ctx, b.DB.System("test"), `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil)
			return err == nil && waiting == 1
		}, time.Minute, time.Millisecond, "the merge waits")
		return threads, err
	})
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.Equal(t, []int{1, 0}, b.visible(t, kept, merged))
}

// TestService_Purge leaves nothing of an account and all of the others.
func TestService_Purge(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	kept := b.Account(t, b.org)
	for range 3 {
		b.Conversation(t, b.org, b.account)
		b.Conversation(t, b.org, kept)
	}
	require.NoError(t, b.Conversations.Purge(ctx, b.org, b.account, ids.Any{}))
	require.NoError(t, b.Contacts.Purge(ctx, b.org, b.account, ids.Any{}))
	left, err := postgres.Many[accounts.ID](ctx, b.DB.Of(b.org), `
SELECT account_id FROM conversations WHERE org_id = @org_id
UNION ALL SELECT account_id FROM contacts WHERE org_id = @org_id
UNION ALL SELECT account_id FROM contact_keys WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.Len(t, left, 9)
	for _, id := range left {
		require.Equal(t, kept.ID, id)
	}
}
