package api_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/contacts"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

// TestMessages_ContactsMerged_ListedTogether: the ids of the merged contact and of its conversation
// go on to work as filters.
func TestMessages_ContactsMerged_ListedTogether(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	older := n.mustSend(t, message("text", `{"body":"0"}`))
	n.s.Clock.Move(time.Second)
	newer := n.mustSend(t, message("text", `{"body":"1"}`, "to", "", "recipient", `"PT.1"`))
	both := []string{newer["id"].(string), older["id"].(string)}
	merged := n.seen(t, contacts.Sighting{PhoneNumber: "+351910000001", BSUID: "PT.1"})
	require.Equal(t, older["contact_id"], merged[0].ID.String())
	n.s.Work(t)
	require.Eventually(t, func() bool {
		n.s.Wake(t)
		return len(n.Get(t, n.path+"/messages?contact_id="+older["contact_id"].(string)).List(t)) == 2
	}, 3*time.Minute, 100*time.Millisecond)
	field := func(name string, of map[string]any) string { return name + "=" + of[name].(string) }
	for _, query := range []string{
		"", field("contact_id", older), field("contact_id", newer), field("conversation_id", older), field("conversation_id", newer),
		field("contact_id", older) + "&" + field("conversation_id", newer),
	} {
		require.Equal(t, both, idsOf(n.Get(t, n.path+"/messages?"+query).List(t)), query)
	}
	moved := n.Get(t, n.path+"/messages/"+newer["id"].(string)).Data(t)
	require.Equal(t, []any{older["contact_id"], older["conversation_id"], "+351910000001", "PT.1"},
		[]any{moved["contact_id"], moved["conversation_id"], moved["to"], moved["bsuid"]})

	t.Run("contact that was merged, with a conversation", func(t *testing.T) {
		for _, conversation := range []map[string]any{older, newer} {
			query := field("contact_id", newer) + "&" + field("conversation_id", conversation)
			require.Equal(t, both, idsOf(n.Get(t, n.path+"/messages?"+query).List(t)), query)
		}
	})
}

func TestMessages_ContactDeleted_GoneAtOnce(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	sent, kept := n.mustSend(t, message("text", `{"body":"0"}`)), n.mustSend(t, message("text", `{"body":"1"}`, "to", `"+351910000002"`))
	require.Equal(t, 200, n.Do(t, "DELETE", n.path+"/contacts/"+sent["contact_id"].(string), nil).Status)
	requireRefusal(t, refusal{404, "not_found", "resource_not_found", ""}, n.Get(t, n.path+"/messages/"+sent["id"].(string)))
	for query, want := range map[string][]string{
		"": {kept["id"].(string)}, "contact_id=" + sent["contact_id"].(string): {}, "conversation_id=" + sent["conversation_id"].(string): {},
	} {
		require.Equal(t, want, idsOf(n.Get(t, n.path+"/messages?"+query).List(t)), query)
	}
}

func TestMessages_ContactDeleted_ErasedByTheJob(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	sent, kept := n.mustSend(t, message("text", `{"body":"0"}`)), n.mustSend(t, message("text", `{"body":"1"}`, "to", `"+351910000002"`))
	require.Equal(t, 200, n.Do(t, "DELETE", n.path+"/contacts/"+sent["contact_id"].(string), nil).Status)
	n.s.Work(t)
	require.Eventually(t, func() bool {
		n.s.Wake(t)
		return n.Get(t, n.path+"/messages/"+sent["id"].(string)).Status == 404
	}, 3*time.Minute, 100*time.Millisecond)
	require.Equal(t, []string{kept["id"].(string)}, idsOf(n.Get(t, n.path+"/messages").List(t)))
}

func TestMessages_Send_ConcurrentDuplicates_OneMessage(t *testing.T) {
	t.Parallel()
	n := numberOf(t, apitest.New(t))
	answers := make([]apitest.Answer, 20)
	var done sync.WaitGroup
	for i := range answers {
		done.Go(func() { answers[i] = n.send(t, sendTo("+351910000001"), "Idempotency-Key", "k") })
	}
	done.Wait()
	bodies := map[string]bool{}
	for _, answer := range answers {
		if answer.Status == 409 {
			require.Equal(t, "idempotency_in_progress", answer.Code())
			continue
		}
		require.Equal(t, 202, answer.Status, "%s", answer.Body)
		bodies[string(answer.Body)] = true
	}
	require.Len(t, bodies, 1)
	require.Equal(t, []int{1, 1, 1, 1, 1, 1}, n.stored(t))
}
