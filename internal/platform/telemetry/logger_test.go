package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/internal/testkit/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	canary = "Canary-0_tail24chars_XyZ"
	apiKey = "svc_live_" + canary
)

func logger(t testing.TB, format string) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, "debug", format)
	require.NoError(t, err)
	return log, &out
}

type described struct{ text string }

func (d described) String() string       { return d.text }
func (d described) LogValue() slog.Value { return slog.GroupValue(slog.String("inner", d.text)) }

// The key is logged in every way in which it could be logged by mistake.
func TestLogger_APIKey_Masked(t *testing.T) {
	t.Parallel()
	ways := map[string]func(ctx context.Context, log *slog.Logger){
		"message":   func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "with "+apiKey+" inside") },
		"string":    func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", "a", apiKey) },
		"twice":     func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", "a", apiKey+" "+apiKey+apiKey) },
		"cut short": func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", "a", apiKey[:29]) },
		"in a query": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", "/v1/me?key="+apiKey+"&x=1")
		},
		"name":  func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", apiKey, 1) },
		"error": func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", "a", errors.New("bad "+apiKey)) },
		"wrapped error": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", fmt.Errorf("w: %w", errors.New(apiKey)))
		},
		"bytes": func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", "a", []byte(apiKey)) },
		"raw json": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", json.RawMessage(`"`+apiKey+`"`))
		},
		"struct": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", struct{ A []string }{[]string{apiKey}})
		},
		"pointer": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", &struct{ A string }{apiKey})
		},
		"map": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", map[string]any{"x": apiKey})
		},
		"url":        func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", "a", &url.URL{Path: apiKey}) },
		"valuer":     func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", "a", described{apiKey}) },
		"group":      func(ctx context.Context, log *slog.Logger) { log.InfoContext(ctx, "m", slog.Group("g", "a", apiKey)) },
		"with":       func(ctx context.Context, log *slog.Logger) { log.With("a", apiKey).InfoContext(ctx, "m") },
		"with group": func(ctx context.Context, log *slog.Logger) { log.WithGroup(apiKey).InfoContext(ctx, "m", "a", apiKey) },
		"context": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(telemetry.With(ctx, slog.String("a", apiKey)), "m")
		},
		"split by an escape": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", "svc_\x1b[0mlive_"+canary)
		},
		"header": func(ctx context.Context, log *slog.Logger) {
			log.InfoContext(ctx, "m", "a", http.Header{"Authorization": {"Bearer " + apiKey}})
		},
	}
	for _, format := range []string{"json", "text"} {
		for name, say := range ways {
			t.Run(format+" "+name, func(t *testing.T) {
				t.Parallel()
				log, out := logger(t, format)
				say(t.Context(), log)
				if name == "split by an escape" && format == "json" {
					assert.NotContains(t, out.String(), apiKey)
					return // not a key any more
				}
				assert.NotContains(t, out.String(), canary[:20])
				assert.Contains(t, out.String(), "[hidden]")
				assert.Equal(t, 1, strings.Count(out.String(), "\n"))
			})
		}
	}
}

func TestLogger_SecretNames_Hidden(t *testing.T) {
	t.Parallel()
	names := []string{
		"authorization", "Authorization", "api_key", "secret", "token", "pin", "password", "PASSWORD",
		"app_secret", "verify_token", "X-Api-Key", "apikey", "proxy-authorization",
	}
	for _, format := range []string{"json", "text"} {
		for _, name := range names {
			log, out := logger(t, format)
			log.InfoContext(t.Context(), "m", name, canary, slog.Group(name, "a", canary), "number", 5)
			log.With(name, canary).WithGroup(name).InfoContext(t.Context(), "m", "a", canary)
			log.InfoContext(telemetry.With(t.Context(), slog.Any(name, errors.New(canary))), "m")
			log.InfoContext(t.Context(), "m", "a", map[string]string{name: canary}, "b", map[string]any{name: canary})
			log.InfoContext(t.Context(), "m", "a", map[string][]string{name: {canary}}, "b", http.Header{name: {canary}})
			assert.NotContains(t, out.String(), canary, name)
			assert.Contains(t, out.String(), "number")
		}
		log, out := logger(t, format)
		log.InfoContext(t.Context(), "m", "key", "shown1", "spinning", "shown2", "token_count", "shown3", "idempotency_key", "shown4", "", "shown5")
		assert.Equal(t, 5, strings.Count(out.String(), "shown"))
	}
}

