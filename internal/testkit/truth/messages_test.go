package truth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

const echoWait = 2 * time.Minute

// sends is a small run without violations: one message that the provider took once and reported as
// read, and one that it took twice, because its first answer was lost and no callback came.
type sends struct {
	fixture

	org     orgs.ID
	account accounts.Account
	plain   messages.Message
	doubled messages.Message
}

func newSends(t *testing.T) *sends {
	t.Helper()
	url := pgtest.URL(t)
	s := &sends{fixture: fixture{world: factory.On(t, pgtest.Connect(t, url))}}
	s.Cells, s.EchoWait = map[string]string{"test": url}, echoWait
	s.org, _ = s.world.Org(t)
	s.orgs = []orgs.ID{s.org}
	s.account = s.world.Account(t, s.org)
	s.world.Network.Control(t, "settings", map[string]any{"window": "off"})
	s.world.Network.Number(t, s.account.BusinessAccountID, *s.account.PhoneNumberID, nil)
	t.Run("sends", s.run) // its workers end with it
	s.EndedAt, s.Sends = s.world.Clock.Now(), truth.SimulatorSends(t, s.world.Network.URL)
	return s
}

func (s *sends) run(t *testing.T) {
	s.world.Work(t)
	s.plain = s.send(t, "+351910000001")
	s.await(t, func() bool { return s.status(t, s.plain) == messages.Sent })
	for _, status := range []string{provider.StatusSent, provider.StatusDelivered, provider.StatusRead} {
		s.report(t, s.plain, status)
	}
	s.write(t)
	s.world.Network.Control(t, "script", map[string]any{"outcome": map[string]any{"drop_answer": true}, "times": 1})
	s.doubled = s.send(t, "+351910000002")
	s.await(t, func() bool { return s.count(t, `SELECT count(*) FROM send_attempts WHERE org_id = @org_id`) == 1 })
	for range 7 { // in steps, because a lane counts as dead after a leap
		s.world.Pass(t, echoWait/6)
	}
	s.await(t, func() bool { return s.status(t, s.doubled) == messages.Sent })
	s.await(t, func() bool {
		return s.count(t, `SELECT count(*) FROM lane_rows JOIN lanes USING (lane_id) WHERE org_id = @org_id`) == 0
	})
	require.NoError(t, s.world.Quota.Flush(t.Context()))
}

func (s *sends) send(t *testing.T, to string) messages.Message {
	t.Helper()
	mark := truth.Mark()
	text, err := content.Parse(provider.TypeText, json.RawMessage(`{"body":"`+mark+`"}`))
	require.NoError(t, err)
	made, err := s.world.Messages.Send(t.Context(), s.org, s.account, messages.Terms{MonthlyLimit: 100_000},
		messages.Draft{To: to, Content: text, Source: messages.FromAPI})
	require.NoError(t, err)
	call := truth.Call{
		Org: s.org.String(), Key: "key of " + mark, Mark: mark, Event: "message.sent", Status: http.StatusAccepted,
		Body: fmt.Appendf(nil, `{"data":{"id":%q}}`, made.ID),
	}
	s.Calls = append(s.Calls, call, call)
	return made
}

func (s *sends) await(t *testing.T, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited in vain")
		s.world.Wake(t)
	}
}

func (s *sends) status(t *testing.T, of messages.Message) messages.Status {
	t.Helper()
	found, err := s.world.Messages.Get(t.Context(), s.org, s.account, of.ID)
	require.NoError(t, err)
	return found.Status
}

func (s *sends) count(t *testing.T, sql string) int {
	t.Helper()
	count, err := postgres.One[int](t.Context(), s.world.DB.Of(s.org), sql, nil)
	require.NoError(t, err)
	return count
}

// report applies a status of a message's first attempt.
func (s *sends) report(t *testing.T, of messages.Message, status string) {
	t.Helper()
	found, err := s.world.Messages.Get(t.Context(), s.org, s.account, of.ID)
	require.NoError(t, err)
	s.apply(t, fmt.Sprintf(`"statuses":[{"id":%q,"status":%q,"timestamp":"%d","recipient_id":"351910000001","biz_opaque_callback_data":"%s:1"}]`,
		*found.ProviderID, status, s.world.Clock.Now().Unix(), of.ID))
}

// write has a person write.
func (s *sends) write(t *testing.T) {
	t.Helper()
	s.Written = append(s.Written, "wamid.written")
	s.apply(t, fmt.Sprintf(`"contacts":[{"profile":{"name":"Ana"},"wa_id":"351910000001"}],`+
		`"messages":[{"from":"351910000001","id":"wamid.written","timestamp":"%d","type":"text","text":{"body":"Thanks"}}]`, s.world.Clock.Now().Unix()))
}

