package webhooks

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/lanes"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// SetAsideTx lets tests call what the lanes call.
func (s *Service) SetAsideTx(ctx context.Context, tx *postgres.Tx, deliveries []DeliveryID, reason string) error {
	return s.setAside(ctx, tx, lanes.Lane{}, postgres.Each(deliveries, func(id DeliveryID) lanes.Aside[*outgoing] {
		return lanes.Aside[*outgoing]{Row: lanes.Row{ID: id.Any()}, Reason: reason}
	}))
}
