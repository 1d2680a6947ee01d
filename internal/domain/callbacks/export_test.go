package callbacks

import (
	"context"

	"github.com/parley-chat/parley/internal/platform/postgres"
)

// SetAsideUnreadTx sets aside a callback that was never read.
func (s *Service) SetAsideUnreadTx(ctx context.Context, tx *postgres.Tx, id ID, reason string) error {
	return s.setAsideTx(ctx, tx, received{id: id}, reason)
}
