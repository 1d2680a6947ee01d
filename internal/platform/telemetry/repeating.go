package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// repeatEvery is the time between two lines of a condition that lasts.
const repeatEvery = time.Minute

// Repeating returns a logger for conditions that last, such as a database that is down. It writes the first line of a
// condition at once, and further lines at most once a minute: their attribute `repeated` is how often the condition was
// met since the line before. Lines with the same message and the same attribute `cell` are of one condition. A
// condition that was not met for a minute is over.
func Repeating(logger *slog.Logger) *slog.Logger {
	return slog.New(repeating{next: logger.Handler(), seen: &conditions{byKey: map[string]*condition{}}})
}

type repeating struct {
	next slog.Handler
	seen *conditions
	// cell is the attribute `cell` of WithAttrs.
	cell string
}

func (h repeating) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h repeating) Handle(ctx context.Context, record slog.Record) error {
	cell := h.cell
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "cell" {
			cell = attr.Value.String()
		}
		return true
	})
	times, write := h.seen.meet(record.Message+" "+cell, record.Time)
	if !write {
		return nil
	}
	if times > 1 {
		record = record.Clone()
		record.AddAttrs(slog.Int("repeated", times))
	}
	return h.next.Handle(ctx, record)
}

func (h repeating) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, attr := range attrs {
		if attr.Key == "cell" {
			h.cell = attr.Value.String()
		}
	}
	h.next = h.next.WithAttrs(attrs)
	return h
}

func (h repeating) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	return h
}

// conditions are those that were met, by message and cell.
type conditions struct {
	mu    sync.Mutex
	byKey map[string]*condition
}

type condition struct {
	// logged is the time of the last line, met that of the last time that the condition was met.
	logged, met time.Time
	// times is how often the condition was met since the last line.
	times int
}

// meet counts that a condition is met. It returns whether to write a line, and how often the condition was met since
// the line before.
func (c *conditions) meet(key string, at time.Time) (times int, write bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.byKey[key]
	if one == nil || at.Sub(one.met) > repeatEvery {
		c.byKey[key] = &condition{logged: at, met: at}
		return 1, true
	}
	one.met = at
	one.times++
	if at.Sub(one.logged) < repeatEvery {
		return 0, false
	}
	times, one.times, one.logged = one.times, 0, at
	return times, true
}
