package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
)

// TestErasure_PreferenceComesAgain_NoContact repeats all preferences of a contact that was erased, not only the last.
func TestErasure_PreferenceComesAgain_NoContact(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	prefers := func(value string) item {
		s.Clock.Move(time.Second)
		return item{"user_preferences", "user_preferences", fields{
			"wa_id": ana, "category": "marketing_messages", "value": value, "timestamp": s.Clock.Now().Unix(),
		}}
	}
	people := func() int {
		return s.count(t, `SELECT count(*) FROM contacts WHERE org_id = @org_id AND departure IS NULL`, nil)
	}
	stop, late := prefers("stop"), prefers("stop")
	resume := prefers("resume")
	s.receive(t, stop, stop)
	s.receive(t, resume)
	_, err := s.Contacts.Delete(t.Context(), s.org, s.account, s.contact(t).ID)
	require.NoError(t, err)
	for _, batch := range [][]item{{stop}, {resume}, {resume, stop, stop}} {
		s.receive(t, batch...)
	}
	require.Zero(t, people())

	sibling := *s
	sibling.account = s.Account(t, s.org)
	sibling.receive(t, stop)
	require.Equal(t, contacts.OptedOut, sibling.contact(t).Marketing, "it is new for another number")
	s.receive(t, late)
	require.Equal(t, contacts.OptedOut, s.contact(t).Marketing, "a preference that was never applied is not lost")
}
