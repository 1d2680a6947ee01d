package messages_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReceive_Revoke_ByContactAndByBusiness(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Hello"), s.echo("wamid.2", "text", fields{"body": "Answer"}))
	s.Clock.Move(time.Minute)
	for range 2 {
		s.receive(t, s.said("wamid.3", "revoke", fields{"original_message_id": "wamid.1"}),
			s.echo("wamid.4", "revoke", fields{"original_message_id": "wamid.2"}),
			s.said("wamid.5", "revoke", fields{"original_message_id": "wamid.unknown"}))
	}
	require.Equal(t, 1, s.parked(t))
	s.Clock.Move(15 * time.Minute)
	require.Equal(t, 1, s.release(t))
	require.Zero(t, s.parked(t))
	for _, id := range []string{"wamid.1", "wamid.2"} {
		require.True(t, s.byID(t, id).IsRevoked, id)
	}
	require.JSONEq(t, `{"body":"Hello"}`, string(s.byID(t, "wamid.1").Content))
	require.Len(t, s.all(t), 2)
	require.Equal(t, 1, s.countEvents(t, "message.revoked"))
	data := s.bodyOf(t, "message.revoked")["data"].(fields)
	require.Equal(t, s.byID(t, "wamid.1").ID.String(), data["message_id"])
	require.Equal(t, "wamid.1", data["provider_id"])
}

func (s *fixture) edit(id, original, body string) item {
	inside := fields{"original_message_id": original}
	if body != "" {
		inside["message"] = fields{"type": "text", "text": fields{"body": body}}
	}
	return s.said(id, "edit", inside)
}

func TestReceive_Edits_FirstContentAndHistoryKept(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Helo"))
	s.Clock.Move(time.Minute)
	first := s.edit("wamid.2", "wamid.1", "Hell")
	s.Clock.Move(time.Minute)
	second := s.edit("wamid.3", "wamid.1", "Hello")
	s.receive(t, second)
	s.receive(t, first, second)
	s.receive(t, first)
	require.JSONEq(t, `{"body":"Hello"}`, string(s.byID(t, "wamid.1").Content), "the later edit counts, whichever comes first")
	require.Len(t, s.all(t), 1)
	require.Equal(t, 2, s.countEvents(t, "message.edited"))
	data := s.bodyOf(t, "message.edited")["data"].(fields)
	require.Equal(t, "Helo", data["original_content"])
	history := data["edit_history"].([]any)
	require.Len(t, history, 2)
	require.Equal(t, "Hell", history[0].(fields)["content"])
	require.Equal(t, "Hello", history[1].(fields)["content"])
}

// An edit of a picture has the new caption as the caption of a picture, or as the body of a text.
func TestReceive_EditOfAPicture_ChangesItsCaption(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.said("wamid.1", "image", fields{"id": "1", "mime_type": "image/png", "caption": "Lok"}))
	s.Clock.Move(time.Minute)
	s.receive(t, s.said("wamid.2", "edit", fields{
		"original_message_id": "wamid.1", "message": fields{"type": "image", "image": fields{"caption": "Look"}},
	}))
	require.JSONEq(t, `"Look"`, s.contentOf(t, "wamid.1", "caption"))
	s.Clock.Move(time.Minute)
	s.receive(t, s.edit("wamid.3", "wamid.1", "Look at it"))
	require.JSONEq(t, `"Look at it"`, s.contentOf(t, "wamid.1", "caption"))
	require.Empty(t, s.contentOf(t, "wamid.1", "body"))
	require.Equal(t, "Look at it", s.bodyOf(t, "message.edited")["data"].(fields)["new_content"])
}

// contentOf is a field of the content of a message, or empty.
func (s *fixture) contentOf(t *testing.T, id, field string) string {
	t.Helper()
	var content map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(s.byID(t, id).Content, &content))
	return string(content[field])
}

func TestReceive_EditWithoutContentOrOriginal_IsAMessage(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "Hello"))
	for range 2 {
		s.receive(t, s.edit("wamid.2", "wamid.1", ""), s.edit("wamid.3", "wamid.unknown", "Later"))
	}
	require.Equal(t, "unsupported", s.byID(t, "wamid.2").Type)
	require.JSONEq(t, `{"type":"edit"}`, string(s.byID(t, "wamid.2").Content))
	require.JSONEq(t, `{"body":"Later"}`, string(s.byID(t, "wamid.3").Content))
	require.Equal(t, 3, s.countEvents(t, "message.received"))
	require.Equal(t, "text", messageIn(t, s.bodyOf(t, "message.received"))["type"])
	require.Zero(t, s.countEvents(t, "message.edited"))
	s.receive(t, s.edit("wamid.4", "", ""))
	require.Nil(t, s.byID(t, "wamid.4").ReplyTo, "an edit that names no message answers none")
}

