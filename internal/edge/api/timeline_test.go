package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/schema"
)

const person = "+351910000001"

// storyFixture is a number on the simulated network, with a subscription whose receiver answers message.status with 500 until
// accepts is closed. id is the message of the story.
type storyFixture struct {
	number

	endpoint *receiver.Receiver
	accepts  chan struct{}
	id       string
}

func newStoryFixture(t *testing.T) *storyFixture {
	t.Helper()
	f := &storyFixture{number: numberOf(t, apitest.New(t)), endpoint: receiver.New(t), accepts: make(chan struct{})}
	f.s.Network.Number(t, f.account.BusinessAccountID, *f.account.PhoneNumberID, map[string]any{"display_phone_number": *f.account.PhoneNumber})
	f.endpoint.Answer(func(r receiver.Request) receiver.Answer {
		select {
		case <-f.accepts:
		default:
			if r.Event() == "message.status" {
				return receiver.Answer{Status: 500}
			}
		}
		return receiver.Answer{}
	})
	made := f.Post(t, subscriptions, map[string]any{"url": f.endpoint.URL, "events": []string{"message.sent", "message.status", "message.received"}})
	require.Equal(t, 201, made.Status, "%s", made.Body)
	f.s.Work(t)
	return f
}

// until waits, without moving the clock.
func (f *storyFixture) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !reached(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), what)
		f.s.Wake(t)
	}
}

func (f *storyFixture) count(t *testing.T, sql string) int {
	t.Helper()
	count, err := postgres.One[int](t.Context(), f.s.DB.Of(f.Org), sql, nil)
	require.NoError(t, err)
	return count
}

// reference is what the network knows the first attempt by. Its number is 1, or more on a machine that stands still: the number
// of an attempt whose call never started is not used again.
func (f *storyFixture) reference(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(f.id, ":", f.count(t, `SELECT min(attempt) FROM send_attempts WHERE org_id = @org_id`))
}

// push stores a callback with one status, or one message, of the number.
func (f *storyFixture) push(t *testing.T, what string, item map[string]any) {
	t.Helper()
	item["timestamp"] = strconv.FormatInt(f.s.Clock.Now().Unix(), 10)
	body, err := json.Marshal(map[string]any{"object": "whatsapp_business_account", "entry": []any{map[string]any{
		"id": f.account.BusinessAccountID, "changes": []any{map[string]any{"field": "messages", "value": map[string]any{
			"messaging_product": "whatsapp", what: []any{item},
			"metadata": map[string]any{"display_phone_number": (*f.account.PhoneNumber)[1:], "phone_number_id": *f.account.PhoneNumberID},
		}}},
	}}})
	require.NoError(t, err)
	outcomes, err := f.s.Callbacks.Store(t.Context(), []callbacks.Part{
		{OrgID: f.Org, NumberID: *f.account.PhoneNumberID, Generation: f.account.Generation, Body: body},
	})
	require.NoError(t, err)
	require.Equal(t, []callbacks.Outcome{callbacks.Stored}, outcomes)
}

