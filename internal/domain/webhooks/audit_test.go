package webhooks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
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

	created, err := s.Webhooks.Create(t.Context(), s.org, by, webhooks.Draft{URL: s.receiver.URL, Events: events.Catalogue()})
	require.NoError(t, err)

	entries, err := s.Audit.List(t.Context(), s.org, time.Time{}, 5)
	require.NoError(t, err)
	targets := map[string][]string{}
	for _, entry := range entries {
		actor := audit.Principal{Kind: entry.ActorKind, ID: entry.ActorID}
		require.Equal(t, by, actor)
		targets[entry.Action] = append(targets[entry.Action], entry.Target)
	}
	require.Len(t, targets, 4)
	require.ElementsMatch(t, []string{secret.ID.String(), created.Secrets[0].ID.String()}, targets["webhook_secret.issued"])
	require.Equal(t, []string{secret.ID.String()}, targets["webhook_secret.revoked"])
	require.Equal(t, []string{delivery.ID.String()}, targets["webhook_delivery.replayed"])
	require.Len(t, targets["webhook_deliveries.replayed"], 1)
}
