package postgres

import (
	"strings"
	"sync"
)

// readings keeps what a tracer read from the text of a statement. Statements are constants, and
// reading one by regular expressions takes longer than many a statement takes to run.
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

// shortSQL is read each time: it may hold a literal, so that it may never come again.
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
