package messages

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/lanes"
)

// An attempt that began and was never called has sent nothing: the message waits for another one.
func TestSettle_BegunAndNotCalled_StillPending(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	s := &Service{clock: clock.NewManual(now)}
	w := &sender{s: s}
	message := Message{
		Said:  Said{ID: ids.New[kind](now), Direction: Outbound},
		State: State{Status: Pending, Attempt: 1, BegunAt: &now},
	}
	b := newBook(s, accounts.Account{})
	one := &result{Outcome: lanes.Postponed, Task: &outgoing{Message: message}}
	require.Zero(t, w.settleOne(b, one, &message))
	require.Equal(t, Pending, message.Status)
	require.Nil(t, message.BegunAt, "the attempt is closed, so that the next one needs no callback")
	require.Nil(t, message.SentAt)
	require.Empty(t, b.sent)
	require.Empty(t, b.drafts)
	require.Equal(t, []*Message{&message}, b.changed)
}
