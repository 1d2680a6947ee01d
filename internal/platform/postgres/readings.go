package postgres

import (
	"strings"
	"sync"
)

// readings keeps what a tracer read from the text of a statement. Most statements are constants,
// and reading one by regular expressions takes longer than many a statement takes to run.
type readings struct{ bySQL sync.Map }

// reading is what a tracer found in one statement.
type reading struct {
	names []string
	fault string
}

// allReadings are the readings of each tracer, by its name and what it was made with.
var allReadings sync.Map //nolint:gochecknoglobals // shared by the tests of a package, which each make tracers of their own

func readingsFor(tracer string, with []string) *readings {
	found, _ := allReadings.LoadOrStore(tracer+" "+strings.Join(with, " "), &readings{})
	return found.(*readings) //nolint:forcetypeassert // the map is only used here
}

// A statement of at most shortSQL bytes is not kept: it may contain a literal, as the one that begins
// a transaction does, and a new text for each literal would fill the map.
const shortSQL = 200

func (r *readings) of(sql string, read func() reading) reading {
	if len(sql) <= shortSQL {
		return read()
	}
	if known, found := r.bySQL.Load(sql); found {
		return known.(reading) //nolint:forcetypeassert // the map is only used here
	}
	made := read()
	r.bySQL.Store(sql, made)
	return made
}