// apply applies a callback.
func (s *sends) apply(t *testing.T, fields string) {
	t.Helper()
	body := fmt.Sprintf(`{"object":"whatsapp_business_account","entry":[{"id":%q,"changes":[{"field":"messages","value":{`+
		`"messaging_product":"whatsapp","metadata":{"display_phone_number":"3512","phone_number_id":%q},%s}}]}]}`,
		s.account.BusinessAccountID, *s.account.PhoneNumberID, fields)
	items, err := s.world.Network.Parse([]byte(body))
	require.NoError(t, err)
	_, err = postgres.InTx(t.Context(), s.world.DB, s.org, func(tx *postgres.Tx) (struct{}, error) {
		arrivals := s.world.Messages.Arrivals()
		if _, err := arrivals.PeopleTx(t.Context(), tx, []callbacks.Inbound{{Notification: items[0]}}); err != nil {
			return struct{}{}, err
		}
		_, err := arrivals.MessagesTx(t.Context(), tx, nil)
		return struct{}{}, err
	})
	require.NoError(t, err)
}

// set changes the state of a message.
func (s *sends) set(t *testing.T, of messages.Message, columns string) {
	t.Helper()
	s.exec(t, `UPDATE message_states SET `+columns+` WHERE id = $1`, of.ID.Any().String())
}

// entry is the entry of an attempt in the provider's log.
func (s *sends) entry(of messages.Message, attempt int) *truth.Send {
	name := fmt.Sprintf("%s:%d", of.ID, attempt)
	return &s.Sends[slices.IndexFunc(s.Sends, func(one truth.Send) bool { return one.Reference == name })]
}

func TestCheck_GoodSends_NoViolations(t *testing.T) {
	t.Parallel()
	s := newSends(t)
	found := s.check(t)
	require.Empty(t, found.Violations)
	require.Equal(t, []int{4, 2, 3, 2, 1, 1, 1},
		[]int{found.Calls, found.Messages, found.Sends, found.Accepted, found.Ambiguous, found.Doubled, found.Resent})
}

// plantedSend is a fault in a run of sends, and a part of the violation that must be reported.
type plantedSend struct {
	name  string
	plant func(t *testing.T, s *sends)
	which truth.Invariant
	says  string
}

func plantedEnds() []plantedSend {
	return []plantedSend{
		{"an acknowledged message is gone", func(t *testing.T, s *sends) {
			s.exec(t, `DELETE FROM messages WHERE id = $1`, s.plain.ID.Any().String())
			s.exec(t, `DELETE FROM message_states WHERE id = $1`, s.plain.ID.Any().String())
		}, truth.Readable, "was acknowledged and is no row"},
		{"a message that waits", func(t *testing.T, s *sends) { s.set(t, s.plain, `status = 'pending'`) }, truth.Settled, "is still pending"},
		{"sent without an event", func(t *testing.T, s *sends) {
			s.exec(t, `DELETE FROM events WHERE type = 'message.sent' AND message_id = $1`, s.plain.ID.Any().String())
		}, truth.Settled, "without a message.sent"},
		{"failed without an event", func(t *testing.T, s *sends) {
			s.set(t, s.doubled, `status = 'failed', synthesized = true`)
		}, truth.Settled, "failed without an event"},
		{"two message.sent", func(t *testing.T, s *sends) {
			s.exec(t, `
INSERT INTO events (org_id, id, key, type, audience, phone_number_id, body, message_id)
SELECT org_id, overlay(id::text PLACING 'ffffffffffff' FROM 25)::uuid, key, type, audience, phone_number_id, body, message_id
FROM events WHERE type = 'message.sent' AND message_id = $1`, s.plain.ID.Any().String())
		}, truth.Delivered, "has 2 message.sent"},
		{"a status that goes back", func(t *testing.T, s *sends) { s.set(t, s.plain, `status = 'delivered'`) }, truth.Forward, "reported read"},
		{"our own failure after a proof", func(t *testing.T, s *sends) {
			s.set(t, s.plain, `status = 'failed', synthesized = true`)
		}, truth.Forward, "failed by our own word"},
		{"a status twice", func(t *testing.T, s *sends) {
			s.set(t, s.plain, `announced = 1`)
			s.report(t, s.plain, provider.StatusRead)
		}, truth.Delivered, "a second time"},
		{"a status of no message", func(t *testing.T, s *sends) {
			s.exec(t, `
UPDATE events SET message_id = NULL WHERE id = (SELECT id FROM events WHERE message_id = $1 AND type = 'message.status' LIMIT 1)`,
				s.plain.ID.Any().String())
		}, truth.Delivered, "is about no message"},
	}
}

