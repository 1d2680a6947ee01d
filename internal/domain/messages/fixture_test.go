package messages_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/messages/content"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// TestMain runs more tests in parallel than there are cores, because they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if runtime.GOMAXPROCS(0) < atOnce {
		_ = flag.Set("test.parallel", strconv.Itoa(atOnce))
	}
	os.Exit(m.Run())
}

const (
	atOnce = 4
	// patience bounds waits in real time.
	patience = 3 * time.Minute
	tick     = 20 * time.Millisecond
	// barriers is the start of the numbers to which fixture.barrier sends.
	barriers = "+35199"
)

// script is a provider whose answers to sends are given by a test. It parses callbacks as the real
// one does.
type script struct {
	provider.Port

	mu sync.Mutex
	// answer answers a send. Nil accepts it under the id that idOf returns.
	answer func(out provider.Outbound) (provider.Accepted, error)
	// read answers a receipt; nil accepts it.
	read     func(receipt provider.Receipt) error
	sent     []provider.Outbound
	receipts []provider.Receipt
	// uploads are the files that numbers uploaded, tries how often they tried. refuseUploads is how uploads fail; nil
	// accepts them.
	uploads       []uploaded
	tries         int
	refuseUploads error
}

func (s *script) Send(_ context.Context, _ provider.Number, out provider.Outbound) (provider.Accepted, error) {
	s.mu.Lock()
	answer := s.answer
	if strings.HasPrefix(out.To, barriers) {
		answer = nil
	} else {
		s.sent = append(s.sent, out)
	}
	s.mu.Unlock()
	if answer != nil {
		return answer(out)
	}
	return accepted(out)
}

func (s *script) MarkRead(_ context.Context, _ provider.Number, receipt provider.Receipt) error {
	s.mu.Lock()
	s.receipts = append(s.receipts, receipt)
	read := s.read
	s.mu.Unlock()
	if read != nil {
		return read(receipt)
	}
	return nil
}

// answers sets the answer to later sends.
func (s *script) answers(answer func(out provider.Outbound) (provider.Accepted, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// calls are the sends to a number, in their order.
func (s *script) calls(to string) (calls []provider.Outbound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, out := range s.sent {
		if out.To == to {
			calls = append(calls, out)
		}
	}
	return calls
}

func accepted(out provider.Outbound) (provider.Accepted, error) {
	return provider.Accepted{MessageID: "wamid." + strings.ReplaceAll(out.Reference, ":", ".")}, nil
}

// refuses answers every send with an error.
func refuses(failed *provider.Error) func(provider.Outbound) (provider.Accepted, error) {
	return func(provider.Outbound) (provider.Accepted, error) { return provider.Accepted{}, failed }
}

// ambiguous is a call that was cut off after its bytes left.
func ambiguous() *provider.Error {
	return &provider.Error{Class: provider.Retryable, Delivery: provider.Ambiguous, Code: "upstream_error", Title: "cut off"}
}

// referenceOf is what goes to the provider with an attempt, idOf the id that a script gives to it.
func referenceOf(m messages.Message, attempt int) string { return fmt.Sprintf("%s:%d", m.ID, attempt) }

func idOf(m messages.Message, attempt int) string { return fmt.Sprintf("wamid.%s.%d", m.ID, attempt) }

type fixture struct {
	*factory.World

	org     orgs.ID
	account accounts.Account
	net     *script
}

// newIdleFixture runs no workers.
func newIdleFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{World: factory.New(t)}
	s.net = &script{Port: s.Network.Port}
	s.Network.Port = s.net
	s.org, _ = s.World.Org(t)
	s.account = s.Account(t, s.org)
	return s
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := newIdleFixture(t)
	s.Work(t)
	return s
}

// beside is a fixture of another organization in the same cell.
func (s *fixture) beside(t *testing.T) *fixture {
	t.Helper()
	other := *s
	other.org, _ = s.World.Org(t)
	other.account = s.Account(t, other.org)
	return &other
}

func text(t *testing.T) content.Content {
	t.Helper()
	parsed, err := content.Parse(provider.TypeText, json.RawMessage(`{"body":"Hello"}`))
	require.NoError(t, err)
	return parsed
}

// send accepts a text from the fixture's account.
func (s *fixture) send(t *testing.T, to string) messages.Message {
	t.Helper()
	return s.sendDraft(t, messages.Draft{To: to})
}

func (s *fixture) sendDraft(t *testing.T, draft messages.Draft) messages.Message {
	t.Helper()
	draft.Content, draft.Source = text(t), messages.FromAPI
	made, err := s.Messages.Send(t.Context(), s.org, s.account, messages.Terms{MonthlyLimit: 1_000_000}, draft)
	require.NoError(t, err)
	require.Equal(t, messages.Queued, made.Status)
	return made
}

func (s *fixture) get(t *testing.T, of messages.Message) messages.Message {
	t.Helper()
	found, err := s.Messages.Get(t.Context(), s.org, s.account, of.ID)
	require.NoError(t, err)
	return found
}

// await lets the cell work until a condition is true. It does not move the clock.
func (s *fixture) await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached() && len(s.faults(t)) == 0; time.Sleep(tick) {
		require.True(t, time.Now().Before(deadline), "%s; faults: %v", what, s.faults(t))
		s.Wake(t)
	}
	require.Empty(t, s.faults(t))
}

