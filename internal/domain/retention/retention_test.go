package retention_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Rows, provider ids, files and events leave when the plan ends, and nothing else does. The turns are so short that
// every portion is a job of its own.
func TestRetention_PlanEnds_OldGoneWithAllThatHangsOnIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	free, starter, platform := f.tenant(t, "free"), f.tenant(t, "starter"), f.tenant(t, "platform")
	files := map[*tenant]map[int]string{}
	for _, one := range []*tenant{free, starter, platform} {
		files[one] = map[int]string{}
		for _, age := range []int{400, 200, 31, 8, 3} {
			files[one][age] = one.say(t, time.Duration(age)*day, 300)
		}
	}
	library := platform.files(t)
	f.work(t)
	f.walk(t)

	free.requireLeft(t, 300, 300)
	starter.requireLeft(t, 600, 600)
	platform.requireLeft(t, 1200, 1500) // its month of 400 days ago is dropped; events are dropped by the week
	_, err := f.Media.DeleteDue(t.Context())
	require.NoError(t, err)
	for one, kept := range map[*tenant]int{free: 7, starter: 30, platform: 365} {
		for age, key := range files[one] {
			require.Equal(t, age <= kept, f.stored(t, key), "a file of %d days, plan of %d", age, kept)
		}
	}
	require.True(t, f.stored(t, library), "the library is no history")
	months, err := f.Messages.MonthsBefore(t.Context(), f.World.Clock.Now().Add(-365*day))
	require.NoError(t, err)
	require.Empty(t, months)
}

// The network repeats callbacks for seven days; after the eighth nothing is kept of erased messages.
func TestRetention_ErasedMessages_ForgottenAfterEightDays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := f.tenant(t, "platform"), f.tenant(t, "platform")
	now := f.World.Clock.Now()
	for tenant, old := range map[*tenant]int{one: 250, other: 0} {
		tenant.exec(t, `INSERT INTO erased_messages (org_id, hash, erased_at)
			SELECT @org_id, sha256(n::text::bytea), CASE WHEN n <= @count THEN @old::timestamptz ELSE @new END FROM generate_series(1, 260) AS n`,
			postgres.Args{"count": old, "old": now.Add(-8*day - time.Second), "new": now.Add(-8*day + time.Second)})
	}
	f.work(t)
	f.walk(t)
	for tenant, left := range map[*tenant]int{one: 10, other: 260} {
		require.Equal(t, left, tenant.count(t, `SELECT count(*) FROM erased_messages WHERE org_id = @org_id`))
	}
}

// A conversation stays. Without messages it points to none and has none unread; when it was last written to stays.
func TestRetention_LastMessageGone_ConversationPointsToNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	silent, busy := f.tenant(t, "starter"), f.tenant(t, "starter")
	silent.say(t, 40*day, 10)
	busy.say(t, 40*day, 10)
	busy.say(t, 2*day, 1)
	f.work(t)
	f.walk(t)

	after, err := f.Conversations.Get(t.Context(), silent.org, silent.account, silent.conversation.ID)
	require.NoError(t, err)
	require.Zero(t, after.UnreadCount)
	require.Equal(t, silent.conversation.LastMessageAt, after.LastMessageAt)
	require.True(t, after.UpdatedAt.After(silent.conversation.UpdatedAt), "the list's ETag changes")
	require.False(t, silent.points(t))

	after, err = f.Conversations.Get(t.Context(), busy.org, busy.account, busy.conversation.ID)
	require.NoError(t, err)
	require.Equal(t, busy.conversation, after)
	require.True(t, busy.points(t))
}

// An organization that is frozen keeps its rows, and the month in which it has messages; others do not wait for it.
func TestRetention_OrganizationIsMoved_WaitsForItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	moved, other := f.tenant(t, "platform"), f.tenant(t, "free")
	moved.say(t, 400*day, 10)
	other.say(t, 400*day, 10)
	freeze := func(sql string) {
		_, err := postgres.InSystemTx(t.Context(), f.DB, "test", func(tx *postgres.Tx) (int64, error) {
			return tx.Exec(t.Context(), sql, postgres.Args{"org": moved.org})
		})
		require.NoError(t, err)
	}
	freeze(`UPDATE organizations SET frozen_at = now() WHERE org_id = @org`)
	f.work(t)
	f.walk(t)
	moved.requireLeft(t, 10, 10)
	other.requireLeft(t, 0, 0)

	freeze(`UPDATE organizations SET frozen_at = NULL WHERE org_id = @org`)
	f.walk(t)
	moved.requireLeft(t, 0, 10)
}

