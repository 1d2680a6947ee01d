package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRing_Full_KeepsTheNewestEntries(t *testing.T) {
	t.Parallel()
	r := newRing[int](3)
	require.Empty(t, slices.Collect(r.Newest))
	for i := range 10 {
		removed, evicted := r.Add(i)
		require.Equal(t, i >= 3, evicted)
		require.Equal(t, max(0, i-3), removed)
		want := []int{i, i - 1, i - 2}[:min(i+1, 3)]
		require.Equal(t, want, slices.Collect(r.Newest))
		require.Equal(t, len(want), r.Len())
	}
}

func TestBounds_WindowsAndPairLimits_StayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	windows, limits := newWindows(), newPairLimits()
	for i := range maxWindows + 1_000 {
		now := start.Add(time.Duration(i) * time.Millisecond)
		pair := Pair{"1", fmt.Sprint(i)}
		windows.Open(pair, now)
		limits.Spend(pair, now)
		if !windows.IsOpen(pair, now) {
			t.Fatal("the window of the user who just wrote is closed")
		}
	}
	require.LessOrEqual(t, len(windows.opened), maxWindows)
	require.LessOrEqual(t, len(limits.buckets), maxPairs)
}

func TestBounds_UsersTokensAndFiles_StayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	d := newData(Config{}.withDefaults(), now)
	for i := range maxUsers + 10 {
		d.Users.Save(&User{Phone: fmt.Sprint(20_000_000_000 + i)})
	}
	require.LessOrEqual(t, len(d.Users.Saved), maxUsers)
	for i := range maxTokens + 10 {
		d.IssueToken(&Token{Value: fmt.Sprint(i), Accounts: []string{"1"}, Issued: now.Add(time.Duration(i))})
	}
	require.LessOrEqual(t, len(d.Tokens), maxTokens)
	require.NotNil(t, d.Tokens[DefaultToken], "the fixture's token stays")
	data := make([]byte, 1<<20)
	for range maxMediaBytes>>20 + 10 {
		d.AddFile(DefaultPhoneNumberID, "image/png", "", data, now.Add(time.Hour), now)
	}
	require.LessOrEqual(t, d.Files.bytes, maxMediaBytes)
	require.Len(t, d.Files.files, maxMediaBytes>>20)
	require.Len(t, d.Files.order, maxMediaBytes>>20)
}

func TestBounds_Messages_ThreadsHoldTheSameMessagesAsTheRing(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for i := range 2*maxRecent + 1 {
		s.AddMessage(&ChatMessage{ID: fmt.Sprint(i), PhoneNumberID: "1", Phone: fmt.Sprint(i % 7), Type: "text"})
	}
	total := 0
	for pair, thread := range s.Data.Threads {
		total += len(thread)
		require.Equal(t, thread[len(thread)-1], s.Data.Messages[thread[len(thread)-1].ID], pair)
	}
	require.Equal(t, maxRecent, total)
	require.Len(t, s.Data.Messages, maxRecent)
}
