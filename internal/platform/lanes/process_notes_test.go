package lanes_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/ids"
)

// What a worker notes: a call of a row started or ended, a settlement of a lane did.
const (
	started  = "started"
	ended    = "ended"
	settling = "settling"
	settled  = "settled"
)

// notebook is a file to which lines are appended, each at once and for good.
type notebook struct{ file *os.File }

func (n *notebook) write(what string, id ids.Any) {
	if _, err := fmt.Fprintf(n.file, "%s %s %d\n", what, id, time.Now().UnixNano()); err != nil {
		panic(err)
	}
}

func between(shortest, longest time.Duration) time.Duration {
	return shortest + rand.N(longest-shortest+1)
}

type note struct {
	what string
	id   ids.Any
	at   time.Time
}

// notes are what a worker has written so far.
func (p plan) notes(t *testing.T) []note {
	t.Helper()
	text, err := os.ReadFile(p.file("calls"))
	if os.IsNotExist(err) {
		return nil // it was killed, or asked, before it began
	}
	require.NoError(t, err)
	var all []note
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		require.Len(t, words, 3, "%q", line)
		one := note{what: words[0]}
		require.NoError(t, one.id.UnmarshalText([]byte(words[1])))
		nanoseconds, err := strconv.ParseInt(words[2], 10, 64)
		require.NoError(t, err)
		one.at = time.Unix(0, nanoseconds)
		all = append(all, one)
	}
	return all
}

func count(notes []note, what string) (times int) {
	for _, one := range notes {
		if one.what == what {
			times++
		}
	}
	return times
}

// call is one time that a row was done.
type call struct {
	by      string
	started time.Time
	ended   bool
}

// calls are those of every worker that ever was, in order.
func (s *site) calls(t *testing.T) map[ids.Any][]*call {
	t.Helper()
	files, err := filepath.Glob(plan{Dir: s.dir, Name: "*"}.file("calls"))
	require.NoError(t, err)
	all := map[ids.Any][]*call{}
	for _, file := range files {
		p := plan{Dir: s.dir, Name: strings.TrimSuffix(filepath.Base(file), ".calls")}
		open := map[ids.Any]*call{}
		for _, one := range p.notes(t) {
			switch one.what {
			case started:
				open[one.id] = &call{by: p.Name, started: one.at}
				all[one.id] = append(all[one.id], open[one.id])
			case ended:
				open[one.id].ended = true
			}
		}
	}
	for _, ofRow := range all {
		slices.SortFunc(ofRow, func(a, b *call) int { return a.started.Compare(b.started) })
	}
	return all
}

// repeats are calls of rows that were called again.
type repeats struct {
	// all counts them, done those of calls that had ended and were not settled.
	all, done int
	by        map[string]int
}

// tally holds what the workers did against what they should have: no row is lost, none is
// settled twice, and one is called again only where the call before is excused.
func (s *site) tally(t *testing.T, excused func(before, again *call) bool) repeats {
	t.Helper()
	results, calls := s.results(t), s.calls(t)
	found := repeats{by: map[string]int{}}
	for _, row := range s.rows {
		ofRow, result := calls[row], results[row]
		switch {
		case len(ofRow) == 0 || result.Times == 0:
			t.Errorf("row %s was lost: %d calls, settled %d times", row, len(ofRow), result.Times)
			continue
		case result.Times != 1:
			t.Errorf("row %s was settled %d times", row, result.Times)
		case result.By != ofRow[len(ofRow)-1].by:
			t.Errorf("row %s was settled by %s and last called by %s", row, result.By, ofRow[len(ofRow)-1].by)
		}
		for i, again := range ofRow[1:] {
			before := ofRow[i]
			if !excused(before, again) {
				t.Errorf("row %s was called again by %s at %s: the call by %s at %s had no reason to be lost",
					row, again.by, again.started, before.by, before.started)
			}
			found.all++
			found.by[before.by]++
			if before.ended {
				found.done++
			}
		}
	}
	require.Len(t, calls, len(s.rows), "only rows that were added are called")
	require.Len(t, results, len(s.rows), "and settled")
	return found
}