// A month that is in use is dropped a minute later.
func TestRetention_MonthInUse_DroppedLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.tenant(t, "platform")
	one.say(t, 400*day, 10)
	f.work(t)
	locked, unlock := make(chan error), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		_, _ = postgres.InSystemTx(t.Context(), f.DB, "test", func(tx *postgres.Tx) (int64, error) {
			_, err := tx.Exec(t.Context(), `LOCK TABLE messages IN ACCESS SHARE MODE`, nil)
			locked <- err
			<-unlock
			return 0, err
		})
	})
	require.NoError(t, <-locked)
	assert.NoError(t, f.retention.Start(t.Context()))
	assert.Eventually(t, func() bool { return f.waiting(t) }, 3*time.Minute, 5*time.Millisecond)

	close(unlock)
	reading.Wait()
	f.Pass(t, time.Minute)
	f.walk(t)
	one.requireLeft(t, 0, 10)
	months, err := f.Messages.MonthsBefore(t.Context(), f.World.Clock.Now().Add(-365*day))
	require.NoError(t, err)
	require.Empty(t, months)
}

// Every process starts retention after its round; one walk is under way at a time.
func TestRetention_StartedTwice_OneWalk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		require.NoError(t, f.retention.Start(t.Context()))
	}
	added, err := postgres.One[int](t.Context(), f.DB.System("test"), `SELECT count(*) FROM `+jobs.Table+` WHERE kind = 'retention'`, nil)
	require.NoError(t, err)
	require.Equal(t, 1, added)
}

// An operator edits the plans: the next walk goes by what they say then.
func TestRetention_PlanEdited_HoldsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.tenant(t, "starter")
	one.say(t, 20*day, 5)
	f.work(t)
	f.walk(t)
	one.requireLeft(t, 5, 5)
	_, err := postgres.InSystemTx(t.Context(), f.DB, "test", func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `UPDATE plans SET history_days = 14 WHERE name = 'starter'`, nil)
	})
	require.NoError(t, err)
	f.walk(t)
	one.requireLeft(t, 0, 0)
}

// An organization with many old rows has several turns. Each goes on after the last row of the one before: a turn that began
// with the oldest row would read every row that was deleted since the last vacuum.
func TestRetention_OrganizationLeft_GoesOnAfterItsLastRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, other := f.tenant(t, "free"), f.tenant(t, "free")
	one.say(t, 20*day, 450)
	other.say(t, 20*day, 250)
	f.noteJobs(t)
	f.work(t)
	f.walk(t)
	one.requireLeft(t, 0, 0)
	other.requireLeft(t, 0, 0)
	for _, at := range []string{"messages", "events"} {
		places := one.noted(t, at)
		require.True(t, slices.IsSorted(places), places)
		require.GreaterOrEqual(t, len(slices.Compact(places)), 4, "each portion has a turn")
	}
}

// An organization whose turn meets a lock of somebody else has another turn in the same walk, until the third fails. The next walk
// might begin hours later, and would begin with the oldest row.
func TestRetention_TurnMeetsLock_OrganizationHasAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.tenant(t, "free")
	one.say(t, 20*day, 10)
	f.noteJobs(t)
	f.define(t, `CREATE SEQUENCE tries`,
		`CREATE FUNCTION be_locked() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('public.tries') <= 2 THEN
				RAISE EXCEPTION USING ERRCODE = 'lock_not_available';
			END IF;
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER be_locked BEFORE DELETE ON messages FOR EACH STATEMENT EXECUTE FUNCTION be_locked()`)
	f.work(t)
	f.walk(t)
	one.requireLeft(t, 0, 0)
	require.Equal(t, []string{"1", "2"}, one.noted(t, "failed"))
}