// faults are the errors that the lanes have met.
func (s *fixture) faults(t *testing.T) []string {
	t.Helper()
	all, err := postgres.Many[string](t.Context(), s.DB.System("test"), `SELECT class || ': ' || reason FROM lane_faults`, nil)
	require.NoError(t, err)
	return all
}

// awaitStatus waits until a message has a status and its row has left the lane.
func (s *fixture) awaitStatus(t *testing.T, of messages.Message, status messages.Status) messages.Message {
	t.Helper()
	defer func() {
		if t.Failed() {
			rows, err := postgres.Many[string](context.WithoutCancel(t.Context()), s.DB.System("test"), `
				SELECT row_to_json(r)::text FROM lane_rows r
				UNION ALL SELECT row_to_json(l)::text FROM lanes l
				UNION ALL SELECT row_to_json(w)::text FROM media_waiting w`, nil)
			t.Logf("now: %+v; in lanes: %v %v", s.get(t, of).State, rows, err)
		}
	}()
	s.await(t, fmt.Sprintf("%s should be %s", of.ID, status), func() bool {
		return s.get(t, of).Status == status && s.count(t, `SELECT count(*) FROM lane_rows WHERE id = @id`, postgres.Args{"id": of.ID}) == 0
	})
	return s.get(t, of)
}

// awaitCalls waits until so many sends to a number were made and settled: the lane's row waits for
// later, or is gone.
func (s *fixture) awaitCalls(t *testing.T, of messages.Message, count int) {
	t.Helper()
	s.await(t, fmt.Sprintf("%d calls of %s", count, of.ID), func() bool {
		return len(s.net.calls(*of.ToNumber)) >= count &&
			s.count(t, `SELECT count(*) FROM lane_rows WHERE id = @id AND due_at <= @now`, postgres.Args{"id": of.ID, "now": s.Clock.Now()}) == 0
	})
	require.Len(t, s.net.calls(*of.ToNumber), count)
}

// barrier waits until the lane was drained up to now: it sends a message that is due after all others
// and waits until that is sent.
func (s *fixture) barrier(t *testing.T) {
	t.Helper()
	s.Clock.Move(time.Millisecond)
	s.awaitStatus(t, s.send(t, fmt.Sprintf("%s%08d", barriers, s.Clock.Now().UnixMilli()%100_000_000)), messages.Sent)
}

// count reads a number directly from the database.
func (s *fixture) count(t *testing.T, sql string, args postgres.Args) int {
	t.Helper()
	scope := s.DB.Of(s.org)
	if !strings.Contains(sql, "@org_id") {
		scope = s.DB.System("test")
	}
	count, err := postgres.One[int](t.Context(), scope, sql, args)
	require.NoError(t, err)
	return count
}

// exec changes rows of the organization directly.
func (s *fixture) exec(t *testing.T, sql string, args postgres.Args) {
	t.Helper()
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		touched, err := tx.Exec(ctx, sql, args)
		require.Positive(t, touched, sql)
		return err
	}))
}

func (s *fixture) inTx(t *testing.T, verb func(ctx context.Context, tx *postgres.Tx) error) error {
	t.Helper()
	_, err := postgres.InTx(t.Context(), s.DB, s.org, func(tx *postgres.Tx) (struct{}, error) {
		return struct{}{}, verb(t.Context(), tx)
	})
	return err
}

// status is a status as the provider writes it. More fields replace those.
func (s *fixture) status(id, status, reference string, more ...map[string]any) map[string]any {
	made := map[string]any{
		"id": id, "status": status, "timestamp": strconv.FormatInt(s.Clock.Now().Unix(), 10), "recipient_id": "351910000001",
	}
	if reference != "" {
		made["biz_opaque_callback_data"] = reference
	}
	for _, fields := range more {
		maps.Copy(made, fields)
	}
	return made
}

// errorsOf is the field errors of a failed status.
func errorsOf(codes ...int) map[string]any {
	var all []any
	for _, code := range codes {
		all = append(all, map[string]any{"code": code, "title": fmt.Sprintf("Failure %d", code)})
	}
	return map[string]any{"errors": all}
}

