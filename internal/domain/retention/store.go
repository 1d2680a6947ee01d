package retention

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// standing is what an organization has that is older than its plan keeps.
type standing struct {
	OrgID       orgs.ID
	Plan        string
	OldMessages bool
	OldEvents   bool
	// OldErased is true if the organization has hashes of erased messages or of preferences that are older than messages.ErasedFor.
	OldErased bool
}

// walkAtOnce is how many organizations one statement looks at.
const walkAtOnce = 500

// The comparison with a period that is null finds nothing.
const sqlNext = `
SELECT o.org_id, o.plan,
       EXISTS (SELECT FROM messages m WHERE m.org_id = o.org_id AND m.id < p.messages) AS old_messages,
       EXISTS (SELECT FROM events e WHERE e.org_id = o.org_id AND e.id < p.events)
       OR EXISTS (SELECT FROM webhook_deliveries d WHERE d.org_id = o.org_id AND d.id < p.events)
       OR EXISTS (SELECT FROM webhook_attempts a WHERE a.org_id = o.org_id AND a.id < p.events) AS old_events,
       EXISTS (SELECT FROM erased_messages x WHERE x.org_id = o.org_id AND x.erased_at < @erased) AS old_erased
FROM (SELECT org_id, plan FROM organizations WHERE org_id > @after ORDER BY org_id LIMIT @limit) AS o
JOIN unnest(@plans::text[], @messages::uuid[], @events::uuid[]) AS p (name, messages, events) ON p.name = o.plan
ORDER BY o.org_id`

type row struct{}

func (row) Prefix() string { return "" }

// floor is the least id of a time; none, which is null, of the zero time.
func floor(at time.Time) ids.Public[row] {
	if at.IsZero() {
		return ids.Public[row]{}
	}
	return ids.Floor[row](at)
}

// next returns the organizations after another, in the order of their ids.
func (s *Service) next(ctx context.Context, plans plans, after orgs.ID) ([]standing, error) {
	args := postgres.Columns(slices.Sorted(maps.Keys(plans.of)),
		postgres.Col("plans", func(name string) string { return name }),
		postgres.Col("messages", func(name string) ids.Public[row] { return floor(plans.of[name].messages) }),
		postgres.Col("events", func(name string) ids.Public[row] { return floor(plans.of[name].events) }))
	args["after"], args["limit"], args["erased"] = after, walkAtOnce, plans.erased
	return postgres.Many[standing](ctx, s.Work.System("walk of retention"), sqlNext, args)
}

const sqlPlanOf = `
SELECT plan
FROM organizations
WHERE org_id = @org_id`

// planOf returns the plan that an organization has now. It returns postgres.ErrNoRow when the organization is not here.
func (s *Service) planOf(ctx context.Context, org orgs.ID) (string, error) {
	return postgres.One[string](ctx, s.Work.Of(org), sqlPlanOf, nil)
}

// bounds are the times before which messages and events are deleted row by row; zero deletes none.
type bounds struct{ messages, events time.Time }

// plans are the bounds by the names of the plans.
type plans struct {
	of map[string]bounds
	// longest is the time before which no plan keeps messages.
	longest time.Time
	// erased is the time before which the hashes of erased messages and of preferences are deleted.
	erased time.Time
}

const sqlPlans = `
SELECT name, history_days
FROM plans
ORDER BY history_days DESC`

// droppedLate is how much longer than events.Kept an event may stay until its partition is dropped: the width of a partition.
const droppedLate = 7 * 24 * time.Hour

// plans reads the periods. Messages of the longest plan are dropped by the month; events are dropped by the week, unless
// the plan keeps messages for a shorter time.
func (s *Service) plans(ctx context.Context, at time.Time) (plans, error) {
	type plan struct {
		Name        string
		HistoryDays int
	}
	all, err := postgres.Many[plan](ctx, s.Work.System("plans"), sqlPlans, nil)
	found := plans{of: make(map[string]bounds, len(all)), erased: at.Add(-messages.ErasedFor)}
	for i, one := range all {
		before := since(at, one.HistoryDays)
		if i == 0 {
			found.longest = before
		}
		var kept bounds
		if before.After(found.longest) {
			kept.messages = before
		}
		if before.After(at.Add(-events.Kept - droppedLate)) {
			kept.events = before
		}
		found.of[one.Name] = kept
	}
	return found, err
}

// since is so many days before a time, but not before the first moment that an id can have.
func since(at time.Time, days int) time.Time {
	first := time.UnixMilli(0)
	if before := at.AddDate(0, 0, -days); before.After(first) {
		return before
	}
	return first
}
