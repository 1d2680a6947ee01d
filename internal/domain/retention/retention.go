// Package retention deletes what is older than the plan of its organization keeps. It has no tables: it asks the packages
// that own the rows. One job of a cell walks its organizations, a few seconds at a time. Partitions of other periods are
// dropped by platform/postgres.
package retention

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parley-chat/parley/internal/domain/messages"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	orgTurn = 2 * time.Second
	// dropAgain is after which time a month that was in use is dropped again.
	dropAgain = time.Minute
)

// Service is the retention of one cell.
type Service struct {
	Deps
}

// Deps are the dependencies of the service.
type Deps struct {
	// Work is the pool of background work.
	Work     *postgres.DB
	Clock    clock.Clock
	Jobs     *jobs.Queue
	Messages *messages.Service
	Webhooks *webhooks.Service
	Logger   *slog.Logger
	// Turn is how long a job works before another goes on. Default: jobs.Turn.
	Turn time.Duration
	// OrgTurn is how long a job stays with one organization before it goes on to the next; the rest waits for another turn in the same walk.
	// Default: 2 s.
	OrgTurn time.Duration
}

// New builds the service.
func New(deps Deps) *Service {
	deps.Turn, deps.OrgTurn = cmp.Or(deps.Turn, jobs.Turn), cmp.Or(deps.OrgTurn, orgTurn)
	return &Service{Deps: deps}
}

// walkArgs is the job that walks the organizations, and then drops months.
type walkArgs struct {
	// At is the time when the walk began. Periods end at this time, because the clock was compared then.
	At time.Time `json:"at"`
	// After is the last organization that had its turn, or whose month is released.
	After orgs.ID `json:"after,omitzero"`
	// Left are the organizations that have more to delete. After all organizations had a turn, these have another, one after
	// another, until none is left.
	Left []left `json:"unfinished,omitempty"`
	// Month is the month that is being released for all organizations, From the last message of the organization after After
	// that is done. Month is zero during the walk.
	Month time.Time `json:"month,omitzero"`
	From  ids.Any   `json:"from,omitzero"`
	// Released is true when the month was released for all organizations, and could not be dropped.
	Released bool `json:"released,omitempty"`
}

// left is an organization that has more to delete, after a message and an event. A turn that began with the oldest row would
// read every row that the turns before it deleted, until a vacuum.
type left struct {
	Org      orgs.ID `json:"org"`
	Messages ids.Any `json:"messages"`
	Events   ids.Any `json:"events"`
	// Failed is how many turns in a row met an error of the database that passes by itself, such as a lock timeout.
	Failed int `json:"failed,omitempty"`
}

// mostFailed is after how many such turns an organization waits for the next walk.
const mostFailed = 3

// Kind names the job.
func (walkArgs) Kind() string { return "retention" }

// Handle registers the job.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args walkArgs) error { return s.turn(ctx, args) })
}

const (
	// Two processes that start at once wait for each other. The lock has a statement of its own, because a statement sees
	// only what was committed before it began.
	sqlStartAlone = `SELECT pg_advisory_xact_lock(hashtext('parley retention'))`
	sqlUnderWay   = `
SELECT EXISTS (
    SELECT FROM ` + jobs.Table + `
    WHERE kind = @kind AND state IN ('available', 'pending', 'retryable', 'running', 'scheduled'))`
)

// Start adds the job, unless one is under way. The caller has checked that the clock is right.
func (s *Service) Start(ctx context.Context) error {
	_, err := postgres.InSystemTx(ctx, s.Work, "start retention", func(tx *postgres.Tx) (bool, error) {
		if _, err := tx.Exec(ctx, sqlStartAlone, nil); err != nil {
			return false, err
		}
		walk := walkArgs{At: s.Clock.Now()}
		underWay, err := postgres.One[bool](ctx, tx, sqlUnderWay, postgres.Args{"kind": walk.Kind()})
		if err != nil || underWay {
			return false, err
		}
		_, err = s.Jobs.AddTx(ctx, tx, jobs.Job{Queue: jobs.Maintenance, Args: walk})
		return true, err
	})
	return err
}

func (s *Service) add(ctx context.Context, args walkArgs, at time.Time) error {
	_, err := postgres.InSystemTx(ctx, s.Work, "go on with retention", func(tx *postgres.Tx) ([]int64, error) {
		return s.Jobs.AddTx(ctx, tx, jobs.Job{Queue: jobs.Maintenance, Args: args, At: at})
	})
	return err
}

// turn works until its time is over; then another job goes on.
func (s *Service) turn(ctx context.Context, args walkArgs) error {
	ctx = postgres.WithPauses(postgres.WithBudget(ctx, s.Turn))
	plans, err := s.plans(ctx, args.At)
	if err != nil {
		return err
	}
	if args.Month.IsZero() {
		if done, err := s.walk(ctx, plans, &args); err != nil {
			return err
		} else if !done {
			return s.add(ctx, args, time.Time{})
		}
		args = walkArgs{At: args.At}
	}
	return s.months(ctx, plans, args)
}

