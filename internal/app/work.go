package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/parley-chat/parley/schema"
)

const (
	houseEvery   = 10 * time.Minute
	houseTimeout = 2 * time.Minute
)

// keepTime compares the clock with the database's until ctx ends. Until that succeeds
// for the first time the cell is not ready, so it is tried often.
func (c *Cell) keepTime(ctx context.Context, logger *slog.Logger) {
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

// keepTime compares the directory's clock, until ctx ends.
func (c *Cells) keepTime(ctx context.Context, logger *slog.Logger) {
	every(ctx, clockEvery, func() {
		if _, err := c.directoryDB.SyncClock(ctx, c.clock); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "clock.unsynced", "cell", "directory", "error", err)
		}
	})
}

// keepHouse makes partitions ahead, drops those past their time and purges what moved
// away, until ctx ends.
func (c *Cells) keepHouse(ctx context.Context, cell *Cell, logger *slog.Logger) {
	every(ctx, houseEvery, func() {
		ctx, cancel := context.WithTimeout(ctx, houseTimeout)
		defer cancel()
		if err := cell.house.EnsurePartitions(ctx, schema.Partitioned(), cell.clock.Now()); err != nil {
			logger.ErrorContext(ctx, "partitions.not_made", "cell", cell.Name, "error", err)
		}
		dropped, err := cell.house.DropExpired(ctx, schema.Partitioned(), cell.clock.Now())
		if err != nil {
			logger.ErrorContext(ctx, "partitions.not_dropped", "cell", cell.Name, "error", err)
		}
		if len(dropped) > 0 {
			logger.InfoContext(ctx, "partitions.dropped", "cell", cell.Name, "partitions", dropped)
		}
		purged, err := c.purgeMoved(ctx, cell)
		if err != nil {
			logger.ErrorContext(ctx, "organizations.not_purged", "cell", cell.Name, "error", err)
		}
		if purged > 0 {
			logger.InfoContext(ctx, "organizations.purged", "cell", cell.Name, "organizations", purged)
		}
	})
}

const (
	lookEvery   = 20 * time.Second
	lookTimeout = 15 * time.Second
)

// keepLooking begins what is due by the clock, until ctx ends.
func (c *Cell) keepLooking(ctx context.Context, logger *slog.Logger) {
	every(ctx, lookEvery, func() {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if _, err := c.LookAfter(ctx); err != nil && ctx.Err() == nil {
			logger.ErrorContext(ctx, "accounts.not_looked_after", "cell", c.Name, "error", err)
		}
	})
}

// every runs work now and then at each interval, until ctx ends.
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
