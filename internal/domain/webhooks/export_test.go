package webhooks

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// SetAsideTx lets tests call what the lanes call.
func (s *Service) SetAsideTx(ctx context.Context, tx *postgres.Tx, deliveries []DeliveryID, reason string) error {
	return s.setAsideTx(ctx, tx, deliveries, reason)
}
