package webhooks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// However many subscriptions of an organization have the same host, it gets at most 500 posts a second, 32 at once.
func TestHostRate_ManySubscriptionsOfOneHost_PaceHolds(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	subscriptions, changes := proof.Sized(10, 50), proof.Sized(70, 400)
	for n := range subscriptions - 1 {
		_, err := s.Webhooks.Create(t.Context(), s.org, audit.Operator(),
			webhooks.Draft{URL: fmt.Sprintf("%s/%d", s.receiver.URL, n), Events: events.Catalogue()})
		require.NoError(t, err)
	}
	posts := subscriptions * changes
	began := time.Now()
	s.customers(t, changes)
	require.Eventually(t, func() bool {
		s.Pass(t, time.Second) // deliveries that found no turn are due again
		return s.receiver.Count() >= posts
	}, proof.Sized(patience, 5*time.Minute), 100*time.Millisecond)
	took := time.Since(began)
	t.Logf("%d posts in %s: %.0f a second", s.receiver.Count(), took, float64(s.receiver.Count())/took.Seconds())
	require.GreaterOrEqual(t, took.Seconds(), float64(posts-50)/webhooks.DefaultHostRate)
	s.awaitCount(t, webhooks.Succeeded, posts)
	require.Zero(t, s.count(t, `SELECT count(*) FROM webhook_deliveries WHERE org_id = @org_id AND attempt_count <> 1`, nil),
		"waiting for a turn is no attempt")
}
