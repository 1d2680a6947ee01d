package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
)

func TestReceive_Echo_SentAndEarlierIsRead(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	s.receive(t, s.text("wamid.1", "One"), s.text("wamid.2", "Two"))
	s.Clock.Move(time.Minute)
	s.receive(t, s.text("wamid.3", "Three"), s.echo("wamid.4", "text", fields{"body": "Answer"}), s.text("wamid.5", "Five"))
	for id, status := range map[string]messages.Status{
		"wamid.1": messages.Read, "wamid.2": messages.Read, "wamid.3": messages.Read, "wamid.5": messages.Delivered,
	} {
		require.Equal(t, status, s.byID(t, id).Status, id)
	}
	answer := s.byID(t, "wamid.4")
	require.Equal(t, messages.Outbound, answer.Direction)
	require.Equal(t, messages.FromApp, answer.Source)
	require.Equal(t, messages.Sent, answer.Status)
	require.Equal(t, 1, s.thread(t, answer).UnreadCount)
	data := s.bodyOf(t, "message.sent")["data"].(fields)
	sent := data["message"].(fields)
	require.Equal(t, []any{"app", "Answer", "wamid.4", "sent"}, []any{sent["source"], sent["body"], sent["provider_id"], sent["status"]})
	require.Equal(t, "+"+ana, sent["to"])

	s.push(t, s.status("wamid.4", provider.StatusDelivered, ""), s.status("wamid.4", provider.StatusRead, ""))
	require.Equal(t, messages.Read, s.byID(t, "wamid.4").Status)
	require.Equal(t, 1, s.countEvents(t, "message.sent"))
}

// An answer from the phone app reads what was sent before it, also when it comes late: what the contact wrote after it stays unread.
func TestReceive_EchoComesLate_OnlyEarlierIsRead(t *testing.T) {
	t.Parallel()
	for name, batches := range map[string][][]string{
		"one by one":                {{"question"}, {"answer"}, {"again"}, {"urgent"}},
		"the answers last":          {{"question"}, {"urgent"}, {"answer"}, {"again"}},
		"the answers last, batched": {{"question", "urgent"}, {"again", "answer"}},
		"with the later message":    {{"question"}, {"urgent", "answer", "again"}},
		"one batch":                 {{"question", "answer", "again", "urgent"}},
		"one batch, reversed":       {{"urgent", "again", "answer", "question"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newIdleFixture(t)
			said := map[string]item{"question": s.text("wamid.1", "When do you open?")}
			s.Clock.Move(time.Minute)
			said["answer"] = s.echo("wamid.2", "text", fields{"body": "At nine."})
			s.Clock.Move(time.Minute)
			said["again"] = s.echo("wamid.3", "text", fields{"body": "On Sundays at ten."})
			s.Clock.Move(time.Minute)
			said["urgent"] = s.text("wamid.4", "Please call me!")
			for _, batch := range batches {
				s.receive(t, postgres.Each(batch, func(name string) item { return said[name] })...)
			}
			question, urgent := s.byID(t, "wamid.1"), s.byID(t, "wamid.4")
			require.Equal(t, []messages.Status{messages.Read, messages.Delivered}, []messages.Status{question.Status, urgent.Status})
			require.Equal(t, s.byID(t, "wamid.2").SentAt, question.ReadAt, "by the first answer")
			require.Equal(t, 1, s.thread(t, urgent).UnreadCount)
		})
	}
}