// newest is the newest delivery of an event.
func (f *storyFixture) newest(t *testing.T, event string) map[string]any {
	t.Helper()
	found := f.Get(t, deliveries+"?limit=1&event_type="+event).List(t)
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// awaitDelivery waits until the newest delivery of an event has a status and a number of attempts.
func (f *storyFixture) awaitDelivery(t *testing.T, event, status string, attempts int) (found map[string]any) {
	t.Helper()
	f.until(t, fmt.Sprintf("%s should be %s after %d attempts", event, status, attempts), func() bool {
		found = f.newest(t, event)
		return found != nil && found["status"] == status && found["attempt_count"] == float64(attempts)
	})
	return found
}

// trouble sends a message whose first answer is lost. It is sent again and delivered late; the webhook of that dies and is replayed.
func (f *storyFixture) trouble(t *testing.T) {
	t.Helper()
	f.s.Network.Control(t, "script", map[string]any{
		"match": map[string]any{"to": person[1:]}, "outcome": map[string]any{"drop_answer": true}, "times": 1,
	})
	f.id = f.mustSend(t, sendTo(person))["id"].(string)
	f.until(t, "the first attempt has no answer", func() bool {
		return f.count(t, `SELECT count(*) FROM send_attempts WHERE org_id = @org_id`) == 1
	})
	f.s.Pass(t, 2*time.Minute)
	f.awaitDelivery(t, "message.sent", "succeeded", 1)

	f.s.Pass(t, time.Hour)
	f.push(t, "statuses", map[string]any{
		"id": "wamid.first", "status": "delivered", "recipient_id": person[1:], "biz_opaque_callback_data": f.reference(t),
	})
	for attempt := 1; attempt < 10; attempt++ {
		failed := f.awaitDelivery(t, "message.status", "failed", attempt)
		due, err := time.Parse(time.RFC3339, failed["next_attempt_at"].(string))
		require.NoError(t, err)
		f.s.Pass(t, due.Sub(f.s.Clock.Now()))
	}
	dead := f.awaitDelivery(t, "message.status", "dead", 10)
	close(f.accepts)
	f.s.Pass(t, time.Hour)
	require.Equal(t, 201, f.Post(t, deliveries+"/"+dead["id"].(string)+"/replay", nil).Status)
	f.awaitDelivery(t, "message.status", "succeeded", 1)
	f.s.Logs.Flush()
}

func (f *storyFixture) timeline(t *testing.T) apitest.Answer {
	t.Helper()
	answer := f.Get(t, f.path+"/messages/"+f.id+"/timeline?limit=100")
	require.Equal(t, 200, answer.Status, "%s", answer.Body)
	return answer
}

// steps prints the entries of a timeline, one line for each, and checks that they are in order and have ids of their own. It
// counts attempts from 1, whatever their numbers are.
func steps(t *testing.T, answer apitest.Answer) (lines []string) {
	t.Helper()
	last, seen, attempts := "", map[any]bool{}, 0
	for _, one := range answer.List(t) {
		require.LessOrEqual(t, last, one["at"].(string), "oldest first")
		require.False(t, seen[one["id"]], "%s stands twice", one["id"])
		last, seen[one["id"]] = one["at"].(string), true
		detail := one["detail"].(map[string]any)
		require.NotEmpty(t, detail["summary"])
		words := []string{one["kind"].(string)}
		if one["kind"] == "attempt" {
			require.True(t, strings.HasSuffix(one["id"].(string), fmt.Sprint(":", detail["attempt"])), "%s", one["id"])
			attempts++
			detail["attempt"] = attempts
		}
		for _, field := range []string{
			"attempt", "outcome", "resend", "type", "status", "known_by", "attempt_count", "response_status", "error_code", "code", "provider_code",
		} {
			if detail[field] != nil {
				words = append(words, fmt.Sprint(detail[field]))
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

func missing(t *testing.T, answer apitest.Answer) (all []string) {
	t.Helper()
	all = []string{}
	for _, one := range answer.JSON(t)["left_out"].([]any) {
		left := one.(map[string]any)
		require.NotEmpty(t, left["message"])
		all = append(all, fmt.Sprint(left["kind"], " ", left["reason"]))
	}
	return all
}

// TestTimeline_TroubledMessage_CompleteAndInOrder: the answer to the first attempt is lost, the message is sent again and delivered late, and the
// webhook of that dies and is replayed.
func TestTimeline_TroubledMessage_CompleteAndInOrder(t *testing.T) {
	t.Parallel()
	f := newStoryFixture(t)
	f.trouble(t)
	answer := f.timeline(t)
	want := []string{
		"request 202", "accepted text queued", "attempt 1 unknown", "attempt 2 sent true", "status sent answer",
		"event message.sent", "delivery message.sent succeeded 1 200",
		"status delivered callback", "event message.status delivered", "delivery message.status dead 10 500 status",
	}
	for attempt := range 10 {
		want = append(want, fmt.Sprintf("delivery %d message.status 500 status", attempt+1))
	}
	want = append(want, "delivery message.status succeeded 1 200")
	require.Equal(t, want, steps(t, answer))
	require.Empty(t, missing(t, answer))

	all := answer.List(t)
	first, second := all[2], all[3]
	require.Equal(t, f.reference(t), first["id"])
	require.Equal(t, second["at"], first["detail"].(map[string]any)["waited_until"], "it waited until it was sent again")
	require.Regexp(t, `did not say within .* whether it took the message\. Parley waited until .* took both`, summary(first))
	require.Equal(t, "Delivered to the person's phone.", summary(all[7]))
	dead, replay := all[9], all[20]
	require.Regexp(t, `^The receiver \(127\.0\.0\.1:\d+\) did not take the event in 10 attempts, and Parley gave up\.`, summary(dead))
	require.Regexp(t, `^This is a replay\. The receiver .* answered 200`, summary(replay))
	require.Equal(t, dead["id"], replay["detail"].(map[string]any)["replayed_from"])
	for i := range 9 {
		require.Equal(t, all[11+i]["at"], all[10+i]["detail"].(map[string]any)["next_attempt_at"], "attempt %d", i+1)
	}
	require.NotContains(t, all[19]["detail"], "next_attempt_at")
	require.Contains(t, summary(all[19]), "Parley gave up.")

	t.Run("walked three by three", func(t *testing.T) {
		require.Equal(t, idsOf(all), walk(t, f.Client, f.path+"/messages/"+f.id+"/timeline?limit=3"))
	})
	t.Run("cursor of another message", func(t *testing.T) {
		cursor := f.Get(t, f.path+"/messages/"+f.id+"/timeline?limit=3").JSON(t)["next_cursor"].(string)
		other := f.mustSend(t, sendTo("+351910000002"))["id"].(string)
		refused := f.Get(t, f.path+"/messages/"+other+"/timeline?cursor="+cursor)
		require.Equal(t, []any{400, "invalid_cursor"}, []any{refused.Status, refused.Code()})
	})
	t.Run("after its periods", func(t *testing.T) { f.requireExpired(t) })
}

func summary(of map[string]any) string { return of["detail"].(map[string]any)["summary"].(string) }

// requireExpired lets the periods of the API log, events and deliveries end. What is older is left out before its partition is
// dropped, and the replay, which is younger, stays as long as its own period.
func (f *storyFixture) requireExpired(t *testing.T) {
	t.Helper()
	kept := []string{"accepted text queued", "attempt 1 unknown", "attempt 2 sent true", "status sent answer", "status delivered callback"}
	sqlSent := `SELECT count(*) FROM events WHERE org_id = @org_id AND key = '` + f.id + `:sent'`
	gone := []string{"request expired", "event expired", "delivery expired"}
	f.laterBy(t, 31*24*time.Hour-29*time.Hour)
	answer := f.timeline(t)
	require.Equal(t, append(kept, "delivery message.status succeeded 1 200"), steps(t, answer))
	require.Equal(t, gone, missing(t, answer))
	require.Equal(t, 1, f.count(t, sqlSent), "its partition is still there")

	f.laterBy(t, 10*24*time.Hour)
	expiry := postgres.NewExpiry(f.s.DB, schema.Partitioned())
	for {
		dropped, err := expiry.Round(t.Context(), f.s.Clock.Now(), time.Hour)
		require.NoError(t, err)
		if len(dropped) == 0 {
			break
		}
	}
	require.Zero(t, f.count(t, sqlSent))
	answer = f.timeline(t)
	require.Equal(t, kept, steps(t, answer))
	require.Equal(t, gone, missing(t, answer))
	require.Contains(t, answer.JSON(t)["left_out"].([]any)[1].(map[string]any)["message"], "kept for 30 days: those before 2026-03-")
}

// laterBy moves the clock, and makes partitions for then.
func (f *storyFixture) laterBy(t *testing.T, by time.Duration) {
	t.Helper()
	f.s.Pass(t, by)
	require.NoError(t, f.s.DB.EnsurePartitions(t.Context(), schema.Partitioned(), f.s.Clock.Now()))
}

// TestTimeline_Waiting_SaysForWhat: messages and deliveries that are not done yet.
func TestTimeline_Waiting_SaysForWhat(t *testing.T) {
	t.Parallel()
	f := newStoryFixture(t)
	f.s.Network.Control(t, "script", map[string]any{
		"match": map[string]any{"to": person[1:]}, "outcome": map[string]any{"drop_answer": true}, "times": 1,
	})
	f.id = f.mustSend(t, sendTo(person))["id"].(string)
	f.until(t, "the first attempt has no answer", func() bool {
		return f.count(t, `SELECT count(*) FROM send_attempts WHERE org_id = @org_id`) == 1
	})
	answer := f.timeline(t)
	require.Equal(t, []string{"accepted text queued", "attempt 1 unknown"}, steps(t, answer))
	require.Equal(t, []string{"request not_logged"}, missing(t, answer))
	require.Contains(t, summary(answer.List(t)[1]), "Parley waits until 2026-03-14 09:28:53 UTC for a callback before it sends the message again.")

	f.push(t, "statuses", map[string]any{
		"id": "wamid.1", "status": "failed", "recipient_id": person[1:], "biz_opaque_callback_data": f.reference(t),
		"errors": []any{map[string]any{"code": 131047, "title": "Re-engagement message"}},
	})
	f.awaitDelivery(t, "message.status", "failed", 1)
	f.awaitDelivery(t, "message.sent", "succeeded", 1)
	answer = f.timeline(t)
	lines, all := steps(t, answer), answer.List(t)
	require.Equal(t, []string{
		"accepted text queued", "attempt 1 unknown", "status failed callback outside_24h_window 131047", "event message.sent", "event message.status failed",
	}, lines[:5])
	require.Regexp(t, `^The provider reported that the message was not delivered: Re-engagement message\. .* only a template can be sent\.$`, summary(all[2]))
	// Deliveries of the same millisecond have no order.
	require.ElementsMatch(t, []string{
		"delivery message.sent succeeded 1 200", "delivery message.status failed 1 500 status", "delivery 1 message.status 500 status",
	}, lines[5:])
	failed := all[5+slices.Index(lines[5:], "delivery message.status failed 1 500 status")]
	require.Regexp(t, `did not take the event in one attempt\. The next attempt is at 2026-03-14 09:2`, summary(failed))
}

// TestTimeline_Inbound_ReceivedDeliveredRead: a message of a person has a timeline, too.
func TestTimeline_Inbound_ReceivedDeliveredRead(t *testing.T) {
	t.Parallel()
	f := newStoryFixture(t)
	f.push(t, "messages", map[string]any{"id": "wamid.in", "from": person[1:], "type": "text", "text": map[string]any{"body": "Hi"}})
	f.awaitDelivery(t, "message.received", "succeeded", 1)
	f.id = f.Get(t, f.path+"/messages").List(t)[0]["id"].(string)
	f.s.Clock.Move(time.Minute)
	require.Equal(t, 200, f.Post(t, f.path+"/messages", receiptOf("wamid.in")).Status)
	answer := f.timeline(t)
	require.Equal(t, []string{
		"accepted text delivered", "event message.received", "delivery message.received succeeded 1 200", "status read parley",
	}, steps(t, answer))
	require.Empty(t, missing(t, answer))
	require.Equal(t, "2026-03-14T09:26:53.000Z", answer.List(t)[0]["detail"].(map[string]any)["sent_at"])
}

// TestTimeline_GivenUpThenProved_KeepsBoth: no attempt has an answer, Parley gives the message up, and a callback comes later.
func TestTimeline_GivenUpThenProved_KeepsBoth(t *testing.T) {
	t.Parallel()
	for status, superseding := range map[string]string{
		"delivered": "status delivered callback", "failed": "status failed callback outside_24h_window 131047",
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			f := newStoryFixture(t)
			close(f.accepts)
			f.s.Network.Control(t, "script", map[string]any{
				"match": map[string]any{"to": person[1:]}, "outcome": map[string]any{"drop_answer": true}, "times": 2,
			})
			f.id = f.mustSend(t, sendTo(person))["id"].(string)
			for attempts := 1; attempts <= 2; attempts++ {
				f.until(t, "an attempt has no answer", func() bool {
					return f.count(t, `SELECT count(*) FROM send_attempts WHERE org_id = @org_id`) == attempts
				})
				f.s.Pass(t, 2*time.Minute)
			}
			f.awaitDelivery(t, "message.status", "succeeded", 1)
			require.Contains(t, steps(t, f.timeline(t)), "status failed parley upstream_error")

			f.s.Clock.Move(time.Minute)
			item := map[string]any{"id": "wamid.first", "status": status, "recipient_id": person[1:], "biz_opaque_callback_data": f.reference(t)}
			if status == "failed" {
				item["errors"] = []any{map[string]any{"code": 131047, "title": "Re-engagement message"}}
			}
			f.push(t, "statuses", item)
			f.awaitDelivery(t, "message.sent", "succeeded", 1)
			answer := f.timeline(t)
			lines, all := steps(t, answer), answer.List(t)
			gaveUp, proved := slices.Index(lines, "status failed parley"), slices.Index(lines, superseding)
			require.Positive(t, gaveUp, "%q", lines)
			require.Greater(t, proved, gaveUp, "%q", lines)
			require.Equal(t, f.id+":superseded", all[gaveUp]["id"])
			require.Regexp(t, `^Parley gave the message up: .*\. A callback of the provider came later, and counts instead\.$`, summary(all[gaveUp]))
		})
	}
}

// TestTimeline_InboundFileFailed_HasItsCode: the provider tells instead of a file that it could not get it.
func TestTimeline_InboundFileFailed_HasItsCode(t *testing.T) {
	t.Parallel()
	f := newStoryFixture(t)
	f.push(t, "messages", map[string]any{
		"id": "wamid.in", "from": person[1:], "type": "image", "image": map[string]any{"id": "999999", "mime_type": "image/png"},
		"errors": []any{map[string]any{"code": 131052, "title": "Media download error"}},
	})
	f.awaitDelivery(t, "message.received", "succeeded", 1)
	f.id = f.Get(t, f.path+"/messages").List(t)[0]["id"].(string)
	answer := f.timeline(t)
	require.Equal(t, "accepted image delivered media_download_failed 131052", steps(t, answer)[0])
	require.Equal(t, "The person's message arrived, and Parley stored it. "+
		"Its file could not be downloaded (its error 131052): Media download error.", summary(answer.List(t)[0]))
}
