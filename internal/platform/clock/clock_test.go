package clock_test

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/clock"
)

var (
	_ clock.Clock = (*clock.Synced)(nil)
	_ clock.Clock = (*clock.Manual)(nil)

	start = time.Date(2026, 3, 14, 9, 26, 53, 589_000_000, time.UTC)
)

// requireForm checks that a time is in UTC, in whole milliseconds, without a monotonic reading.
func requireForm(t require.TestingT, shown time.Time) {
	require.Equal(t, time.UTC, shown.Location())
	require.Equal(t, shown, shown.Truncate(time.Millisecond))
	require.Equal(t, shown, shown.Round(0), "without the monotonic reading, which would make comparisons fail")
	read, err := time.Parse(time.RFC3339, clock.Stamp(shown).String())
	require.NoError(t, err)
	require.Equal(t, shown, read, "a time that was printed and parsed again compares equal")
}

func TestSynced_NotAdjusted_MachineTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1_234_567 * time.Nanosecond)
		c := clock.NewSynced()
		for range 100 {
			require.Equal(t, time.Now().UTC().Truncate(time.Millisecond), c.Now())
			requireForm(t, c.Now())
			time.Sleep(777_777 * time.Nanosecond)
		}
		require.Equal(t, 100*777_777*time.Nanosecond, c.Elapsed())
	})
}

func TestSynced_Adjusted_FollowsTheReference(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]time.Duration{
		"ahead": 90 * time.Minute, "behind": -90 * time.Minute, "a little": 3 * time.Millisecond, "equal": 0, "years": 100 * 24 * 365 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := clock.NewSynced()
				time.Sleep(time.Minute)
				database := func() time.Time { return time.Now().Add(offset) }

				asked := c.Elapsed()
				time.Sleep(20 * time.Millisecond) // the way to the database
				shown := database()
				time.Sleep(20 * time.Millisecond) // and back
				require.Equal(t, offset, c.Adjust(shown, asked, c.Elapsed()), "the first jump is the whole offset")
				require.Equal(t, database().UTC().Truncate(time.Millisecond), c.Now())
				requireForm(t, c.Now())

				time.Sleep(time.Hour)
				require.Equal(t, database().UTC().Truncate(time.Millisecond), c.Now(), "the clock runs by itself")
				require.Zero(t, c.Adjust(database(), c.Elapsed(), c.Elapsed()), "no jump while both clocks run alike")
			})
		})
	}
}

func TestSynced_Adjust_ReturnsTheJump(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewSynced()
		now := time.Now()
		require.Equal(t, 5*time.Second, c.Adjust(now.Add(5*time.Second), 0, 0))
		require.Equal(t, -8*time.Second, c.Adjust(now.Add(-3*time.Second), 0, 0))
		require.Equal(t, now.Add(-3*time.Second).UTC().Truncate(time.Millisecond), c.Now())
		require.Equal(t, 3*time.Second, c.Adjust(now, 0, 0))
		require.Equal(t, -10*time.Millisecond, c.Adjust(now, 0, 20*time.Millisecond), "the reference was read in the middle of the round trip")
		require.Equal(t, 10*time.Millisecond, c.Adjust(now.In(time.FixedZone("there", 7200)), 0, 0), "the reference may be in another time zone")
	})
}

func TestSynced_ConcurrentUse_NoRace(t *testing.T) {
	t.Parallel()
	c := clock.NewSynced()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			last := c.Now()
			for range 1_000 {
				next := c.Now()
				if next.Before(last) {
					t.Errorf("%s came after %s", next, last)
				}
				last = next
			}
		})
		group.Go(func() {
			for range 1_000 {
				c.Elapsed()
			}
		})
	}
	group.Wait()
	for range 4 {
		group.Go(func() {
			for range 1_000 {
				c.Adjust(time.Now(), c.Elapsed(), c.Elapsed())
				c.Now()
			}
		})
	}
	group.Wait()
	require.WithinDuration(t, time.Now(), c.Now(), time.Minute)
}

func TestManual_NotMoved_StandsStill(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start.In(time.FixedZone("there", 7200)).Add(999_999))
	for range 2 {
		require.Equal(t, start, c.Now())
	}
	c.Move(time.Hour)
	require.Equal(t, start.Add(time.Hour), c.Now())
	c.Move(-2 * time.Hour)
	require.Equal(t, start.Add(-time.Hour), c.Now(), "also backwards")
	c.Move(1_999_999)
	require.Equal(t, start.Add(-time.Hour+time.Millisecond), c.Now())
	requireForm(t, c.Now())
}

func TestManual_ConcurrentUse_NoRace(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(start)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1_000 {
				c.Move(time.Millisecond)
				c.Now()
			}
		})
	}
	group.Wait()
	require.Equal(t, start.Add(8*time.Second), c.Now())
}

func TestStamp_Printed_Milliseconds(t *testing.T) {
	t.Parallel()
	for want, at := range map[string]time.Time{
		"2026-03-14T09:26:53.589Z": start,
		"2026-03-14T09:26:53.000Z": start.Truncate(time.Second),
		"2026-03-14T00:00:00.000Z": start.Truncate(24 * time.Hour),
		"2026-03-14T09:26:53.590Z": start.Add(time.Millisecond + 999*time.Microsecond),
		"2026-01-31T23:59:59.999Z": time.Date(2026, 2, 1, 1, 59, 59, 999_999_999, time.FixedZone("there", 7200)),
		"0001-01-01T00:00:00.000Z": {},
	} {
		require.Equal(t, want, clock.Stamp(at).String())
		encoded, err := json.Marshal(map[string]any{"at": clock.Stamp(at), "or": clock.StampOrNil(&at)})
		require.NoError(t, err)
		require.Equal(t, `{"at":"`+want+`","or":"`+want+`"}`, string(encoded))
	}
	encoded, err := json.Marshal(clock.StampOrNil(nil))
	require.NoError(t, err)
	require.Equal(t, "null", string(encoded))
}

func TestStamp_PrintedAndParsed_Equal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		zone := time.FixedZone("", rapid.IntRange(-50_000, 50_000).Draw(r, "zone"))
		at := time.UnixMilli(rapid.Int64Range(0, 250_000_000_000_000).Draw(r, "ms")).In(zone)
		printed := clock.Stamp(at).String()
		require.Len(r, printed, 24)
		read, err := time.Parse(time.RFC3339, printed)
		require.NoError(r, err)
		require.True(r, at.Equal(read))
		require.Equal(r, printed, clock.Stamp(read).String())
	})
}
