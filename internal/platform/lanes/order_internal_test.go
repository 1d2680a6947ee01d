package lanes

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever waits, each priority keeps its order, and of every so many rows one is the one
// that waits longest behind the first priority: the others always get on.
func TestEveryPriorityGetsOn(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		d := &drain{guard: rapid.IntRange(0, guardEvery-1).Draw(rt, "guard")}
		rows := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Row {
			return Row{
				ID: newID(), Priority: rapid.IntRange(0, maxPriorities-1).Draw(rt, "priority"),
				DueAt: start.Add(time.Duration(rapid.IntRange(0, 50).Draw(rt, "due")) * time.Millisecond),
			}
		}), 0, 200).Draw(rt, "rows")
		ordered := d.interleave(slices.Clone(rows))
		require.ElementsMatch(rt, rows, ordered)
		last := map[int]Row{}
		for _, row := range ordered {
			if before, found := last[row.Priority]; found {
				require.Negative(rt, byDue(before, row), "order within a priority")
			}
			last[row.Priority] = row
		}
		requireNoneStarves(rt, ordered)
	})
}

// requireNoneStarves wants, in every stretch of guardEvery rows during which others wait,
// one that is not of the first priority that waits.
func requireNoneStarves(rt *rapid.T, ordered []Row) {
	for i := 0; i+guardEvery <= len(ordered); i++ {
		stretch := ordered[i : i+guardEvery]
		first := stretch[0].Priority
		behind := slices.ContainsFunc(ordered[i+guardEvery:], func(row Row) bool { return row.Priority > first })
		same := !slices.ContainsFunc(stretch, func(row Row) bool { return row.Priority != first })
		if same && behind && first == lowest(ordered[i:]) {
			rt.Fatalf("%d rows of priority %d in a row while others wait", guardEvery, first)
		}
	}
}

func lowest(rows []Row) int {
	return slices.MinFunc(rows, func(a, b Row) int { return a.Priority - b.Priority }).Priority
}
