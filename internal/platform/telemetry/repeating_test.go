package telemetry_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

// repeatingFixture logs conditions at times of its own.
type repeatingFixture struct {
	logger *slog.Logger
	lines  *strings.Builder
	start  time.Time
}

func newRepeatingFixture(t *testing.T) *repeatingFixture {
	t.Helper()
	lines := &strings.Builder{}
	logger, err := telemetry.NewLogger(lines, "info", "json")
	require.NoError(t, err)
	return &repeatingFixture{logger: telemetry.Repeating(logger), lines: lines, start: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)}
}

// meet logs a condition of a cell, and returns the line that was written, "" if none was.
func (f *repeatingFixture) meet(t *testing.T, after time.Duration, message, cell string) string {
	t.Helper()
	f.lines.Reset()
	record := slog.NewRecord(f.start.Add(after), slog.LevelWarn, message, 0)
	record.AddAttrs(slog.String("cell", cell))
	require.NoError(t, f.logger.Handler().Handle(context.WithoutCancel(t.Context()), record))
	return f.lines.String()
}

func TestRepeating_ConditionLasts_OneLineAMinuteWithCount(t *testing.T) {
	t.Parallel()
	f := newRepeatingFixture(t)
	first := f.meet(t, 0, "clock.unsynced", "main")
	require.Contains(t, first, "clock.unsynced")
	require.NotContains(t, first, "repeated")
	for half := 1; half < 120; half++ {
		require.Empty(t, f.meet(t, time.Duration(half)*500*time.Millisecond, "clock.unsynced", "main"))
	}
	require.Contains(t, f.meet(t, time.Minute, "clock.unsynced", "main"), `"repeated":120`)
	require.Empty(t, f.meet(t, time.Minute+time.Second, "clock.unsynced", "main"))
	require.Contains(t, f.meet(t, 2*time.Minute, "clock.unsynced", "main"), `"repeated":2`)
}

func TestRepeating_OtherMessageOrCell_HasItsOwnLines(t *testing.T) {
	t.Parallel()
	f := newRepeatingFixture(t)
	require.NotEmpty(t, f.meet(t, 0, "clock.unsynced", "main"))
	require.NotEmpty(t, f.meet(t, 0, "clock.unsynced", "second"))
	require.NotEmpty(t, f.meet(t, 0, "quota.not_flushed", "main"))
	f.lines.Reset()
	second := f.logger.With("cell", "third")
	second.WarnContext(t.Context(), "clock.unsynced")
	require.NotEmpty(t, f.lines.String(), "the cell may be an attribute of the logger")
}

func TestRepeating_ConditionReturnsLater_LoggedAtOnce(t *testing.T) {
	t.Parallel()
	f := newRepeatingFixture(t)
	require.NotEmpty(t, f.meet(t, 0, "clock.unsynced", "main"))
	require.Empty(t, f.meet(t, time.Second, "clock.unsynced", "main"))
	again := f.meet(t, time.Hour, "clock.unsynced", "main")
	require.NotEmpty(t, again)
	require.NotContains(t, again, "repeated", "it is another outage")
}
