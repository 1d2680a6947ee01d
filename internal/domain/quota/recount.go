package quota

import (
	"context"
	"time"

	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

const (
	// recountEvery is how often the messages of a month are counted.
	recountEvery = 24 * time.Hour
	// settled is the age at which a message was surely reserved before the row was read: longer
	// than a request takes. It is also how long after its end an allowance is taken for in use.
	settled = time.Minute
	// lastRecount is how long after the end of a month its messages are counted for the last time.
	lastRecount = time.Hour
	dueAtOnce   = 100
)

// Count returns how many outbound messages of an organization were accepted from a time on and
// before another. Recount asks for one day at a time.
type Count func(ctx context.Context, org orgs.ID, from, to time.Time) (int64, error)

// CountWith sets the function that counts messages. Without one nothing is recounted. It is called
// once, while the cell is built.
func (s *Service) CountWith(count Count) { s.count = count }

// Handle registers the job.
func (s *Service) Handle(set *jobs.Set) {
	jobs.Handle(set, func(ctx context.Context, _ int64, args recountArgs) error {
		_, err := s.Recount(ctx, args.Org, args.Month)
		return err
	})
}

// recountArgs is the job that counts the messages of a month.
type recountArgs struct {
	Org   orgs.ID   `json:"org"`
	Month time.Time `json:"month"`
}

// Kind names the job.
func (recountArgs) Kind() string { return "quota_recount" }

type dueMonth struct {
	OrgID orgs.ID
	Month time.Time
}

func dueMonths() jobs.Due[dueMonth] {
	return jobs.Due[dueMonth]{
		Table: "quota_usage", Key: "month", Returning: `t.org_id, t.month`, Every: recountEvery, AtOnce: dueAtOnce,
		Job: func(one dueMonth) jobs.Args { return recountArgs{Org: one.OrgID, Month: one.Month} },
	}
}

// LookAfter adds a job for each month that is due to be recounted. Every process may call it at any
// time.
func (s *Service) LookAfter(ctx context.Context) (begun int, err error) {
	if s.count == nil {
		return 0, nil
	}
	return postgres.InSystemTx(ctx, s.work, "months that are due", func(tx *postgres.Tx) (int, error) {
		return dueMonths().AddTx(ctx, tx, s.jobs, s.clock.Now())
	})
}

// Recount counts the messages of a month and adds those that are missing in its row, because a
// process died before it added them. It returns how many it added.
//
// It compares with the row as it was at one instant, and adds the difference, so that flushes in
// between are not lost. Messages of the last minute are not counted, and what the allowances of that
// instant cover is not missing: living processes will add it. So it adds too much only for a process
// that stood still for longer than a minute, and is precise when the organization pauses or is in the last
// tenth. It takes nothing away: messages that were
// erased since then still count, and the row cannot tell them from reservations that a dead process
// did not give back.
func (s *Service) Recount(ctx context.Context, org orgs.ID, month time.Time) (missing int64, err error) {
	k, now := key{org: org, month: month}, s.clock.Now()
	end := month.AddDate(0, 1, 0)
	seen, err := readMonth(ctx, s.work.Of(org), month)
	if err != nil || seen.DueAt == nil || s.count == nil {
		return 0, err
	}
	var counted int64
	to := now.Add(-settled)
	if to.After(end) {
		to = end
	}
	for day := month; day.Before(to); day = day.AddDate(0, 0, 1) {
		until := day.AddDate(0, 0, 1)
		if until.After(to) {
			until = to
		}
		n, err := s.count(ctx, org, day, until)
		if err != nil {
			return 0, err
		}
		counted += n
	}
	if missing = max(0, counted-seen.Used-seen.inMemory(now)); missing > 0 {
		s.logger.WarnContext(ctx, "quota.recounted", "org", org, "month", month.Format(time.DateOnly), "missing", missing)
	}
	updated, err := addMissing(ctx, s.work, k, missing, seen.Recounts, nextRecount(now, end))
	if err != nil || updated == 0 {
		return 0, err
	}
	return missing, nil
}

// inMemory is the most that living processes may not have added yet.
func (s standing) inMemory(now time.Time) int64 {
	if s.AllowedUntil == nil || now.Sub(*s.AllowedUntil) > settled {
		return 0
	}
	return s.Allowed
}

// nextRecount is a day later, but an hour after the end of the month at the latest; nil after that.
func nextRecount(now, end time.Time) *time.Time {
	last := end.Add(lastRecount)
	if !now.Before(last) {
		return nil
	}
	if next := now.Add(recountEvery); next.Before(last) {
		return &next
	}
	return &last
}
