// Package timeline tells what happened to one message, from the request to the last webhook delivery,
// oldest first. It owns no table: it asks the packages whose rows are about the message, each of which
// reads its own.
package timeline

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/accounts"
	"github.com/parley-chat/parley/internal/domain/apilogs"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// Kind is what sort of step an entry is.
type Kind string

// The kinds, in the order of entries of the same time.
const (
	Request  Kind = "request"
	Accepted Kind = "accepted"
	Attempt  Kind = "attempt"
	Status   Kind = "status"
	Event    Kind = "event"
	Delivery Kind = "delivery"
)

// Entry is one step.
type Entry struct {
	Position

	Kind   Kind
	Detail Detail
}

// Position is the place of an entry in its timeline. No two entries have the same.
type Position struct {
	At time.Time `json:"at"`
	// Rank orders entries of the same time.
	Rank int    `json:"rank"`
	ID   string `json:"id"`
}

func (p Position) compare(other Position) int {
	return cmp.Or(p.At.Compare(other.At), cmp.Compare(p.Rank, other.Rank), strings.Compare(p.ID, other.ID))
}

// LeftOut says that entries of a kind may be missing, and why.
type LeftOut struct {
	Kind    Kind   `json:"kind"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Reason is why entries are missing.
type Reason string

// The reasons.
const (
	// Expired entries are older than their kind is kept.
	Expired Reason = "expired"
	// TooMany entries are there to be read all at once.
	TooMany Reason = "too_many"
	// NotLogged is a request that the API log does not have: it is not written yet, or was lost.
	NotLogged Reason = "not_logged"
)

// Page is a page of a timeline.
type Page struct {
	paging.Page[Entry, Position]

	// LeftOut is about the whole timeline, and the same on each page.
	LeftOut []LeftOut
}

// Service reads the timelines of one cell.
type Service struct {
	db       *postgres.DB
	clock    clock.Clock
	messages *messages.Service
	webhooks *webhooks.Service
}

// New builds the service.
func New(db *postgres.DB, clock clock.Clock, messages *messages.Service, webhooks *webhooks.Service) *Service {
	return &Service{db: db, clock: clock, messages: messages, webhooks: webhooks}
}

const (
	// mostEvents is how many events are read. A message has about six, and one more for each edit.
	mostEvents = 100
	// skew is how much earlier than its message an event may be by the clock of another process.
	skew = time.Minute
)

// Read returns a page of the timeline of a message of a number. A whole timeline is small, so that every page reads all of
// it: the order of the entries is that of no index.
func (s *Service) Read(
	ctx context.Context, org orgs.ID, of accounts.Account, id messages.ID, slice paging.Slice[Position],
) (Page, error) {
	found, err := s.gather(ctx, org, of, id)
	if err != nil {
		return Page{}, err
	}
	entries := found.entries()
	slices.SortFunc(entries, func(a, b Entry) int { return a.compare(b.Position) })
	if slice.After != nil {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.compare(*slice.After) <= 0 })
	}
	page := paging.Cut(entries, slice.Limit, func(e Entry) Position { return e.Position })
	return Page{Page: page, LeftOut: found.leftOut()}, nil
}

// gathered is everything that is known of a message.
type gathered struct {
	messages.Story

	now time.Time
	// logged says that the API log has the request.
	logged  bool
	request apilogs.Entry
	events  []events.Recorded
	// moreEvents says that there are more of them.
	moreEvents bool
	trail      webhooks.Trail
}

// gather reads each table once.
func (s *Service) gather(ctx context.Context, org orgs.ID, of accounts.Account, id messages.ID) (*gathered, error) {
	g, scope := &gathered{now: s.clock.Now()}, s.db.SteadyOf(org)
	var err error
	if g.Story, err = s.messages.Story(ctx, org, of, id); err != nil {
		return nil, err
	}
	since := latest(id.CreatedAt().Add(-skew), g.now.Add(-events.Kept))
	if g.events, err = events.OfMessage(ctx, scope, id.Any(), since, mostEvents+1); err != nil {
		return nil, err
	}
	if g.moreEvents = len(g.events) > mostEvents; g.moreEvents {
		g.events = g.events[:mostEvents]
	}
	// The keys of the message find replays that are younger than their event was kept.
	keys := g.EventKeys()
	for _, one := range g.events {
		keys = append(keys, one.Key)
	}
	slices.Sort(keys)
	if g.trail, err = s.webhooks.Trail(ctx, org, slices.Compact(keys), since); err != nil {
		return nil, err
	}
	if g.RequestID.IsZero() || g.requestExpired() {
		return g, nil
	}
	g.request, g.logged, err = apilogs.Find(ctx, scope, apilogs.RequestOf(g.RequestID))
	return g, err
}

func (g *gathered) requestExpired() bool {
	return apilogs.RequestOf(g.RequestID).CreatedAt().Before(g.now.Add(-apilogs.Kept))
}

func latest(one, other time.Time) time.Time {
	if one.After(other) {
		return one
	}
	return other
}
