package app

import (
	"context"
	"time"
)

// PurgeMoved lets tests call what background work calls.
func (c *Cells) PurgeMoved(ctx context.Context, from *Cell, turn time.Duration) (purged int, more bool, err error) {
	return c.purgeMoved(ctx, from, turn)
}