// walk gives every organization a turn, and then those that are left. It returns false when its time is over.
func (s *Service) walk(ctx context.Context, plans plans, args *walkArgs) (done bool, err error) {
	for {
		some, err := s.next(ctx, plans, args.After)
		if err != nil {
			return false, err
		}
		if len(some) == 0 {
			break
		}
		for _, one := range some {
			if err := s.expire(ctx, plans, one, left{Org: one.OrgID}, args); err != nil {
				return false, err
			}
			if args.After = one.OrgID; postgres.OverBudget(ctx) {
				return false, nil
			}
		}
	}
	for len(args.Left) > 0 {
		from := args.Left[0]
		args.Left = args.Left[1:]
		plan, err := s.planOf(ctx, from.Org)
		if err == nil {
			err = s.expire(ctx, plans, standing{OrgID: from.Org, Plan: plan, OldErased: true, OldMessages: true, OldEvents: true}, from, args)
		}
		if err != nil && !errors.Is(err, postgres.ErrNoRow) { // it was moved
			return false, err
		}
		if postgres.OverBudget(ctx) {
			return false, nil
		}
	}
	return true, nil
}

// expire gives an organization a turn, from the place where the one before ended. If there is more to delete, or the turn met
// an error that passes by itself, it adds the organization to those that are left.
func (s *Service) expire(ctx context.Context, plans plans, one standing, from left, args *walkArgs) error {
	turn := postgres.WithBudget(ctx, s.OrgTurn)
	of := plans.of[one.Plan]
	at := new(ids.Any) // ids of erased messages have no place: they are found by their time
	var err error
	if one.OldErased {
		err = s.Messages.ForgetErased(turn, one.OrgID, plans.erased)
	}
	if err == nil && one.OldMessages && !of.messages.IsZero() {
		at = &from.Messages
		err = s.Messages.ExpireBefore(turn, one.OrgID, from.Messages, of.messages)
	}
	if err == nil && one.OldEvents && !of.events.IsZero() {
		at = &from.Events
		err = s.Webhooks.ExpireBefore(turn, one.OrgID, from.Events, of.events)
	}
	if more, is := errors.AsType[*postgres.MoreError](err); is {
		*at, from.Failed = more.After, 0
		args.Left = append(args.Left, from)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil || errors.Is(err, postgres.ErrNotOpenHere) { // it is being moved
		return nil
	}
	s.Logger.ErrorContext(ctx, "retention.not_expired", "org", one.OrgID, "error", err)
	if from.Failed++; postgres.Undone(err) && from.Failed < mostFailed {
		args.Left = append(args.Left, from)
	}
	return nil
}

// months drops the months that are past the longest plan, after what dropping them would leave behind was deleted. A month
// in which an organization that is being moved has messages waits for the next walk.
func (s *Service) months(ctx context.Context, plans plans, args walkArgs) error {
	ended, err := s.Messages.MonthsBefore(ctx, plans.longest)
	if err != nil {
		return err
	}
	for _, month := range ended {
		if month.Before(args.Month) {
			continue
		}
		if !month.Equal(args.Month) {
			args = walkArgs{At: args.At, Month: month}
		}
		if !args.Released {
			done, err := s.release(ctx, &args)
			if errors.Is(err, postgres.ErrNotOpenHere) {
				return nil
			}
			if err != nil {
				return err
			}
			if !done {
				return s.add(ctx, args, time.Time{})
			}
		}
		if err := s.Messages.DropMonth(ctx, month); err != nil {
			s.Logger.WarnContext(ctx, "retention.month_not_dropped", "month", month.Format("2006-01"), "error", err)
			return s.add(ctx, walkArgs{At: args.At, Month: month, Released: true}, s.Clock.Now().Add(dropAgain))
		}
		s.Logger.InfoContext(ctx, "retention.month_dropped", "month", month.Format("2006-01"))
		if postgres.OverBudget(ctx) {
			return s.add(ctx, walkArgs{At: args.At, Month: month}, time.Time{})
		}
	}
	return nil
}

// release deletes what dropping the month would leave behind, for one organization after another. It returns false when its
// time is over.
func (s *Service) release(ctx context.Context, args *walkArgs) (done bool, err error) {
	for {
		org, err := s.Messages.NextOfMonth(ctx, args.Month, args.After)
		if errors.Is(err, postgres.ErrNoRow) {
			return true, nil
		}
		if err == nil {
			err = s.Messages.ReleaseMonth(ctx, org, args.Month, args.From)
		}
		if more, is := errors.AsType[*postgres.MoreError](err); is {
			args.From = more.After
			return false, nil
		}
		if err != nil {
			return false, err
		}
		args.After, args.From = org, ids.Any{}
		if postgres.OverBudget(ctx) {
			return false, nil
		}
	}
}
