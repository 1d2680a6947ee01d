package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// warnings counts what the product warns of: a benchmark that goes wrong must say so, and
// ten thousand lanes say it ten thousand times.
type warnings struct {
	mu    sync.Mutex
	count map[string]int
}

// Enabled is for warnings and worse.
func (w *warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle counts a record by its message and error.
func (w *warnings) Handle(_ context.Context, record slog.Record) error {
	words := []string{record.Message}
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "error" {
			words = append(words, attr.Value.String())
		}
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[strings.Join(words, ": ")]++
	return nil
}

// WithAttrs keeps nothing: what was warned of is enough.
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup keeps nothing.
func (w *warnings) WithGroup(string) slog.Handler { return w }

// sum says what was warned of, and how often.
func (w *warnings) sum() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, words := range slices.Sorted(maps.Keys(w.count)) {
		fmt.Fprintf(os.Stderr, "bench: warned %d times: %s\n", w.count[words], words)
	}
}
