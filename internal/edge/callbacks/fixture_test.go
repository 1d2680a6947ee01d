package callbacks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/callbacks"
	"github.com/parley-chat/parley/internal/domain/orgs"
	edge "github.com/parley-chat/parley/internal/edge/callbacks"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/provider"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/pgtest"
)

// fixture is two cells of one directory and the ingress in front of them. Each cell
// has two consumers: the fixture's, which records the statuses that are applied, and that of accounts.
type fixture struct {
	*factory.World // the first cell

	other   *factory.World
	ingress *edge.Ingress

	mu      sync.Mutex
	applied map[string]int
	from    []callbacks.Inbound // what was applied
	poison  map[string]bool
}

// patience is how long a callback may take here, because the machine may be slow.
const patience = 3 * time.Minute

func newFixture(t *testing.T) *fixture {
	t.Helper()
	now := clock.NewManual(pgtest.Start())
	first, second := pgtest.Open(t), pgtest.Open(t)
	routes := directory.New(first, now)
	worlds := factory.In(t, routes, now, map[string]*postgres.DB{"first": first, "second": second})
	s := &fixture{World: worlds["first"], other: worlds["second"], applied: map[string]int{}, poison: map[string]bool{}}
	s.ingress = edge.New(edge.Deps{
		Cells:     map[string]*cell.Cell{"first": worlds["first"].Cell, "second": worlds["second"].Cell},
		Directory: routes, Provider: s.Network, Logger: canary.Logger(t),
	}).WithTimeout(patience)
	for _, world := range worlds {
		world.Callbacks.Consume(func() []callbacks.Consumer {
			return []callbacks.Consumer{s.consume, callbacks.OneByOne(world.Accounts.NotifiedTx)}
		})
	}
	return s
}

// consume takes statuses, and counts them when their transaction is committed.
func (s *fixture) consume(_ context.Context, tx *postgres.Tx, items []callbacks.Inbound) (left []callbacks.Inbound, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		status, taken := item.Item.(provider.Status)
		switch {
		case !taken:
			left = append(left, item)
		case s.poison[status.MessageID]:
			return nil, fmt.Errorf("%s is poison", status.MessageID)
		default:
			tx.AfterCommit(func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.applied[tx.Org().String()+" "+status.MessageID]++
				s.from = append(s.from, item)
			})
		}
	}
	return left, nil
}

// awaitApplied waits until a message's status was applied. A lane's row is gone a moment before the
// consumer counts, because it counts after the commit.
func (s *fixture) awaitApplied(t *testing.T, org orgs.ID, message string) {
	t.Helper()
	s.await(t, message+" is applied", func() bool { return s.count(org, message) > 0 })
	require.Equal(t, 1, s.count(org, message))
}

func (s *fixture) count(org orgs.ID, message string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied[org.String()+" "+message]
}

// await lets the cells work, and moves the clock for retries, until the condition is true.
func (s *fixture) await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		if reached() {
			return true
		}
		s.Pass(t, 10*time.Millisecond)
		s.other.Wake(t)
		return false
	}, 4*time.Minute, 20*time.Millisecond, what)
}

func sign(body []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// push pushes a genuine body and returns the answer.
func (s *fixture) push(t *testing.T, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	return s.pushSigned(t, body, sign(body, canary.AppSecret))
}

func (s *fixture) pushSigned(t *testing.T, body []byte, signatures ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, edge.Path, bytes.NewReader(body))
	for _, one := range signatures {
		request.Header.Add("X-Hub-Signature-256", one)
	}
	answer := httptest.NewRecorder()
	s.ingress.ServeHTTP(answer, request)
	return answer
}

// change is one change of a body.
func change(account, field string, value any) map[string]any {
	return map[string]any{"id": account, "changes": []any{map[string]any{"field": field, "value": value}}}
}

// statuses is a change with statuses of messages of a number.
func statuses(account, number string, messages ...string) map[string]any {
	all := make([]any, len(messages))
	for i, message := range messages {
		all[i] = map[string]any{"id": message, "status": "delivered", "timestamp": "1773480413", "recipient_id": "351910000000"}
	}
	return change(account, "messages", map[string]any{
		"messaging_product": "whatsapp", "metadata": map[string]any{"display_phone_number": "351200000001", "phone_number_id": number},
		"statuses": all,
	})
}

func body(t *testing.T, entries ...any) []byte {
	t.Helper()
	encoded, err := json.Marshal(map[string]any{"object": "whatsapp_business_account", "entry": entries})
	require.NoError(t, err)
	return encoded
}

// kept counts rows of a table in both cells.
func (s *fixture) kept(t *testing.T, table string) (count int) {
	t.Helper()
	for _, world := range []*factory.World{s.World, s.other} {
		found, err := postgres.One[int](t.Context(), world.DB.System("test"), `SELECT count(*) FROM `+table, nil)
		require.NoError(t, err)
		count += found
	}
	return count
}

func (s *fixture) quarantined(t *testing.T) []directory.Quarantined {
	t.Helper()
	all, err := s.Directory.Quarantined(t.Context(), 10_000)
	require.NoError(t, err)
	return all
}

func (s *fixture) aside(t *testing.T, state callbacks.State) []callbacks.Item {
	t.Helper()
	all, err := s.Callbacks.List(t.Context(), callbacks.Filter{State: state})
	require.NoError(t, err)
	return all
}

func words(answer *httptest.ResponseRecorder) string { return strings.TrimSpace(answer.Body.String()) }
