package quota

import (
	"maps"
	"time"
)

// sizeOf is the size of an allowance: 0.5 % of the limit.
func sizeOf(limit int64) int64 { return limit / 200 }

// lastTenth is the most that all allowances may be together, and the number of messages before the
// limit from which on none is granted.
func lastTenth(limit int64) int64 { return limit / 10 }

// month is the shared count of an organization in a month: a row of quota_usage.
type month struct {
	Used int64
	// Allowances are those of all processes, by process.
	Allowances map[string]allowance
	// ExactUntil is the time until which no allowance is granted; nil for none.
	ExactUntil *time.Time
	// DueAt is the time of the next recount; nil after the last one.
	DueAt *time.Time
}

// allowance is how many messages a process may count in memory and not yet have added.
type allowance struct {
	Size  int64     `json:"size"`
	Until time.Time `json:"until"`
}

// flush is what a process adds to a month.
type flush struct {
	process string
	now     time.Time
	limit   int64
	// add is the number of messages; negative when more were given back.
	add int64
	// size is the allowance that the process asks for; 0 for none.
	size int64
	// keep is how much the process may still count until it gets the answer, if it gets no new
	// allowance. Its old allowance must cover that.
	keep int64
}

// result is the answer to a flush.
type result struct {
	granted bool
	// left is the allowance that the process has now.
	left int64
}

// apply adds a flush. Used and allowances together then exceed the limit only if they did before.
// The flush that reaches the last tenth makes the month due to be counted: from now on no new allowance
// is granted, and the others expire within 10 s, so that the count becomes precise.
func (m *month) apply(f flush) result {
	far := f.limit - lastTenth(f.limit)
	before := m.Used
	m.Used = max(0, m.Used+f.add)
	if m.DueAt != nil && before <= far && m.Used > far {
		m.DueAt = &f.now
	}
	mine := m.Allowances[f.process]
	maps.DeleteFunc(m.Allowances, func(process string, a allowance) bool { return process == f.process || !a.Until.After(f.now) })
	others, _ := m.allowed()
	granted := f.size > 0 && m.Used <= far && others+f.size <= lastTenth(f.limit) &&
		(m.ExactUntil == nil || !m.ExactUntil.After(f.now))
	if granted {
		mine = allowance{Size: f.size, Until: f.now.Add(allowFor)}
	} else {
		mine.Size = min(mine.Size, f.keep)
	}
	if mine.Size > 0 {
		m.Allowances[f.process] = mine
	}
	return result{granted: granted, left: mine.Size}
}

// allowed is the sum of the allowances, and when the last of them expires; nil for none.
func (m *month) allowed() (sum int64, until *time.Time) {
	for _, a := range m.Allowances {
		sum += a.Size
		if until == nil || a.Until.After(*until) {
			until = &a.Until
		}
	}
	return sum, until
}
