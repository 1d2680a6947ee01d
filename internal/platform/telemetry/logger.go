// Package telemetry writes log lines, metrics and traces. It masks everything that looks like an
// API key. Labels of metrics come from fixed sets, never from a caller's input.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/lmittmann/tint"
	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns a logger that writes lines of a level (debug, info, warn or error; empty means
// info) and above, in a format (json or text; empty means json).
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	least, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	var lines slog.Handler
	switch format {
	case "", "json":
		lines = slog.NewJSONHandler(maskingWriter{w}, &slog.HandlerOptions{Level: least, ReplaceAttr: replace})
	case "text":
		lines = tint.NewTextHandler(maskingWriter{w}, &tint.Options{Level: least, ReplaceAttr: replace, NoColor: !terminal(w)})
	default:
		return nil, fmt.Errorf("log format %q: must be json or text", format)
	}
	return slog.New(contextHandler{lines}), nil
}

func parseLevel(level string) (slog.Level, error) {
	switch strings.ToLower(level) {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	default:
		return 0, fmt.Errorf("log level %q: must be debug, info, warn or error", level)
	}
}

func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}

type attrsKey struct{}

// With adds attributes to every line that is logged with the returned context. An attribute with
// the same name is replaced.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	earlier, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	all := make([]slog.Attr, 0, len(earlier)+len(attrs))
	for _, attr := range earlier {
		if !named(attrs, attr.Key) {
			all = append(all, attr)
		}
	}
	return context.WithValue(ctx, attrsKey{}, append(all, attrs...))
}

func named(attrs []slog.Attr, name string) bool {
	for _, attr := range attrs {
		if attr.Key == name {
			return true
		}
	}
	return false
}

// contextHandler adds the attributes of With and the ids of the trace to each line.
type contextHandler struct{ next slog.Handler }

func (h contextHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h contextHandler) Handle(ctx context.Context, record slog.Record) error {
	attrs, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	span := trace.SpanContextFromContext(ctx)
	if len(attrs) == 0 && !span.IsValid() {
		return h.next.Handle(ctx, record)
	}
	record = record.Clone()
	record.AddAttrs(attrs...)
	if span.IsValid() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.next.Handle(ctx, record)
}

func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.next.WithAttrs(attrs)}
}

func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.next.WithGroup(name)}
}
