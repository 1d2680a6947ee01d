package lanes

import (
	"slices"
)

// guardEvery is how often the next row is the one that waits longest behind the first
// priority, so that the others always get on.
const guardEvery = 8

// interleave puts rows in the order in which they start: by priority, due time and id,
// and now and then one from further back.
func (d *drain) interleave(rows []Row) []Row {
	var lines [maxPriorities][]Row
	for _, row := range rows {
		lines[row.Priority] = append(lines[row.Priority], row)
	}
	for _, line := range lines {
		slices.SortFunc(line, byDue)
	}
	ordered := rows[:0]
	for range rows {
		d.guard++
		from := firstLine(lines[:])
		if d.guard%guardEvery == 0 {
			from = longestWaiting(lines[:], from)
		}
		ordered = append(ordered, lines[from][0])
		lines[from] = lines[from][1:]
	}
	return ordered
}

func byDue(a, b Row) int {
	if order := a.DueAt.Compare(b.DueAt); order != 0 {
		return order
	}
	return a.ID.Compare(b.ID)
}

func firstLine(lines [][]Row) int {
	return slices.IndexFunc(lines, func(line []Row) bool { return len(line) > 0 })
}

// longestWaiting is the line behind first whose head is due longest, or first if there is none.
func longestWaiting(lines [][]Row, first int) int {
	longest := first
	for i := first + 1; i < len(lines); i++ {
		if len(lines[i]) > 0 && (longest == first || lines[i][0].DueAt.Before(lines[longest][0].DueAt)) {
			longest = i
		}
	}
	return longest
}

const (
	slowAbove = 1_000
	fastBelow = 500
)

// isSlow says with which workers a lane belongs, by what its rows take in milliseconds.
func isSlow(slow bool, latency int) bool {
	if slow {
		return latency >= fastBelow
	}
	return latency > slowAbove
}
