package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// stopwatch measures by the monotonic clock, whatever the product's clock says.
func stopwatch() func() time.Duration {
	started := time.Now()                                      //nolint:forbidigo // a duration, not a time of the product
	return func() time.Duration { return time.Since(started) } //nolint:forbidigo // as above
}

// record tells what happened: one wide line, the metrics, and a row in the API log of
// the organization, when it is known.
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
	})
}

// levelOf is loud for what somebody must look at: a 503 is counted and mostly meant.
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

// trace starts a span of our own and links it to the caller's: a stranger must not decide
// what we sample.
func (a *API) trace(ctx context.Context, route *route, header http.Header) (context.Context, func(options ...trace.SpanEndOption)) {
	if a.Tracer == nil {
		return ctx, func(...trace.SpanEndOption) {}
	}
	ctx, span := a.Tracer.Start(ctx, route.method+" "+route.path, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithLinks(trace.LinkFromContext(telemetry.Extract(ctx, header))))
	return ctx, span.End
}

// clientIP is the peer, or behind our own proxies the address that the outermost of them
// saw. A caller can put anything in front of that in X-Forwarded-For, and it is ignored.
func clientIP(r *http.Request, trusted []netip.Prefix) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	peer, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	peer = peer.Unmap().WithZone("")
	if len(trusted) == 0 {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(peer) }) {
			return peer
		}
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			return peer
		}
		peer = next.Unmap().WithZone("")
	}
	return peer
}
