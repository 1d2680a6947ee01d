package webhooks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/webhooks"
)

func TestAudit_SecretsAndReplays_NameTheirPrincipal(t *testing.T) {
	t.Parallel()
	s := newIdleFixture(t)
	key, _ := s.Key(t, s.org)
	by := audit.ByKey(key)
	delivery := s.of(t, s.Customer(t, s.org))
	secret, err := s.Webhooks.MintSecret(t.Context(), s.org, by, s.Subscription.ID, webhooks.SecretDraft{})
	require.NoError(t, err)
	_, err = s.Webhooks.RevokeSecret(t.Context(), s.org, by, s.Subscription.ID, secret.ID)
	require.NoError(t, err)
	_, err = s.Webhooks.Replay(t.Context(), s.org, by, delivery.ID)
	require.NoError(t, err)
	s.kill(t)
	_, err = s.Webhooks.ReplayDead(t.Context(), s.org, by, webhooks.ReplayDraft{})
	require.NoError(t, err)

	entries, err := s.Audit.List(t.Context(), s.org, time.Time{}, 4)
	require.NoError(t, err)
	targets := map[string]string{}
	for _, entry := range entries {
		actor := audit.Principal{Kind: entry.ActorKind, ID: entry.ActorID}
		require.Equal(t, by, actor)
		targets[entry.Action] = entry.Target
	}
	require.Len(t, targets, 4)
	require.Equal(t, secret.ID.String(), targets["webhook_secret.issued"])
	require.Equal(t, secret.ID.String(), targets["webhook_secret.revoked"])
	require.Equal(t, delivery.ID.String(), targets["webhook_delivery.replayed"])
	require.NotEmpty(t, targets["webhook_deliveries.replayed"])
}
