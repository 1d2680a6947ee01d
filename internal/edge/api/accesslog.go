package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// stopwatch measures durations with the monotonic clock, not with the injected clock.
func stopwatch() func() time.Duration {
	started := time.Now()                                      //nolint:forbidigo // a duration, not a time of the product
	return func() time.Duration { return time.Since(started) } //nolint:forbidigo // as above
}

// record writes one log line with all attributes, the metrics, and, when the organization is known, a
// row in its API log.
func (a *API) record(c *call, out sent, took time.Duration) {
	pattern := c.route.path
	a.Metrics.ObserveRequest(pattern, c.request.Method, out.status, took.Seconds())
	a.logLine(c, out, took)
	if c.caller.OrgID.IsZero() {
		return
	}
	c.cell.Logs.Add(apilogs.Entry{
		OrgID: c.caller.OrgID, ID: c.id, KeyID: c.caller.KeyID, Method: c.request.Method, Path: c.request.URL.Path, Route: pattern,
		Status: out.status, Code: string(out.code), Duration: took, IP: c.ip, UserAgent: c.request.UserAgent(), Replayed: c.replayed,
		Flood: c.guessed,
	})
}

// levelOf is ERROR for statuses that an operator must look into. A 503 is only a warning, because
// shedding load is intended.
func levelOf(status int) slog.Level {
	switch {
	case status == http.StatusServiceUnavailable:
		return slog.LevelWarn
	case status >= http.StatusInternalServerError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

func (a *API) logLine(c *call, out sent, took time.Duration) {
	level := levelOf(out.status)
	if !a.Logger.Enabled(c.ctx(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("request_id", c.id.String()), slog.String("method", c.request.Method), slog.String("route", c.route.path),
		slog.Int("status", out.status), slog.Int64("duration_us", took.Microseconds()), slog.Int("bytes", out.bytes),
		slog.String("ip", c.ip.String()),
	)
	if !c.caller.OrgID.IsZero() {
		attrs = append(attrs, slog.String("cell", c.cell.Name), slog.String("org_id", c.caller.OrgID.String()),
			slog.String("key_id", c.caller.KeyID.String()))
	}
	if out.code != "" {
		attrs = append(attrs, slog.String("code", string(out.code)))
	}
	if c.replayed {
		attrs = append(attrs, slog.Bool("replayed", true))
	}
	if out.err != nil && out.status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.String("error", out.err.Error()))
	}
	a.Logger.LogAttrs(c.ctx(), level, "request.handled", attrs...)
}

// trace starts a new trace and links it to the caller's span. It does not continue the caller's
// trace, because then callers would decide what is sampled.
func (a *API) trace(ctx context.Context, route *route, header http.Header) (context.Context, func(options ...trace.SpanEndOption)) {
	if a.Tracer == nil {
		return ctx, func(...trace.SpanEndOption) {}
	}
	ctx, span := a.Tracer.Start(ctx, route.method+" "+route.path, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithLinks(trace.LinkFromContext(telemetry.Extract(ctx, header))))
	return ctx, span.End
}