func TestReceive_AmendedByAnother_ChangesNothing(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	stranger := fields{"from": "351910000099"}
	s.receive(t, s.text("wamid.1", "Mine"), s.echo("wamid.2", "text", fields{"body": "Ours"}), s.text("wamid.3", "Hello", stranger))
	for i, original := range []string{"wamid.1", "wamid.2"} {
		edit := s.edit(fmt.Sprint("wamid.edit.", i), original, "Tampered")
		maps.Copy(edit.object, stranger)
		s.receive(t, edit, s.said(fmt.Sprint("wamid.revoke.", i), "revoke", fields{"original_message_id": original}, stranger))
		require.NotContains(t, string(s.byID(t, original).Content), "Tampered")
		require.False(t, s.byID(t, original).IsRevoked)
	}
	s.receive(t, s.edit("wamid.edit.3", "wamid.2", "Tampered"))
	require.NotContains(t, string(s.byID(t, "wamid.2").Content), "Tampered", "a contact cannot edit what the business wrote")
	require.Zero(t, s.countEvents(t, "message.edited")+s.countEvents(t, "message.revoked"))
}

// A contact that was stored with one national form of its number revokes from another.
func TestReceive_RevokedFromOtherNationalForm_Revoked(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.send(t, "+5511987654321")
	other := fields{"from": "551187654321"}
	s.receive(t, s.text("wamid.1", "Hello", other))
	require.Equal(t, "+5511987654321", *s.byID(t, "wamid.1").ContactNumber)
	s.receive(t, s.said("wamid.2", "revoke", fields{"original_message_id": "wamid.1"}, other))
	require.True(t, s.byID(t, "wamid.1").IsRevoked)
}

// TestReceive_RevokedBeforeItArrives_SameInAnyOrder receives the message after its revocation, each twice, and before that a
// revocation by a stranger.
func TestReceive_RevokedBeforeItArrives_SameInAnyOrder(t *testing.T) {
	t.Parallel()
	stranger := fields{"from": "351910000099"}
	for name, test := range map[string]struct {
		say    func(s *fixture, id, kind string, content fields) item
		events int
	}{
		"by a contact":     {func(s *fixture, id, kind string, content fields) item { return s.said(id, kind, content) }, 1},
		"in the phone app": {func(s *fixture, id, kind string, content fields) item { return s.echo(id, kind, content) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newIdleFixture(t)
			original := fields{"original_message_id": "wamid.1"}
			s.receive(t, s.said("wamid.2", "revoke", original, stranger))
			for range 2 {
				s.receive(t, test.say(s, "wamid.3", "revoke", original))
			}
			require.Equal(t, 2, s.parked(t))
			for range 2 {
				s.receive(t, test.say(s, "wamid.1", "text", fields{"body": "Hello"}))
			}
			s.Clock.Move(20 * time.Second)
			require.Equal(t, 2, s.release(t))
			require.True(t, s.byID(t, "wamid.1").IsRevoked)
			require.Len(t, s.all(t), 1)
			require.Zero(t, s.parked(t))
			require.Equal(t, test.events, s.countEvents(t, "message.revoked"))
		})
	}
}

// TestReceive_RevokedBeforeItArrives_LookedForUntilTheEnd has the message come minutes after its revocation.
func TestReceive_RevokedBeforeItArrives_LookedForUntilTheEnd(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.said("wamid.2", "revoke", fields{"original_message_id": "wamid.1"}))
	for range 40 {
		s.Clock.Move(20 * time.Second)
		require.Zero(t, s.release(t))
	}
	s.receive(t, s.text("wamid.1", "Hello"))
	require.False(t, s.byID(t, "wamid.1").IsRevoked)
	s.Clock.Move(20 * time.Second)
	require.Equal(t, 1, s.release(t))
	require.True(t, s.byID(t, "wamid.1").IsRevoked)
	require.Equal(t, 1, s.countEvents(t, "message.revoked"))
}

// TestReceive_ManyRevokedUnknown_NoneStarves has more revocations wait than are looked at in a round.
func TestReceive_ManyRevokedUnknown_NoneStarves(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	unknown := make([]item, 500)
	for i := range unknown {
		unknown[i] = s.said(fmt.Sprint("wamid.revoke.", i), "revoke", fields{"original_message_id": fmt.Sprint("wamid.unknown.", i)})
	}
	s.receive(t, unknown...)
	s.receive(t, s.said("wamid.2", "revoke", fields{"original_message_id": "wamid.1"}), s.text("wamid.3", "Hello"))
	s.receive(t, s.text("wamid.1", "Hello"))
	for range 2 {
		s.Clock.Move(20 * time.Second)
		s.release(t)
	}
	require.True(t, s.byID(t, "wamid.1").IsRevoked)
	require.Equal(t, 500, s.parked(t))
}

func TestReceive_RevokedInAGroup_Dropped(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.said("wamid.2", "revoke", fields{"original_message_id": "wamid.1"}, fields{"group_id": "group.1"}))
	require.Zero(t, s.parked(t))
}
