package contacts_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/patch"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

func (b fixture) inTx(t *testing.T, verb func(ctx context.Context, tx *postgres.Tx) error) error {
	t.Helper()
	_, err := postgres.InTx(t.Context(), b.DB, b.org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, verb(t.Context(), tx)
	})
	return err
}

func (b fixture) get(t *testing.T, id contacts.ID) contacts.Contact {
	t.Helper()
	contact, err := b.Contacts.Get(t.Context(), b.org, b.account, id)
	require.NoError(t, err)
	return contact
}

func TestService_ChooseTx_OlderChoice_Ignored(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	first, second := b.Contact(t, b.org, b.account), b.Contact(t, b.org, b.account)
	start := b.Clock.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	choose := func(choices ...contacts.Choice) {
		b.Clock.Move(time.Second)
		require.NoError(t, b.inTx(t, func(ctx context.Context, tx *postgres.Tx) error { return b.Contacts.ChooseTx(ctx, tx, choices) }))
	}
	require.Equal(t, contacts.Unknown, b.get(t, first.ID).Marketing)
	choose(
		contacts.Choice{ContactID: first.ID, Marketing: contacts.OptedOut, Source: contacts.FromProvider, At: at(10)},
		contacts.Choice{ContactID: second.ID, Marketing: contacts.OptedOut, Source: contacts.FromKeyword, At: at(10)},
		contacts.Choice{ContactID: second.ID, Marketing: contacts.OptedIn, Source: contacts.FromProvider, At: at(11)},
	)
	chosen := b.get(t, first.ID)
	require.Equal(t, contacts.OptedOut, chosen.Marketing)
	require.Equal(t, at(10), *chosen.MarketingAt)
	require.Equal(t, "provider", *chosen.MarketingSource)
	require.Equal(t, b.Clock.Now(), chosen.UpdatedAt)
	require.Equal(t, contacts.OptedIn, b.get(t, second.ID).Marketing)

	choose(contacts.Choice{ContactID: first.ID, Marketing: contacts.Unknown, Source: contacts.FromProvider, At: at(9)})
	require.Equal(t, chosen, b.get(t, first.ID), "what is older changes nothing")
	choose(contacts.Choice{ContactID: first.ID, Marketing: contacts.OptedOut, Source: contacts.FromKeyword, At: at(20)})
	require.Equal(t, at(20), *b.get(t, first.ID).MarketingAt, "the same again moves its time")
	choose(contacts.Choice{ContactID: first.ID, Marketing: contacts.OptedIn, Source: contacts.FromProvider, At: at(15)})
	require.Equal(t, contacts.OptedOut, b.get(t, first.ID).Marketing, "so that one in between does not count")
	choose(contacts.Choice{ContactID: first.ID, Marketing: contacts.OptedIn, Source: contacts.FromProvider, At: at(20)})
	require.Equal(t, contacts.OptedOut, b.get(t, first.ID).Marketing, "at the same time an opt-out counts")
	choose(contacts.Choice{ContactID: first.ID, Marketing: contacts.Unknown, Source: contacts.FromProvider, At: at(30)})
	cleared := b.get(t, first.ID)
	require.Equal(t, contacts.Unknown, cleared.Marketing)
	require.Nil(t, cleared.MarketingSource)
}

