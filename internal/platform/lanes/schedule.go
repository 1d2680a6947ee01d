package lanes

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

// schedule decides which row of a lane starts next. It knows the rows that the drainer took
// and has not settled yet, and nothing of the database.
type schedule struct {
	// laterPerSecond limits the starts of priority 1 per second; zero is no limit.
	laterPerSecond int

	rows  map[ids.Any]rowState
	queue []Row // the waiting rows, in the order in which they start
	// count is how many rows of each priority are in each state.
	count [settling + 1][priorities]int
	// busyKeys are the keys of rows that are started or settling.
	busyKeys map[ids.Any]bool

	limiter *rate.Limiter // the lane's pace; nil is none
	// placed counts the places that order gave out, for the turn of priority 1. A row that is ordered
	// again before it starts is counted again.
	placed    int
	laterStep clock.Watch // since rows of priority 1 last started
}

// rowState is how far a row that was taken has come.
type rowState uint8

const (
	// waiting rows may start.
	waiting rowState = iota + 1
	// started rows are being begun or called.
	started
	// settling rows have a result that is not committed yet.
	settling
)

// laterEvery makes one start in so many that of the oldest row of priority 1, so that it
// is never starved.
const laterEvery = 8

func newSchedule(laterPerSecond, placed int) *schedule {
	return &schedule{
		laterPerSecond: laterPerSecond, placed: placed, rows: map[ids.Any]rowState{}, busyKeys: map[ids.Any]bool{},
	}
}

// add puts rows that were taken into the queue. Rows that are known already keep their state.
func (s *schedule) add(rows []Row) {
	for _, row := range rows {
		if s.rows[row.ID] == 0 {
			s.move(row, waiting)
			s.queue = append(s.queue, row)
		}
	}
	s.order()
}

// move changes the state of a row; zero forgets the row.
func (s *schedule) move(row Row, to rowState) {
	if from := s.rows[row.ID]; from != 0 {
		s.count[from][row.Priority]--
	}
	if to == 0 {
		delete(s.rows, row.ID)
		return
	}
	s.rows[row.ID] = to
	s.count[to][row.Priority]++
}

// in counts the rows in one state.
func (s *schedule) in(state rowState) int { return s.count[state][0] + s.count[state][1] }

// known counts the rows of the first priorities that a take would read again.
func (s *schedule) known(most int) (count int) {
	for state := range s.count {
		for priority := range most {
			count += s.count[state][priority]
		}
	}
	return count
}

// order sorts the queue: by priority, due time and id, with every laterEvery-th place for the
// oldest row of priority 1.
func (s *schedule) order() {
	var first, later []Row
	for _, row := range s.queue {
		if row.Priority == 0 {
			first = append(first, row)
		} else {
			later = append(later, row)
		}
	}
	slices.SortFunc(first, byDue)
	slices.SortFunc(later, byDue)
	ordered := s.queue[:0]
	for len(first)+len(later) > 0 {
		s.placed++
		from := &first
		if len(first) == 0 || len(later) > 0 && s.placed%laterEvery == 0 {
			from = &later
		}
		ordered = append(ordered, (*from)[0])
		*from = (*from)[1:]
	}
	s.queue = ordered
}

func byDue(a, b Row) int { return cmp.Or(a.DueAt.Compare(b.DueAt), a.ID.Compare(b.ID)) }

// startable tells that a waiting row's key is free.
func (s *schedule) startable() bool {
	return slices.ContainsFunc(s.queue, func(row Row) bool { return !s.busyKeys[row.Key] })
}

// onlyLater tells that no row of priority 0 waits, and rows of priority 1 do.
func (s *schedule) onlyLater() bool { return len(s.queue) > 0 && s.queue[0].Priority > 0 }

// overtakes tells that a row of priority 0 waits while rows of priority 1 are being called: it
// need not wait until half of the places are free.
func (s *schedule) overtakes() bool {
	return len(s.queue) > 0 && s.queue[0].Priority == 0 && s.count[started][1] > 0
}

