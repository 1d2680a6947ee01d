package lanes

import (
	"slices"
	"time"
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

// mayBeOvertaken tells that rows came while only later priorities are at hand: one of the
// first may be among them.
func (d *drain) mayBeOvertaken() bool {
	return d.fresh && d.kind.Priorities > 1 && len(d.waiting) > 0 && d.waiting[0].Priority > 0
}

// overtakes tells that a row of the first priority need not wait for those that run.
func (d *drain) overtakes() bool {
	return len(d.waiting) > 0 && d.waiting[0].Priority == 0 && d.later() > 0
}

// later counts the rows of later priorities that run.
func (d *drain) later() (count int) {
	for _, one := range d.running {
		if one.row.Priority > 0 {
			count++
		}
	}
	return count
}

// laterStep is how far apart rows of later priorities start where they are paced.
const laterStep = 10 * time.Millisecond

// roomForLater is how many rows of later priorities may start now, and when more may: a
// quarter of the places is kept for the first priority, and where later ones are paced
// they come a few at a time, so that the first finds the machine free as well.
func (d *drain) roomForLater() (room int, next time.Duration) {
	room = max(0, d.cap()-d.cap()/4-d.later())
	if d.kind.LaterPerSecond == 0 {
		return room, 0
	}
	if next = laterStep - d.stepped.Elapsed(); next > 0 {
		return 0, next
	}
	return min(room, max(1, d.kind.LaterPerSecond*int(laterStep)/int(time.Second))), laterStep
}

const (
	// lingerRows in one turn make a lane busy, and lingerFor is how long it then waits for more.
	lingerRows = 8
	lingerFor  = 20 * time.Millisecond
)

// linger is how much longer a lane with nothing at hand waits for more, if it was busy just
// now and nobody needs its worker: who adds to a lane that is just being disarmed waits for
// that, and arms it again.
func (d *drain) linger() time.Duration {
	if len(d.running) > 0 || len(d.waiting) > 0 || !d.drained || d.ending || d.urgent {
		return 0
	}
	if d.sliceRows < lingerRows && d.turns == 0 || d.crew.contended() {
		return 0
	}
	return max(0, lingerFor-d.ended.Elapsed())
}
