// Package truth checks the invariants of the product after a run: it compares the responses that
// clients got, the requests that endpoints received, the rows of the databases and the logs, and
// reports each violation. It reads the databases directly and uses no code of the product.
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

	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

// Run is the data of a run that is checked.
type Run struct {
	// Cells are the URLs of all databases, by name.
	Cells map[string]string
	Calls []Call
	// Subscriptions are all subscriptions of the run, and Requests all requests to their endpoints.
	Subscriptions []Subscription
	Requests      []receiver.Request
	// Canaries are strings that belong to one organization each.
	Canaries map[string][]string
	// Keys are API keys in plain text. Signing secrets are known from the subscriptions.
	Keys []string
	// Logs are the files with the output of the processes.
	Logs []string
	// Sends is the provider's own log: every message that it took.
	Sends []Send
	// Written are the provider's ids of the messages that people wrote to the numbers.
	Written []string
	// EchoWait is PARLEY_SEND_ECHO_WAIT of the processes.
	EchoWait time.Duration
	// Kills is how many processes were killed. Each may forget what it counted of a quota in memory.
	Kills int
	// Lost is the time from the moment to which the cells were restored to the end of the processes that ran then. The
	// cells know nothing of what the provider took in it. SentAgain tells that unsent messages were sent after the
	// restore: those that the provider took in the lost time then have two copies.
	Lost      Span
	SentAgain bool
	// EndedAt is the end of the run by the clock of the cells. Zero: now.
	EndedAt time.Time
}

// Call is a request to the API and its response. A client that retries adds a Call for each
// response, except those that only ask it to retry.
type Call struct {
	Org string
	// Key is the Idempotency-Key; empty for none.
	Key string
	// Mark is a string of the function Mark that only the rows changed by this call contain.
	Mark string
	// Event is the type of the event of the change.
	Event string
	// Status is the status of the response. Zero means that there was none: the change may have
	// happened, at most once.
	Status int
	Body   []byte
}

func (c Call) succeeded() bool { return c.Status >= 200 && c.Status < 300 }

// Subscription is a webhook subscription of the run.
type Subscription struct {
	Org, ID string
	// Path is the path of its URL, which is different for each subscription.
	Path    string
	Events  []string
	Numbers []string
	// Since is when it surely existed. Until is when it was deleted; zero for never.
	Since, Until time.Time
	Secrets      []Secret
}

// Secret is a signing secret. A zero Minted means from the beginning, a zero Revoked never.
type Secret struct {
	Text            string
	Minted, Revoked Span
}

// Span is the time between a request and its response, within which a change happened.
type Span struct{ Begin, End time.Time }

// Tolerance is the time around a change in which both the old and the new state are accepted.
const Tolerance = 2 * time.Second

// Invariant is the number of an invariant in the design.
type Invariant string

// The invariants that are checked.
const (
	Readable  Invariant = "I1"
	Settled   Invariant = "I2"
	Copies    Invariant = "I3"
	Once      Invariant = "I4"
	Forward   Invariant = "I5"
	Delivered Invariant = "I6"
	Signed    Invariant = "I7"
	Separate  Invariant = "I8"
	Working   Invariant = "I9"
	Books     Invariant = "I10"
	Secrecy   Invariant = "I11"
	Limits    Invariant = "I12"
)

// Violation is a violated invariant, with one sentence.
type Violation struct {
	Invariant Invariant
	Sentence  string
}

func (v Violation) String() string { return string(v.Invariant) + ": " + v.Sentence }

// Found is the result of a check.
type Found struct {
	Violations []Violation
	// The numbers of things that were checked.
	Calls, Events, Deliveries, Requests, Verified, Rows, Tables, Messages int
	// Sends is the number of entries of the provider's log. Accepted are those whose id our ledger
	// has, Ambiguous those whose attempt it has as one without a known result.
	Sends, Accepted, Ambiguous int
	// Silent are the entries of attempts without a known result of which no callback was ever posted.
	Silent int
	// Doubled is how many messages the provider took twice or more, Extra how many entries are not the
	// first of their message, Resent how many messages were sent again after an attempt without a known
	// result.
	Doubled, Extra, Resent int
}

func (f Found) String() string {
	text := fmt.Sprintf("%d violations among %d calls, %d events, %d deliveries, %d requests (%d verified in Node), %d rows of %d tables",
		len(f.Violations), f.Calls, f.Events, f.Deliveries, f.Requests, f.Verified, f.Rows, f.Tables)
	if f.Messages+f.Sends > 0 {
		text += fmt.Sprintf("; %d messages, of which %d were sent again; the provider took %d (%d known by id, %d ambiguous), %d messages twice",
			f.Messages, f.Resent, f.Sends, f.Accepted, f.Ambiguous, f.Doubled)
	}
	return text
}

// checker holds a run and the rows that were read.
type checker struct {
	Run

	found      Found
	events     map[string]*event
	marked     map[string][]*event
	about      map[ids.Any][]*event // by message
	ledger     ledger
	stored     map[owned]bool
	deliveries map[string]delivery
	byPath     map[string]*Subscription
	secrets    []needle
	canaries   []needle
}

func (c *checker) violated(which Invariant, sentence string, args ...any) {
	c.found.Violations = append(c.found.Violations, Violation{which, fmt.Sprintf(sentence, args...)})
}

// Check checks a run and returns the violations. It fails t only when something cannot be read.
func Check(t testing.TB, run Run) Found {
	t.Helper()
	c := &checker{
		Run: run, events: map[string]*event{}, marked: map[string][]*event{}, about: map[ids.Any][]*event{},
		deliveries: map[string]delivery{}, byPath: map[string]*Subscription{}, stored: map[owned]bool{}, ledger: newLedger(),
	}
	if c.EndedAt.IsZero() {
		c.EndedAt = time.Now()
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
	c.checkReadable()
	c.checkOnce()
	c.checkMessages()
	c.checkDelivered()
	c.checkSigned(t)
	c.checkSeparate()
	require.NoError(t, c.checkLogs())
	c.found.Calls, c.found.Requests = len(c.Calls), len(c.Requests)
	c.found.Events, c.found.Deliveries = len(c.events), len(c.deliveries)
	return c.found
}

// Require checks a run, logs the result, and fails t when there are violations.
func Require(t testing.TB, run Run) Found {
	t.Helper()
	found := Check(t, run)
	t.Logf("the truth: %s", found)
	if len(found.Violations) > 0 {
		require.Fail(t, "promises were broken", "%d violations, among them:\n%s", len(found.Violations), found.list())
	}
	return found
}

// shownOfEach is the largest number of violations of one invariant that are listed.
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

// readCell reads the tables of a cell that are checked, then searches every row of it.
func (c *checker) readCell(ctx context.Context, name string) error {
	db, err := open(ctx, c.Cells[name])
	if err != nil {
		return err
	}
	defer db.close(ctx)
	for _, read := range []func(context.Context, database) error{
		c.readEvents, c.readDeliveries, c.readKeys, c.readMessages, c.readReceived, c.readAttempts, c.readCallbacks, c.readJobs, c.readLanes,
		c.readQuotas, c.readRequests,
	} {
		if err := read(ctx, db); err != nil {
			return err
		}
	}
	return c.scan(ctx, db, name)
}
