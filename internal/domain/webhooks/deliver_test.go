package webhooks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/audit"
	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/paging"
	"github.com/parley-chat/parley/internal/platform/signature"
	"github.com/parley-chat/parley/internal/testkit/factory"
	"github.com/parley-chat/parley/internal/testkit/receiver"
)

const patience = 3 * time.Minute

// fixture is a cell with running workers and one subscription to a receiver.
type fixture struct {
	*factory.World

	org      orgs.ID
	receiver *receiver.Receiver
	webhooks.Subscription
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{World: factory.New(t), receiver: receiver.New(t)}
	s.org, _ = s.World.Org(t)
	var err error
	s.Subscription, err = s.Webhooks.Create(t.Context(), s.org, audit.Operator(), webhooks.Draft{URL: s.receiver.URL, Events: events.Catalogue()})
	require.NoError(t, err)
	s.Work(t)
	return s
}

// deliveries are all of the organization, newest first.
func (s *fixture) deliveries(t *testing.T) []webhooks.Delivery {
	t.Helper()
	page, err := s.Webhooks.Deliveries(t.Context(), s.org, webhooks.Filter{}, paging.Slice[webhooks.DeliveryID]{Limit: 100})
	require.NoError(t, err)
	return page.Items
}

// waitFor waits until the only delivery has a state.
func (s *fixture) waitFor(t *testing.T, status webhooks.DeliveryStatus, attempts int) (found webhooks.Delivery) {
	t.Helper()
	require.Eventually(t, func() bool {
		found = s.deliveries(t)[0]
		return found.Status == status && found.AttemptCount == attempts
	}, patience, 5*time.Millisecond, "the delivery is not %s after %d attempts: %+v", status, attempts, &found)
	return found
}

func TestDelivery_ArrivesSigned(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	customer := s.Customer(t, s.org)
	arrived := s.receiver.WaitCount(t, 1, patience)[0]
	require.Equal(t, "customer.created", arrived.Event())
	require.Equal(t, "svc", arrived.Header.Get("X-Svc-Source"))
	require.Equal(t, 1, arrived.Attempt())
	require.Contains(t, string(arrived.Body), customer.ID.String())
	require.NoError(t, signature.Verify(arrived.Header.Get(signature.Header), arrived.Body, []string{s.InitialSecret},
		s.Clock.Now(), signature.Tolerance))
	require.Equal(t, signature.Sign256(arrived.Body, s.InitialSecret), arrived.Header.Get(signature.Header256))

	delivery := s.waitFor(t, webhooks.Succeeded, 1)
	require.Equal(t, delivery.ID.String(), arrived.DeliveryID())
	require.Equal(t, delivery.EventID.String(), arrived.EventUID())
	require.Equal(t, delivery.EventKey, arrived.Header.Get("X-Svc-Event-Id"))
	detail, err := s.Webhooks.Delivery(t.Context(), s.org, delivery.ID)
	require.NoError(t, err)
	require.Equal(t, arrived.Body, detail.Body)
	require.Len(t, detail.Attempts, 1)
}