func plantedReceived() []plantedSend {
	return []plantedSend{
		{"a message that was not stored", func(_ *testing.T, s *sends) { s.Written = append(s.Written, "wamid.lost") }, truth.Delivered, "it is no message"},
		{"a message without its event", func(t *testing.T, s *sends) {
			s.exec(t, `DELETE FROM events WHERE type = 'message.received'`)
		}, truth.Delivered, "it has 0 events"},
		{"an event that tells of no message", func(_ *testing.T, s *sends) { s.Written = nil }, truth.Delivered, "no person wrote wamid.written"},
		{"an event of another message", func(t *testing.T, s *sends) {
			s.exec(t, `UPDATE events SET message_id = $1 WHERE type = 'message.received'`, s.plain.ID.Any().String())
		}, truth.Delivered, "which is not the message wamid.written"},
	}
}

func plantedCopies() []plantedSend {
	return []plantedSend{
		{"three copies", func(_ *testing.T, s *sends) {
			s.Sends = append(s.Sends, truth.Send{ID: "wamid.third", NumberID: *s.account.PhoneNumberID, Reference: s.doubled.ID.String() + ":3"})
		}, truth.Copies, "3 times"},
		{"a copy without a cause", func(t *testing.T, s *sends) { s.set(t, s.doubled, `resent = false`) }, truth.Copies, "no attempt without"},
		{"sent again in spite of a callback", func(t *testing.T, s *sends) {
			at := s.entry(s.doubled, 1).At.Add(time.Second)
			s.exec(t, `INSERT INTO callbacks (org_id, id, body) VALUES ($1, $2, $3)`, s.org.String(),
				ids.New[callbacks.Kind](at).Any().String(), []byte(`{"biz_opaque_callback_data":"`+s.doubled.ID.String()+`:1"}`))
		}, truth.Copies, "a callback of its attempt 1 was stored 1"},
		{"an attempt twice", func(_ *testing.T, s *sends) {
			again := *s.entry(s.plain, 1)
			again.ID = "wamid.again"
			s.Sends = append(s.Sends, again)
		}, truth.Books, ":1 twice: as "},
		{"an entry that names no attempt", func(_ *testing.T, s *sends) {
			s.entry(s.plain, 1).Reference = "order 5"
		}, truth.Books, `the reference "order 5", which is no attempt`},
		{"an attempt that was not begun", func(_ *testing.T, s *sends) {
			s.entry(s.plain, 1).Reference = s.plain.ID.String() + ":2"
		}, truth.Books, "only 1 attempts were begun"},
		{"another number", func(_ *testing.T, s *sends) { s.entry(s.plain, 1).NumberID = "1" }, truth.Books, "not that of the message"},
		{"an id that the provider did not give", func(t *testing.T, s *sends) {
			s.set(t, s.plain, `provider_id = 'wamid.other'`)
		}, truth.Books, "has the id wamid.other"},
		{"sent and never taken", func(t *testing.T, s *sends) {
			s.Sends = slices.DeleteFunc(s.Sends, func(one truth.Send) bool { return strings.HasPrefix(one.Reference, s.plain.ID.String()) })
			s.set(t, s.plain, `provider_id = NULL`)
		}, truth.Books, "the provider never took it"},
		{"taken and noted as not called", func(t *testing.T, s *sends) {
			s.exec(t, `UPDATE send_attempts SET outcome = 'not_called' WHERE message_id = $1`, s.doubled.ID.Any().String())
		}, truth.Books, "noted as not_called"},
		{"taken and not noted", func(t *testing.T, s *sends) {
			s.exec(t, `DELETE FROM send_attempts WHERE message_id = $1`, s.doubled.ID.Any().String())
		}, truth.Books, "its id is not known"},
	}
}

