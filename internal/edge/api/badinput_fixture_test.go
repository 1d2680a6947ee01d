package api_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
)

const (
	// hang is how long a connection stays silent before the server is taken to wait for ever.
	hang          = time.Minute
	maxHeapGrowth = 64 << 20
)

// TestBadInput is the catalogue of bad input. Whatever is sent, the answer is the documented
// refusal in its envelope, nothing is stored, every request of a known key leaves one line in the
// API log, and the memory is given back.
//
//nolint:paralleltest // it measures the heap of the process, so nothing else may run beside it
func TestBadInput(t *testing.T) {
	s := apitest.New(t)
	var cases atomic.Int64
	before := liveHeap()
	t.Cleanup(func() {
		grown := liveHeap() - before
		t.Logf("%d cases in all; the heap grew by %d KiB", cases.Load(), grown>>10)
		assert.LessOrEqual(t, grown, int64(maxHeapGrowth))
	})
	for class, try := range map[string]func(*testing.T, *bench){
		"JSON syntax":          badSyntax,
		"wrong top level":      badTopLevel,
		"media type":           badMediaType,
		"size":                 badSize,
		"duplicate keys":       badKeys,
		"depth and width":      badShape,
		"numbers":              badNumbers,
		"strings":              badStrings,
		"odd but valid":        oddStrings,
		"type confusion":       badTypes,
		"mass assignment":      badAssignment,
		"boundaries of fields": badBoundaries,
		"boundaries of limit":  badLimits,
		"identifiers":          badIdentifiers,
		"query strings":        badQueries,
		"methods":              badMethods,
		"paths":                badPaths,
		"idempotency keys":     badIdempotencyKeys,
		"authorization":        badAuthorization,
		"cursors":              badCursors,
		"HTTP framing":         badFraming,
		"HTTP requests":        badRequests,
		"HTTP connections":     badConnections,
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, s)
			try(t, b)
			b.requireNothingStored(t)
			b.requireLogged(t)
			cases.Add(int64(b.cases))
			t.Logf("%s: %d cases, the slowest took %s", class, b.cases, b.slowest.Round(time.Millisecond))
		})
	}
}

func liveHeap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what a pool holds goes with the second
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// bench is where a class is tried: an organization with one label, and what was done to it.
type bench struct {
	*apitest.Client
	server *apitest.Server
	label  string // its id

	stored  []string
	cases   int
	logged  int
	slowest time.Duration
}

func newBench(t *testing.T, s *apitest.Server) *bench {
	t.Helper()
	b := &bench{Client: s.Client(t), server: s}
	b.label = s.Label(t, b.Org).ID.String()
	b.stored = b.rows(t)
	return b
}

// badInput is one request of the catalogue and the refusal that is due.
type badInput struct {
	name         string
	method, path string
	body         any
	header       []string
	want         refusal
}

// faulty is the refusal of nearly every bad body: of one field, or with "" of the whole.
func faulty(param string) refusal {
	return refusal{400, "invalid_request_error", "invalid_field_value", param}
}

// create and change are a POST and a PATCH of a label with a body that must be refused.
func (b *bench) create(name string, body any, want refusal) badInput {
	return badInput{name: "POST: " + name, method: "POST", path: "/labels", body: body, want: want}
}

func (b *bench) change(name string, body any, want refusal) badInput {
	return badInput{name: "PATCH: " + name, method: "PATCH", path: "/labels/" + b.label, body: body, want: want}
}

// both sends a body that is wrong for POST and for PATCH in the same way.
func (b *bench) both(name string, body any, want refusal) []badInput {
	return []badInput{b.create(name, body, want), b.change(name, body, want)}
}

// refuse tries each input as a test of its own.
func (b *bench) refuse(t *testing.T, inputs ...badInput) {
	t.Helper()
	for _, in := range inputs {
		t.Run(in.name, func(t *testing.T) { requireRefusal(t, in.want, b.try(t, in)) })
	}
}

// try sends one request. How long the answer takes is logged and not checked.
func (b *bench) try(t testing.TB, in badInput) apitest.Answer {
	t.Helper()
	b.cases++
	b.server.Clock.Move(4 * time.Millisecond) // refills the bucket
	started := time.Now()
	answer := b.Do(t, in.method, in.path, in.body, in.header...)
	b.slowest = max(b.slowest, time.Since(started))
	b.note(answer)
	return answer
}

// note counts the answers that a known key got: each has a line in the API log.
func (b *bench) note(answer apitest.Answer) {
	if answer.Header.Get("RateLimit-Limit") != "" {
		b.logged++
	}
}

// rows is all that the organization has stored through the API.
func (b *bench) rows(t testing.TB) []string {
	t.Helper()
	rows, err := postgres.Many[string](t.Context(), b.server.DB.Of(b.Org), `
SELECT l::text FROM labels l WHERE org_id = @org_id
UNION ALL
SELECT k.key FROM idempotency_keys k WHERE org_id = @org_id
ORDER BY 1`, nil)
	require.NoError(t, err)
	return rows
}

// keep accepts what is stored by now: what follows must not change it.
func (b *bench) keep(t testing.TB) {
	t.Helper()
	b.stored = b.rows(t)
}

func (b *bench) requireNothingStored(t testing.TB) {
	t.Helper()
	assert.Equal(t, b.stored, b.rows(t), "a refused request left something behind")
}

func (b *bench) requireLogged(t testing.TB) {
	t.Helper()
	var lines int
	assert.Eventually(t, func() bool {
		b.server.Logs.Flush()
		entries, err := b.server.Logs.List(t.Context(), b.Org, 100_000)
		lines = len(entries)
		return err == nil && lines == b.logged
	}, time.Minute, 20*time.Millisecond, "one line in the API log for each request: %d of %d", lines, b.logged)
	assert.Zero(t, b.server.Logs.Dropped(), "lines of the API log")
}
