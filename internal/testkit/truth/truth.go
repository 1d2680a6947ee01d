// Package truth is the judge of every run: it compares what clients were told, what
// endpoints received, what the databases hold and what was logged, and names each promise
// that was broken. It knows the run from outside and trusts nothing that the product says
// of itself.
package truth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// Run is what a run left behind.
type Run struct {
	// Cells are the addresses of all databases, by name.
	Cells map[string]string
	Calls []Call
	// Subscriptions are all that there were, and Requests what their endpoints received.
	Subscriptions []Subscription
	Requests      []receiver.Request
	// Canaries are strings that belong to one organization each.
	Canaries map[string][]string
	// Keys are API keys in plain text. Signing secrets are known from the subscriptions.
	Keys []string
	// Logs are files that hold what processes wrote.
	Logs []string
}

// Call is a request to the API and its answer. Who asks again until there is an answer
// notes each answer that arrives; answers that only ask for patience are none.
type Call struct {
	Org string
	// Key is the Idempotency-Key, if there was one.
	Key string
	// Mark, made by Mark, stands in what the call changes and in nothing else.
	Mark string
	// Event is the type that announces the change.
	Event string
	// Status 0 was never answered: it may have happened, once.
	Status int
	Body   []byte
}

func (c Call) succeeded() bool { return c.Status >= 200 && c.Status < 300 }

// Subscription is an endpoint as its owner knows it.
type Subscription struct {
	Org, ID string
	// Path is that of its URL; no other subscription has it.
	Path    string
	Events  []string
	Numbers []string
	// Since is when it was there, and Until, unless zero, when it no longer was.
	Since, Until time.Time
	Secrets      []Secret
}

// Secret signs for a while. A zero Minted is from the beginning, a zero Revoked never.
type Secret struct {
	Text            string
	Minted, Revoked Span
}

// Span is a time within which something happened: between a request and its answer.
type Span struct{ Begin, End time.Time }

// Tolerance is how close to a change an attempt may still, or already, go by the other side.
const Tolerance = 2 * time.Second

// Invariant is the number of a promise.
type Invariant string

// The promises that are judged.
const (
	Once       Invariant = "I4"
	Told       Invariant = "I6"
	Signed     Invariant = "I7"
	Separate   Invariant = "I8"
	Undercover Invariant = "I11"
)

// Violation is a broken promise, in one sentence.
type Violation struct {
	Invariant Invariant
	Sentence  string
}

func (v Violation) String() string { return string(v.Invariant) + ": " + v.Sentence }

// Found is the judgement.
type Found struct {
	Violations []Violation
	// What was looked at.
	Calls, Events, Deliveries, Requests, Verified, Rows, Tables int
}

func (f Found) String() string {
	return fmt.Sprintf("%d violations among %d calls, %d events, %d deliveries, %d requests (%d verified in Node), %d rows of %d tables",
		len(f.Violations), f.Calls, f.Events, f.Deliveries, f.Requests, f.Verified, f.Rows, f.Tables)
}

// checker holds a run and what was read about it.
type checker struct {
	Run

	found      Found
	events     map[string]*event
	marked     map[string][]*event
	deliveries map[string]delivery
	byPath     map[string]*Subscription
	secrets    []needle
	canaries   []needle
}

func (c *checker) violated(which Invariant, sentence string, args ...any) {
	c.found.Violations = append(c.found.Violations, Violation{which, fmt.Sprintf(sentence, args...)})
}

// Check judges a run. It fails t only where it could not look.
func Check(t testing.TB, run Run) Found {
	t.Helper()
	c := &checker{
		Run: run, events: map[string]*event{}, marked: map[string][]*event{}, deliveries: map[string]delivery{},
		byPath: map[string]*Subscription{},
	}
	for i := range c.Subscriptions {
		one := &c.Subscriptions[i]
		require.NotContains(t, c.byPath, one.Path, "two subscriptions have one path")
		c.byPath[one.Path] = one
	}
	c.secrets, c.canaries = c.secretNeedles(), c.canaryNeedles()
	for _, name := range slices.Sorted(maps.Keys(c.Cells)) {
		require.NoError(t, c.readCell(t.Context(), name), "the cell %s", name)
	}
	c.checkOnce()
	c.checkTold()
	c.checkSigned(t)
	c.checkSeparate()
	require.NoError(t, c.checkLogs())
	c.found.Calls, c.found.Requests = len(c.Calls), len(c.Requests)
	c.found.Events, c.found.Deliveries = len(c.events), len(c.deliveries)
	return c.found
}

// Require judges a run, says what was looked at and fails with the first violations.
func Require(t testing.TB, run Run) Found {
	t.Helper()
	found := Check(t, run)
	t.Logf("the truth: %s", found)
	if len(found.Violations) > 0 {
		require.Fail(t, "promises were broken", "%d violations, among them:\n%s", len(found.Violations), found.list())
	}
	return found
}

// shownOfEach is how many violations of one promise are listed.
const shownOfEach = 10

func (f Found) list() string {
	var text strings.Builder
	shown := map[Invariant]int{}
	for _, one := range f.Violations {
		if shown[one.Invariant]++; shown[one.Invariant] <= shownOfEach {
			fmt.Fprintln(&text, one)
		}
	}
	return text.String()
}

// readCell reads the events and deliveries of a cell, then looks through every row of it.
func (c *checker) readCell(ctx context.Context, name string) error {
	db, err := open(ctx, c.Cells[name])
	if err != nil {
		return err
	}
	defer db.close(ctx)
	if err := c.readEvents(ctx, db); err != nil {
		return err
	}
	if err := c.readDeliveries(ctx, db); err != nil {
		return err
	}
	if err := c.readKeys(ctx, db); err != nil {
		return err
	}
	return c.scan(ctx, db, name)
}