// body is a callback of the fixture's number.
func (s *fixture) body(t *testing.T, statuses ...map[string]any) []byte {
	t.Helper()
	encoded, err := json.Marshal(map[string]any{"object": "whatsapp_business_account", "entry": []any{map[string]any{
		"id": s.account.BusinessAccountID, "changes": []any{map[string]any{"field": "messages", "value": map[string]any{
			"messaging_product": "whatsapp", "statuses": statuses,
			"metadata": map[string]any{"display_phone_number": (*s.account.PhoneNumber)[1:], "phone_number_id": *s.account.PhoneNumberID},
		}}},
	}}})
	require.NoError(t, err)
	return encoded
}

// push applies statuses in one transaction.
func (s *fixture) push(t *testing.T, statuses ...map[string]any) {
	t.Helper()
	items, err := s.Network.Parse(s.body(t, statuses...))
	require.NoError(t, err)
	require.NoError(t, s.inTx(t, func(ctx context.Context, tx *postgres.Tx) error {
		inbound := postgres.Each(items, func(item provider.Notification) callbacks.Inbound { return callbacks.Inbound{Notification: item} })
		return s.apply(ctx, t, tx, inbound)
	}))
}

// apply applies items as the lane of callbacks does, without other consumers.
func (s *fixture) apply(ctx context.Context, t *testing.T, tx *postgres.Tx, items []callbacks.Inbound) error {
	t.Helper()
	arrivals := s.Messages.Arrivals()
	left, err := arrivals.PeopleTx(ctx, tx, items)
	require.Empty(t, left)
	if err == nil {
		_, err = arrivals.MessagesTx(ctx, tx, nil)
	}
	return err
}

// failure is the error that the provider answers with a code.
func (s *fixture) failure(t *testing.T, code int) *provider.Error {
	t.Helper()
	items, err := s.Network.Parse(s.body(t, s.status("wamid.x", provider.StatusFailed, "", errorsOf(code))))
	require.NoError(t, err)
	return items[0].Item.(provider.Status).Errors[0]
}

// event is a recorded event about messages.
type event struct {
	Type string
	Key  string
	Body []byte
}

// status is the one status in the body of a message.status.
func (e event) status(t *testing.T) (status struct {
	ID, Status, Timestamp string
	RecipientID           string  `json:"recipient_id"`
	Reference             *string `json:"biz_opaque_callback_data"`
	Errors                []struct {
		Code           int
		Title, Message string
	}
},
) {
	t.Helper()
	var body struct {
		Entry []struct {
			Changes []struct {
				Value struct{ Statuses []json.RawMessage }
			}
		}
	}
	require.NoError(t, json.Unmarshal(e.Body, &body), "%s", e.Body)
	require.NoError(t, json.Unmarshal(body.Entry[0].Changes[0].Value.Statuses[0], &status), "%s", e.Body)
	return status
}

// events are those about messages of the organization, oldest first.
func (s *fixture) events(t *testing.T) []event {
	t.Helper()
	all, err := postgres.Many[event](t.Context(), s.DB.Of(s.org),
		`SELECT type, key, body FROM events WHERE org_id = @org_id AND type LIKE 'message.%' ORDER BY id`, nil)
	require.NoError(t, err)
	for _, one := range all {
		require.NotRegexp(t, `msg_[0-9A-Z]+:\d`, string(one.Body), "our reference is shown to nobody")
	}
	return all
}

// told are the events of one message, each as its type, or the status that it tells.
func (s *fixture) told(t *testing.T, of messages.Message) (told []string) {
	t.Helper()
	for _, one := range s.events(t) {
		switch {
		case one.Type == "message.sent" && one.Key == of.ID.String()+":sent":
			told = append(told, one.Type)
		case one.Type == "message.status" && one.Key == of.ID.String():
			told = append(told, "own "+one.status(t).Status)
		case one.Type == "message.status" && strings.HasPrefix(one.Key, "wamid."+of.ID.String()):
			told = append(told, one.status(t).Status)
		}
	}
	slices.Sort(told)
	return told
}

// attempts are the noted attempts of a message that did not succeed.
func (s *fixture) attempts(t *testing.T, of messages.Message) []string {
	t.Helper()
	noted, err := postgres.Many[string](t.Context(), s.DB.Of(s.org), `
SELECT attempt || ' ' || outcome || coalesce(' ' || provider_code, '')
FROM send_attempts WHERE org_id = @org_id AND message_id = @id ORDER BY attempt`, postgres.Args{"id": of.ID})
	require.NoError(t, err)
	return noted
}
