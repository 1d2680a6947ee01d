package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/quota"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/platform/telemetry"
	"github.com/parley-chat/parley/schema"
)

const (
	upkeepEvery   = 10 * time.Minute
	upkeepTimeout = 2 * time.Minute
)

// keepTime measures the offset to the database's clock every 10 s until ctx ends. Until the first
// success the cell is not ready, so it tries twice a second.
func (c *Cell) keepTime(ctx context.Context, logger *slog.Logger) {
	logger = telemetry.Repeating(logger)
	for {
		interval := clockEvery
		if err := c.SyncClock(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "clock.unsynced", "cell", c.Name, "error", err)
		}
		if !c.synced.Load() {
			interval = clockFirst
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// keepTime measures the offset to the directory's clock every 10 s until ctx ends.
func (c *Cells) keepTime(ctx context.Context, logger *slog.Logger) {
	logger = telemetry.Repeating(logger)
	every(ctx, clockEvery, func() {
		if _, err := c.directoryDB.SyncClock(ctx, c.clock); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "clock.unsynced", "cell", "directory", "error", err)
		}
	})
}

// keepTables calls tidy every 10 minutes until ctx ends.
func (c *Cell) keepTables(ctx context.Context, logger *slog.Logger) {
	every(ctx, upkeepEvery, func() {
		ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
		defer cancel()
		c.tidy(ctx, logger)
	})
}

// tidy creates partitions ahead and drops expired ones. On hold nothing is dropped.
func (c *Cell) tidy(ctx context.Context, logger *slog.Logger) {
	if err := c.upkeepDB.EnsurePartitions(ctx, schema.Partitioned(), c.clock.Now()); err != nil {
		logger.ErrorContext(ctx, "partitions.not_made", "cell", c.Name, "error", err)
	}
	if held, err := c.onHold(ctx); err != nil || held {
		return // keepWorking logs the error
	}
	dropped, err := c.expire(ctx)
	if err != nil {
		logger.ErrorContext(ctx, "partitions.not_dropped", "cell", c.Name, "error", err)
	}
	if len(dropped) > 0 {
		logger.InfoContext(ctx, "partitions.dropped", "cell", c.Name, "partitions", dropped)
	}
}

// expire drops expired partitions and rows that wait for what was in them, and starts the job that expires the history of
// organizations, once the clock was compared with the database's.
func (c *Cell) expire(ctx context.Context) ([]string, error) {
	if !c.synced.Load() || c.jumped.Load() {
		return nil, nil
	}
	dropped, err := c.expiry.Round(ctx, c.clock.Now(), c.clock.Elapsed())
	if err != nil && !errors.Is(err, postgres.ErrNotDropped) {
		return dropped, err // the clock may be wrong
	}
	_, waiting := c.Webhooks.ExpireWaiting(ctx)
	return dropped, errors.Join(err, waiting, c.Retention.Start(ctx))
}

// ConfirmClock lets expiry go on after a jump of the clock: it stores the current time as that of the last
// round. It returns the time of the last round, nil if there was none, and the current time. The audit log of each
// organization of the cell names who confirmed, before expiry goes on.
func (c *Cell) ConfirmClock(ctx context.Context, by audit.Principal) (last *time.Time, now time.Time, err error) {
	if !c.synced.Load() {
		return nil, now, errors.New("the database did not answer with its time")
	}
	now = c.clock.Now()
	last, err = c.upkeepDB.LastRound(ctx)
	if err != nil {
		return nil, now, err
	}
	all, err := c.Orgs.List(ctx)
	if err != nil {
		return last, now, err
	}
	detail := map[string]any{"last_round": clock.StampOrNil(last), "confirmed": clock.Stamp(now)}
	for _, org := range all {
		err := c.Audit.Record(ctx, org.OrgID, by, "clock.confirmed", c.Name, detail)
		if err != nil && !errors.Is(err, postgres.ErrNotOpenHere) { // it moves or has moved away
			return last, now, err
		}
	}
	return last, now, c.upkeepDB.StoreRound(ctx, now)
}

const (
	checkEvery   = 20 * time.Second
	checkTimeout = 15 * time.Second
)

// keepChecking starts the checks of accounts, the syncs of templates and the recounts of quotas
// that are due, and handles parked statuses, every 20 s until ctx ends.
func (c *Cell) keepChecking(ctx context.Context, lookAfter func(context.Context) (int, error), logger *slog.Logger) {
	logger = telemetry.Repeating(logger)
	every(ctx, checkEvery, func() {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		if _, err := lookAfter(ctx); err != nil && ctx.Err() == nil {
			logger.ErrorContext(ctx, "cell.upkeep_failed", "cell", c.Name, "error", err)
		}
	})
}

// quotaTimeout bounds the last flush of the quotas, because a stop must end.
const quotaTimeout = 5 * time.Second

// keepQuota adds to the quotas what this process has counted, every second until ctx ends.
func (c *Cell) keepQuota(ctx context.Context, logger *slog.Logger) {
	logger = telemetry.Repeating(logger)
	every(ctx, quota.FlushEvery, func() {
		if err := c.Quota.Flush(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "quota.not_flushed", "cell", c.Name, "error", err)
		}
	})
}

// closeQuota flushes the quotas for the last time, when no request is in flight any more.
func (c *Cell) closeQuota(ctx context.Context, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quotaTimeout)
	defer cancel()
	if err := c.Quota.Close(ctx); err != nil {
		logger.ErrorContext(ctx, "quota.not_flushed", "cell", c.Name, "error", err)
	}
}

// keepCounting adds what this process has counted of sends and callbacks to the cell's counts, every
// second until ctx ends.
func (c *Cell) keepCounting(ctx context.Context, logger *slog.Logger) {
	logger = telemetry.Repeating(logger)
	every(ctx, time.Second, func() {
		if err := c.Messages.FlushMinutes(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "messages.counts_not_flushed", "cell", c.Name, "error", err)
		}
	})
}

// every runs work at once, and then once per interval until ctx ends.
func every(ctx context.Context, interval time.Duration, work func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		work()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sleep waits, and tells whether ctx is still alive after that.
func sleep(ctx context.Context, interval time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(interval):
		return true
	}
}
