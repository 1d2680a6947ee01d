package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/cell"
	"github.com/parley-chat/parley/internal/domain/apikeys"
	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/labels"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/ratelimit"
	"github.com/parley-chat/parley/internal/platform/sealed"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/openapi"
)

// fixture serves a handler of the test in place of createLabel.
type fixture struct {
	*factory.World

	api   *API
	org   orgs.ID
	keyID apikeys.ID
	key   string
	log   *bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{World: factory.New(t), log: &bytes.Buffer{}}
	s.org, _ = s.Org(t)
	s.keyID, s.key = s.Key(t, s.org)
	contract, err := openapi.Load()
	require.NoError(t, err)
	ring, err := sealed.NewKeyring([]string{canary.Master})
	require.NoError(t, err)
	cursors, err := paging.NewCursors(ring)
	require.NoError(t, err)
	limiter := ratelimit.New(ratelimit.Options{Clock: s.Clock})
	t.Cleanup(limiter.Close)
	s.api, err = New(Deps{
		Cells: map[string]*cell.Cell{s.Name: s.Cell}, Directory: s.Directory, Contract: contract, Clock: s.Clock, Cursors: cursors, Limiter: limiter,
		Guesses: ratelimit.NewLocal(ratelimit.Limit{PerSecond: 1, Burst: 1}, s.Clock), Metrics: telemetry.NewMetrics("test"),
		Logger: canary.Logger(t, slog.NewJSONHandler(s.log, nil)), MaxInFlight: 10,
	})
	require.NoError(t, err)
	return s
}

// post runs a handler under POST /labels with an Idempotency-Key and returns its answer.
func (s *fixture) post(ctx context.Context, handler handler, key string) *httptest.ResponseRecorder {
	operation, _ := s.api.Contract.Operation(http.MethodPost, "/labels")
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/labels", bytes.NewBufferString(`{"name":"VIP"}`))
	request.Header.Set("Authorization", "Bearer "+s.key)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	recorder := httptest.NewRecorder()
	s.api.serve(&route{method: http.MethodPost, path: "/labels", handler: handler, operation: operation})(recorder, request)
	return recorder
}

func create(ctx context.Context, c *call, name string) (labels.Label, error) {
	return c.cell.Labels.Create(ctx, c.org(), labels.Draft{Name: name})
}

func TestOnce_HandlerWithoutTransaction_AnswerIsStored(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	ran := 0
	handler := func(c *call) (reply, error) {
		ran++
		answer := c.answer(http.StatusOK, map[string]int{"run": ran})
		answer.header = http.Header{"Etag": {`W/"1"`}}
		return answer, nil
	}
	first, again := s.post(t.Context(), handler, "k"), s.post(t.Context(), handler, "k")
	require.Equal(t, 200, first.Code)
	require.Equal(t, first.Body.String(), again.Body.String())
	require.Equal(t, `W/"1"`, again.Header().Get("ETag"), "headers are part of the answer")
	require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	require.Equal(t, 1, ran)
}

func TestOnce_HandlerThatCannotBeRepeated_InternalError(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]handler{
		"two transactions": func(c *call) (reply, error) {
			return write(c, http.StatusCreated, labels.Label.Resource, func(ctx context.Context) (labels.Label, error) {
				if _, err := create(ctx, c, "first"); err != nil {
					return labels.Label{}, err
				}
				return create(ctx, c, "second")
			})
		},
		"a change outside of write": func(c *call) (reply, error) {
			label, err := create(c.ctx(), c, "unseen")
			return c.answer(http.StatusOK, label.Resource()), err
		},
		"a verb that answers something else than its transaction": func(c *call) (reply, error) {
			return write(c, http.StatusCreated, func(name string) string { return name }, func(ctx context.Context) (string, error) {
				label, err := create(ctx, c, "other")
				return label.Name, err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			answer := s.post(t.Context(), handler, "k")
			require.Equal(t, 500, answer.Code)
			require.Contains(t, answer.Body.String(), "internal_error")
			require.NotContains(t, answer.Body.String(), "handler", "the cause is for the log")
			require.Contains(t, s.log.String(), `"error":`)
		})
	}
}

func TestPipeline_HandlerFailsOrPanics_InternalError(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]handler{
		"that panics":          func(*call) (reply, error) { panic("canary") },
		"that answers nothing": func(*call) (reply, error) { return reply{}, nil },
		"that fails":           func(*call) (reply, error) { return reply{}, errors.New("canary") },
		"that cannot be encoded": func(c *call) (reply, error) {
			return c.answer(http.StatusOK, func() {}), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			answer := s.post(t.Context(), handler, "k")
			require.Equal(t, 500, answer.Code)
			var body struct {
				Error struct{ Code, Message string } `json:"error"`
			}
			require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body))
			require.Equal(t, "internal_error", body.Error.Code)
			require.NotContains(t, body.Error.Message, "canary")
			require.Contains(t, s.log.String(), `"level":"ERROR"`)
		})
	}
}

func TestPipeline_CallerClosedConnection_LoggedAs499(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	s.post(ctx, func(c *call) (reply, error) {
		leave()
		_, err := postgres.One[int](c.ctx(), c.cell.DB.System("test"), `SELECT 1 FROM pg_sleep(5)`, nil)
		return reply{}, err
	}, "k")
	require.Contains(t, s.log.String(), `"status":499`)
	require.NotContains(t, s.log.String(), `"level":"ERROR"`)
}

// A key that is refused never gets a stored answer, although the answer is read with the key.
func TestOnce_RevokedKey_RefusedBeforeTheStoredAnswer(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	handler := func(c *call) (reply, error) { return c.answer(http.StatusOK, "said once"), nil }
	require.Equal(t, http.StatusOK, s.post(t.Context(), handler, "k").Code)
	_, err := s.Keys.Revoke(t.Context(), s.org, audit.Operator(), s.keyID)
	require.NoError(t, err)
	answer := s.post(t.Context(), handler, "k")
	require.Equal(t, http.StatusUnauthorized, answer.Code)
	require.Contains(t, answer.Body.String(), "revoked_api_key")
	require.NotContains(t, answer.Body.String(), "said once")
	require.Empty(t, answer.Header().Get("Idempotent-Replayed"))
}