func plantedWork() []plantedSend {
	lane := `(SELECT lane_id FROM lanes WHERE kind = 'sends')`
	return []plantedSend{
		{"a job that hangs", func(t *testing.T, s *sends) {
			s.exec(t, `INSERT INTO river.river_job (state, attempted_at, args, kind) VALUES ('running', $1, '{}', 'lane')`, s.EndedAt.Add(-2*time.Minute))
		}, truth.Working, "running for longer"},
		{"a job that was given up", func(t *testing.T, s *sends) {
			s.exec(t, `INSERT INTO river.river_job (state, finalized_at, args, kind) VALUES ('discarded', $1, '{}', 'lane')`, s.EndedAt)
		}, truth.Working, "is discarded"},
		{"a row that is left", func(t *testing.T, s *sends) {
			s.exec(t, `INSERT INTO lane_rows (lane_id, priority, due_at, id) VALUES (`+lane+`, 1, $1, gen_random_uuid())`, s.EndedAt.Add(-2*time.Minute))
		}, truth.Working, "due for longer"},
		{"a row that was set aside", func(t *testing.T, s *sends) {
			s.exec(t, `INSERT INTO lane_faults (lane_id, id, priority, class, times, reason, at, aside)
VALUES (`+lane+`, gen_random_uuid(), 1, 'call', 3, 'broken', $1, true)`, s.EndedAt)
		}, truth.Working, "was set aside: broken"},
		{"more messages than the plan allows", func(t *testing.T, s *sends) {
			s.plan(t, 1, 100)
		}, truth.Limits, "sent 2 messages; its plan allows 1"},
		{"more messages than were counted", func(t *testing.T, s *sends) {
			s.exec(t, `UPDATE quota_usage SET used = 1, allowed = 0 WHERE org_id = $1`, s.org.String())
		}, truth.Limits, "only 1 are counted"},
		{"messages that were not counted", func(t *testing.T, s *sends) {
			s.exec(t, `DELETE FROM quota_usage WHERE org_id = $1`, s.org.String())
		}, truth.Limits, "none is counted"},
		{"a number that sends too fast", func(_ *testing.T, s *sends) {
			for range 80*11 + 128 {
				s.Sends = append(s.Sends, *s.entry(s.plain, 1))
			}
		}, truth.Limits, "the provider takes 80 a second"},
		{"too many requests", func(t *testing.T, s *sends) {
			s.plan(t, 1_000_000, 1)
			for n := range 12 {
				s.exec(t, `INSERT INTO api_log (org_id, id, key_id, method, path, route, status, code, duration_us, user_agent, replayed)
VALUES ($1, $2, gen_random_uuid(), 'GET', '/', '/', 200, '', 1, '', false)`, s.org.String(),
					ids.New[callbacks.Kind](s.EndedAt.Add(time.Duration(n)*time.Millisecond)).Any().String())
			}
		}, truth.Limits, "made 12 requests in 10s"},
	}
}

// plan puts the organization on a plan of that many messages a month and requests a second.
func (s *sends) plan(t *testing.T, perMonth, perSecond int) {
	t.Helper()
	name := fmt.Sprint(perMonth, " ", perSecond)
	s.exec(t, `INSERT INTO plans VALUES ($1, true, true, $2, $3, $3, 365)`, name, perMonth, perSecond)
	s.exec(t, `UPDATE organizations SET plan = $2 WHERE org_id = $1`, s.org.String(), name)
}

// changed are the tables in which faults are planted.
var changed = []string{
	"messages", "message_states", "send_attempts", "callbacks", "events", "river.river_job", "lane_rows", "lane_faults", "quota_usage",
	"api_log",
}

// keep copies the tables. The function that it returns restores them.
func (s *sends) keep(t *testing.T) (restore func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.Cells["test"])
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	each := func(sql string) {
		for n, table := range changed {
			_, err := conn.Exec(t.Context(), fmt.Sprintf(sql, table, n))
			require.NoError(t, err)
		}
	}
	each(`CREATE TEMP TABLE kept_%[2]d AS TABLE %[1]s`) // the checker does not read temporary tables
	kept := slices.Clone(s.Sends)
	return func() {
		s.Sends = slices.Clone(kept)
		each(`DELETE FROM %[1]s -- %[2]d`)
		each(`INSERT INTO %[1]s TABLE kept_%[2]d`)
		_, err := conn.Exec(t.Context(), `UPDATE organizations SET plan = 'platform'`)
		require.NoError(t, err)
	}
}

func TestCheck_PlantedFaultInSends_Found(t *testing.T) {
	t.Parallel()
	s := newSends(t)
	restore := s.keep(t)
	for _, one := range slices.Concat(plantedEnds(), plantedReceived(), plantedCopies(), plantedWork()) {
		t.Run(one.name, func(t *testing.T) {
			restore()
			one.plant(t, s)
			found := s.check(t)
			require.True(t, slices.ContainsFunc(found.Violations, func(v truth.Violation) bool {
				return v.Invariant == one.which && strings.Contains(v.Sentence, one.says)
			}), "%s: %q is not among %v", one.which, one.says, found.Violations)
		})
	}
}
