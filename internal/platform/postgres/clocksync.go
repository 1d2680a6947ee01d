package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/ids"
)

const (
	// maxRoundTrip is the longest round trip that is used for a measurement. The error of the
	// offset is at most half of it.
	maxRoundTrip = 100 * time.Millisecond
	// timesAsked is the number of tries before SyncClock gives up.
	timesAsked = 5
)

// SyncClock measures the offset between the clocks of this process and the database, and returns
// by how much it changed since the last measurement. Slow answers are not used.
func (db *DB) SyncClock(ctx context.Context, synced *clock.Synced) (jump time.Duration, err error) {
	conn, release, err := db.acquire(ctx, ids.Org{})
	if err != nil {
		return 0, err
	}
	defer release()
	const sqlNow = `SELECT clock_timestamp()`
	var reference time.Time
	if err := conn.QueryRow(ctx, sqlNow).Scan(&reference); err != nil { // connected and prepared
		return 0, db.classify(err)
	}
	var trip time.Duration
	for range timesAsked {
		asked := synced.Elapsed()
		if err := conn.QueryRow(ctx, sqlNow).Scan(&reference); err != nil {
			return 0, db.classify(err)
		}
		answered := synced.Elapsed()
		if trip = answered - asked; trip <= maxRoundTrip {
			return synced.Adjust(reference, asked, answered), nil
		}
	}
	return 0, fmt.Errorf("the database took %s to tell the time", trip)
}