func TestLogger_Line_AllAttributes(t *testing.T) {
	t.Parallel()
	log, out := logger(t, "")
	ctx := telemetry.With(t.Context(), slog.String("request_id", "req_1"), slog.String("org_id", "first"))
	inner := telemetry.With(ctx, slog.String("org_id", "second"))
	inner = trace.ContextWithSpanContext(inner, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	log.With("a", 1).InfoContext(inner, "request.handled", "status", 200)
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	at, err := time.Parse("2006-01-02T15:04:05.000Z", line["time"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), at, time.Minute)
	delete(line, "time")
	assert.Equal(t, map[string]any{
		"level": "INFO", "msg": "request.handled", "a": 1.0, "status": 200.0,
		"request_id": "req_1", "org_id": "second", "trace_id": "01000000000000000000000000000000",
	}, line)

	out.Reset()
	log.InfoContext(ctx, "m")
	assert.Contains(t, out.String(), `"org_id":"first"`, "the outer context is untouched")

	text, out := logger(t, "text")
	text.WarnContext(ctx, "slow", "seconds", 2)
	assert.Regexp(t, `^\S+Z WRN slow seconds=2 request_id=req_1 org_id=first\n$`, out.String())
}

func TestNewLogger_BadSettings_Refused(t *testing.T) {
	t.Parallel()
	for level, least := range map[string]slog.Level{
		"": slog.LevelInfo, "debug": slog.LevelDebug, "info": slog.LevelInfo, "WARN": slog.LevelWarn, "error": slog.LevelError,
	} {
		log, err := telemetry.NewLogger(io.Discard, level, "json")
		require.NoError(t, err)
		assert.True(t, log.Enabled(t.Context(), least))
		assert.False(t, log.Enabled(t.Context(), least-1))
	}
	_, err := telemetry.NewLogger(io.Discard, "loud", "json")
	require.ErrorContains(t, err, "debug, info, warn or error")
	_, err = telemetry.NewLogger(io.Discard, "info", "xml")
	require.ErrorContains(t, err, "json or text")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestLogger_WriterFails_ErrorReturned(t *testing.T) {
	t.Parallel()
	log, err := telemetry.NewLogger(broken{}, "", "")
	require.NoError(t, err)
	for _, message := range []string{"plain", apiKey} {
		record := slog.NewRecord(time.Now(), slog.LevelInfo, message, 0)
		assert.Error(t, log.Handler().Handle(t.Context(), record))
	}
}

func TestLogger_APIKeyInAnyText_Masked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "before") + apiKey + rapid.String().Draw(t, "after")
		for _, format := range []string{"json", "text"} {
			var out bytes.Buffer
			log, err := telemetry.NewLogger(&out, "", format)
			require.NoError(t, err)
			log.Info("m", "a", text)
			require.NotContains(t, out.String(), canary)
		}
	})
}

func BenchmarkLogger(b *testing.B) {
	log, err := telemetry.NewLogger(io.Discard, "info", "json")
	require.NoError(b, err)
	ctx := telemetry.With(b.Context(), slog.String("request_id", "req_01"), slog.String("org_id", "0190"))
	b.ReportAllocs()
	for b.Loop() {
		log.LogAttrs(ctx, slog.LevelInfo, "request.handled", slog.Int("status", 200), slog.String("route", "/v1/labels"))
	}
}
