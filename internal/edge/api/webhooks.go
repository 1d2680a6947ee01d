package api

import (
	"context"
	"net/http"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
)

func listSubscriptions(c *call) (reply, error) {
	return list(c, webhooks.Subscription.Resource, c.cell.Webhooks.List)
}

func createSubscription(c *call) (reply, error) {
	draft, err := decode[webhooks.Draft](c)
	if err != nil {
		return reply{}, err
	}
	at := func(made webhooks.Subscription) string { return "/webhook_subscriptions/" + made.ID.String() }
	return writeNew(c, at, webhooks.Subscription.Resource, func(ctx context.Context) (webhooks.Subscription, error) {
		return c.cell.Webhooks.Create(ctx, c.org(), c.by(), draft)
	})
}

func subscriptionID(c *call) (webhooks.SubscriptionID, error) {
	return pathID[webhooks.SubscriptionID](c, "id", "webhook subscription")
}

func getSubscription(c *call) (reply, error) {
	id, err := subscriptionID(c)
	if err != nil {
		return reply{}, err
	}
	subscription, err := c.cell.Webhooks.Get(c.ctx(), c.org(), id)
	return read(c, webhooks.Subscription.Resource, subscription, err)
}

func updateSubscription(c *call) (reply, error) {
	change, err := decode[webhooks.Patch](c)
	if err != nil {
		return reply{}, err
	}
	id, err := subscriptionID(c)
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, webhooks.Subscription.Resource, func(ctx context.Context) (webhooks.Subscription, error) {
		return c.cell.Webhooks.Update(ctx, c.org(), id, change)
	})
}

func deleteSubscription(c *call) (reply, error) {
	id, err := subscriptionID(c)
	if err != nil {
		return reply{}, err
	}
	gone := func(s webhooks.Subscription) deleted { return deletedOf("webhook_subscription", s.ID) }
	return write(c, http.StatusOK, gone, func(ctx context.Context) (webhooks.Subscription, error) {
		return c.cell.Webhooks.Delete(ctx, c.org(), id)
	})
}

func mintSecret(c *call) (reply, error) {
	draft, err := decode[webhooks.SecretDraft](c)
	if err != nil {
		return reply{}, err
	}
	id, err := subscriptionID(c)
	if err != nil {
		return reply{}, err
	}
	at := func(made webhooks.Secret) string { return "/webhook_subscriptions/" + made.SubscriptionID.String() } // it lists its secrets
	return writeNew(c, at, webhooks.Secret.Resource, func(ctx context.Context) (webhooks.Secret, error) {
		return c.cell.Webhooks.MintSecret(ctx, c.org(), c.by(), id, draft)
	})
}

func revokeSecret(c *call) (reply, error) {
	id, err := subscriptionID(c)
	if err != nil {
		return reply{}, err
	}
	secretID, err := pathID[webhooks.SecretID](c, "secret_id", "secret")
	if err != nil {
		return reply{}, err
	}
	gone := func(s webhooks.Secret) deleted { return deletedOf("signing_secret", s.ID) }
	return write(c, http.StatusOK, gone, func(ctx context.Context) (webhooks.Secret, error) {
		return c.cell.Webhooks.RevokeSecret(ctx, c.org(), c.by(), id, secretID)
	})
}

// testDraft is the body of a test: the type of the event whose example is delivered.
type testDraft struct {
	EventType events.Type `json:"event_type"`
}

func (a *API) testSubscription(c *call) (reply, error) {
	draft, err := decode[testDraft](c)
	if err != nil {
		return reply{}, err
	}
	id, err := subscriptionID(c)
	if err != nil {
		return reply{}, err
	}
	body, err := a.Contract.WebhookExample(string(draft.EventType))
	if err != nil {
		return reply{}, err
	}
	example, err := events.Example(draft.EventType, body, c.cell.Clock.Now())
	if err != nil {
		return reply{}, err
	}
	return writeNew(c, deliveryPath, webhooks.Delivery.Resource, func(ctx context.Context) (webhooks.Delivery, error) {
		return c.cell.Webhooks.Test(ctx, c.org(), id, example)
	})
}