// next starts at most free of the waiting rows. places is how many rows may be worked at once
// in all. wait, unless zero, is when more may start, if only time holds them back. stale tells
// that rows were dropped because they were taken too long ago: they must be taken again,
// together with those behind them in their key.
func (s *schedule) next(free, places int) (chunk []Row, wait time.Duration, stale bool) {
	kept, late := s.queue[:0], map[ids.Any]bool{}
	room, laterWait := s.roomForLater(places)
	var paced time.Duration
	for _, row := range s.queue {
		switch {
		case row.stale() || late[row.Key]:
			stale, late[row.Key] = true, !row.Key.IsZero()
			s.move(row, 0)
			continue
		case len(chunk) == free || paced > 0 || s.busyKeys[row.Key]:
		case row.Priority > 0 && room == 0:
			wait = laterWait
		default:
			if paced = s.pace(); paced == 0 {
				s.start(row)
				if row.Priority > 0 {
					room--
				}
				chunk = append(chunk, row)
				continue
			}
		}
		kept = append(kept, row)
	}
	s.queue = kept
	return chunk, cmp.Or(paced, wait), stale
}

func (s *schedule) start(row Row) {
	s.move(row, started)
	if !row.Key.IsZero() {
		s.busyKeys[row.Key] = true
	}
	if row.Priority > 0 {
		s.laterStep = clock.StartWatch()
	}
}

// settled forgets a row whose result is committed and frees its key.
func (s *schedule) settled(row Row) {
	s.move(row, 0)
	delete(s.busyKeys, row.Key)
}

// release forgets a row that was started and is still in the lane, with the waiting rows of its
// key: they are taken again together, in their order.
func (s *schedule) release(row Row) {
	s.settled(row)
	s.dropKey(row.Key)
}

// dropKey forgets the waiting rows of a key.
func (s *schedule) dropKey(key ids.Any) {
	if !key.IsZero() {
		s.dropIf(func(row Row) bool { return row.Key == key })
	}
}

// dropWaiting forgets all waiting rows.
func (s *schedule) dropWaiting() { s.dropIf(func(Row) bool { return true }) }

func (s *schedule) dropIf(drop func(Row) bool) {
	kept := s.queue[:0]
	for _, row := range s.queue {
		if drop(row) {
			s.move(row, 0)
		} else {
			kept = append(kept, row)
		}
	}
	s.queue = kept
}

// stepOf is how far apart rows of priority 1 start where their starts are limited.
const stepOf = 10 * time.Millisecond

// roomForLater is how many rows of priority 1 may start now, and how long until more may. A
// quarter of the places is kept for priority 0. Limited starts come a few at a time, so that
// rows of priority 0 find the machine free.
func (s *schedule) roomForLater(places int) (room int, wait time.Duration) {
	room = max(0, places-places/4-s.count[started][1])
	if s.laterPerSecond == 0 {
		return room, 0
	}
	if wait = stepOf - s.laterStep.Elapsed(); wait > 0 {
		return 0, wait
	}
	return min(room, max(1, s.laterPerSecond*int(stepOf)/int(time.Second))), stepOf
}

// setPace limits the starts per second. It keeps what the limiter has counted, so that opening
// the lane again gives no extra burst.
func (s *schedule) setPace(perSecond float64) {
	limit, burst := rate.Limit(perSecond), max(1, int(perSecond/20))
	switch {
	case perSecond <= 0:
		s.limiter = nil
	case s.limiter == nil:
		s.limiter = rate.NewLimiter(limit, burst)
	default:
		s.limiter.SetLimit(limit)
		s.limiter.SetBurst(burst)
	}
}

// pace spends one start. It returns how long to wait if the lane's pace allows none now.
func (s *schedule) pace() time.Duration {
	if s.limiter == nil {
		return 0
	}
	reserved := s.limiter.Reserve()
	wait := reserved.Delay()
	if wait > 0 {
		reserved.Cancel()
	}
	return wait
}