// A contact is merged into another while its choice waits for the lock: the choice is stored at the other one.
func TestService_ChooseTx_MergedWhileItWaits_StoredAtTheOtherContact(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	const number, bsuid = "+5215550100001", "MX.1234567890"
	kept := b.resolve(t, contacts.Sighting{PhoneNumber: number, At: b.Clock.Now()})[0]
	b.Clock.Move(time.Second)
	merged := b.resolve(t, contacts.Sighting{BSUID: bsuid, At: b.Clock.Now()})[0]
	chose := make(chan error, 1)
	require.NoError(t, b.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		_, err := b.Contacts.ResolveTx(ctx, tx, b.account, []contacts.Sighting{{PhoneNumber: number, BSUID: bsuid, At: b.Clock.Now()}})
		go func() {
			chose <- b.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
				return b.Contacts.ChooseTx(ctx, tx, []contacts.Choice{
					{ContactID: merged.ID, Marketing: contacts.OptedOut, Source: contacts.FromProvider, At: b.Clock.Now()},
				})
			})
		}()
		require.Eventually(t, func() bool {
			waiting, err := postgres.One[int](ctx, b.DB.System("test"), `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil)
			return err == nil && waiting > 0
		}, proc.Patience, 5*time.Millisecond, "the choice waits for the lock")
		return err
	}))
	require.NoError(t, <-chose)
	require.Equal(t, contacts.OptedOut, b.get(t, kept.ID).Marketing)
}

// TestService_Delete_Followers_ErasedUntilNothingIsLeft: a follower is asked until nothing is left, also
// after it failed, and a contact that is gone is gone for everybody meanwhile.
func TestService_Delete_Followers_ErasedUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	contact := b.Contact(t, b.org, b.account)
	var left, failed atomic.Int64
	left.Store(3)
	b.Contacts.FollowedBy(contacts.Follower{
		Settle: func(_ context.Context, _ *postgres.Tx, departure contacts.Departure) (bool, error) {
			if departure.ID != contact.ID || departure.JoinedInto != nil {
				return false, errors.New("somebody else")
			}
			if failed.Add(1) == 2 {
				return false, errors.New("not now")
			}
			return left.Load() > 0 && left.Add(-1) > 0, nil // it is asked again while another follower has more
		},
	})
	deleted, err := b.Contacts.Delete(ctx, b.org, b.account, contact.ID)
	require.NoError(t, err)
	require.Equal(t, contact.ID, deleted)
	rows := func() int {
		count, err := postgres.One[int](ctx, b.DB.Of(b.org), `SELECT count(*) FROM contacts WHERE org_id = @org_id`, nil)
		require.NoError(t, err)
		return count
	}
	require.Equal(t, 1, rows(), "until what follows it is gone")
	_, err = b.Contacts.Get(ctx, b.org, b.account, contact.ID)
	require.Equal(t, fault.NotFound("contact"), err)
	personal, err := postgres.One[bool](ctx, b.DB.Of(b.org), `
SELECT phone_number IS NOT NULL OR name IS NOT NULL OR email IS NOT NULL OR metadata IS NOT NULL FROM contacts WHERE org_id = @org_id`, nil)
	require.NoError(t, err)
	require.False(t, personal, "what is personal goes at once")
	_, err = b.Contacts.Update(ctx, b.org, b.account, contact.ID, contacts.Patch{Name: patch.To("X")})
	require.Equal(t, fault.NotFound("contact"), err)
	fresh := b.resolve(t, contacts.Sighting{At: b.Clock.Now(), PhoneNumber: *contact.PhoneNumber})
	require.NotEqual(t, contact.ID, fresh[0].ID)

	b.Work(t)
	require.Eventually(t, func() bool {
		b.Pass(t, 5*time.Second)
		return rows() == 1
	}, 3*time.Minute, 50*time.Millisecond)
	require.Zero(t, left.Load())
	require.Equal(t, *contact.PhoneNumber, *b.get(t, fresh[0].ID).PhoneNumber)
}

// TestService_RestoreTx_InterruptedWork_Continues: what was under way when an organization moved goes on.
func TestService_RestoreTx_InterruptedWork_Continues(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	contact := b.Contact(t, b.org, b.account)
	_, err := b.Contacts.Delete(ctx, b.org, b.account, contact.ID)
	require.NoError(t, err)
	_, err = postgres.InSystemTx(ctx, b.DB, "a move leaves jobs behind", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `DELETE FROM `+jobs.Table, nil)
	})
	require.NoError(t, err)
	require.NoError(t, b.inTx(t, b.RestoreTx))
	b.Work(t)
	require.Eventually(t, func() bool {
		count, err := postgres.One[int](ctx, b.DB.Of(b.org), `SELECT count(*) FROM contacts WHERE org_id = @org_id`, nil)
		return err == nil && count == 0
	}, 3*time.Minute, 20*time.Millisecond)
}

// TestResolve_KnownPeople_TwoReads: people who are known cost two reads, however many they are.
func TestResolve_KnownPeople_TwoReads(t *testing.T) {
	t.Parallel()
	_, b := setup(t)
	var sightings []contacts.Sighting
	for range 200 {
		contact := b.Contact(t, b.org, b.account)
		sightings = append(sightings, contacts.Sighting{At: b.Clock.Now(), PhoneNumber: *contact.PhoneNumber, Name: "Somebody"})
	}
	err := b.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		if _, err := tx.Exec(ctx, `SET TRANSACTION READ ONLY`, nil); err != nil {
			return err
		}
		found, err := b.Contacts.ResolveTx(ctx, tx, b.account, sightings)
		require.Len(t, found, len(sightings))
		for i, contact := range found {
			require.Equal(t, sightings[i].PhoneNumber, *contact.PhoneNumber)
		}
		return err
	})
	require.NoError(t, err)
}
