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
	// hang is how long a test waits for bytes of the server. After that it fails, because the server
	// waits for input that never comes.
	hang          = time.Minute
	maxHeapGrowth = 64 << 20
)

// TestBadInput_EveryClass_RefusedAndLogged is the catalogue of bad input. For each input the answer is
// the documented error in its envelope, nothing is stored, each request with a known key has one row in
// the API log, and memory does not grow.
//
//nolint:paralleltest // it measures the heap of the process, so no other test may run at the same time
func TestBadInput_EveryClass_RefusedAndLogged(t *testing.T) {
	s := apitest.New(t)
	var cases atomic.Int64
	before := liveHeap()
	t.Cleanup(func() {
		grown := liveHeap() - before
		t.Logf("%d cases in all; the heap grew by %d KiB", cases.Load(), grown>>10)
		assert.LessOrEqual(t, grown, int64(maxHeapGrowth))
	})
	for class, try := range map[string]func(*testing.T, *badInputFixture){
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
			b := newBadInputFixture(t, s)
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
	runtime.GC() // a sync.Pool is emptied by the second collection
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// badInputFixture is an organization with one label, and counts of the requests that were tried.
type badInputFixture struct {
	*apitest.Client
	server *apitest.Server
	label  string // its id

	stored  []string
	cases   int
	logged  int
	slowest time.Duration
}

func newBadInputFixture(t *testing.T, s *apitest.Server) *badInputFixture {
	t.Helper()
	b := &badInputFixture{Client: s.Client(t), server: s}
	b.label = s.Label(t, b.Org).ID.String()
	b.stored = b.rows(t)
	return b
}

// badInput is one request of the catalogue and the expected error.
type badInput struct {
	name         string
	method, path string
	body         any
	header       []string
	want         refusal
}

// faulty is invalid_field_value for a field, or for the whole body when param is "".
func faulty(param string) refusal {
	return refusal{400, "invalid_request_error", "invalid_field_value", param}
}

// create is a POST of a label, and change a PATCH, with a body that must be refused.
func (b *badInputFixture) create(name string, body any, want refusal) badInput {
	return badInput{name: "POST: " + name, method: "POST", path: "/labels", body: body, want: want}
}

func (b *badInputFixture) change(name string, body any, want refusal) badInput {
	return badInput{name: "PATCH: " + name, method: "PATCH", path: "/labels/" + b.label, body: body, want: want}
}

// both is a POST and a PATCH with the same body and the same expected error.
func (b *badInputFixture) both(name string, body any, want refusal) []badInput {
	return []badInput{b.create(name, body, want), b.change(name, body, want)}
}

// refuse sends each input in a subtest and checks its error.
func (b *badInputFixture) refuse(t *testing.T, inputs ...badInput) {
	t.Helper()
	for _, in := range inputs {
		t.Run(in.name, func(t *testing.T) { requireRefusal(t, in.want, b.try(t, in)) })
	}
}

// try sends one request. How long the answer takes is logged and not checked.
func (b *badInputFixture) try(t testing.TB, in badInput) apitest.Answer {
	t.Helper()
	b.cases++
	b.server.Clock.Move(4 * time.Millisecond) // refills the bucket
	started := time.Now()
	answer := b.Do(t, in.method, in.path, in.body, in.header...)
	b.slowest = max(b.slowest, time.Since(started))
	b.note(answer)
	return answer
}

// note counts the answers to requests with a known key. Each of them has a row in the API log.
func (b *badInputFixture) note(answer apitest.Answer) {
	if answer.Header.Get("RateLimit-Limit") != "" {
		b.logged++
	}
	if b.cases%500 == 0 {
		b.server.Logs.Flush() // a flush has 5 s: one of all rows would take longer on a machine that stands still
	}
}

// rows are all rows that the organization has stored through the API.
func (b *badInputFixture) rows(t testing.TB) []string {
	t.Helper()
	rows, err := postgres.Many[string](t.Context(), b.server.DB.Of(b.Org), `
SELECT l::text FROM labels l WHERE org_id = @org_id
UNION ALL
SELECT k.key FROM idempotency_keys k WHERE org_id = @org_id
ORDER BY 1`, nil)
	require.NoError(t, err)
	return rows
}

// keep takes the rows that are stored now as the expected ones for the next requests.
func (b *badInputFixture) keep(t testing.TB) {
	t.Helper()
	b.stored = b.rows(t)
}

func (b *badInputFixture) requireNothingStored(t testing.TB) {
	t.Helper()
	assert.Equal(t, b.stored, b.rows(t), "a refused request left something behind")
}

func (b *badInputFixture) requireLogged(t testing.TB) {
	t.Helper()
	var lines int
	assert.Eventually(t, func() bool {
		b.server.Logs.Flush()
		entries, err := b.server.Logs.List(t.Context(), b.Org, 100_000)
		lines = len(entries)
		return err == nil && lines == b.logged
	}, 3*time.Minute, 20*time.Millisecond, "one line in the API log for each request: %d of %d", lines, b.logged)
	assert.Zero(t, b.server.Logs.Dropped(), "lines of the API log")
}
