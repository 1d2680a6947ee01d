package postgres

import (
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// readings keeps what a tracer read from the text of a statement. Most statements are constants,
// and reading one by regular expressions takes longer than many a statement takes to run. Those
// with a literal, as the one that begins a transaction, differ from each other: the oldest leave.
type readings struct{ bySQL *lru.Cache[string, reading] }

const keptReadings = 10_000

// reading is what a tracer found in one statement.
type reading struct {
	names []string
	fault string
}

// allReadings are the readings of each tracer, by its name and what it was made with.
var allReadings sync.Map //nolint:gochecknoglobals // shared by the tests of a package, which each make tracers of their own

func readingsFor(tracer string, with []string) *readings {
	bySQL, err := lru.New[string, reading](keptReadings)
	if err != nil {
		panic(err) // a size that is not positive
	}
	found, _ := allReadings.LoadOrStore(tracer+" "+strings.Join(with, " "), &readings{bySQL: bySQL})
	return found.(*readings) //nolint:forcetypeassert // the map is only used here
}

func (r *readings) of(sql string, read func() reading) reading {
	if known, found := r.bySQL.Get(sql); found {
		return known
	}
	made := read()
	r.bySQL.Add(sql, made)
	return made
}
