package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/paging"
)

func listDeliveries(c *call) (reply, error) {
	filter, err := deliveryFilter(c.query)
	if err != nil {
		return reply{}, err
	}
	type page = paging.Page[webhooks.Delivery, webhooks.DeliveryID]
	return list(c, webhooks.Delivery.Resource, func(ctx context.Context, org orgs.ID, slice paging.Slice[webhooks.DeliveryID]) (page, error) {
		return c.cell.Webhooks.Deliveries(ctx, org, filter, slice)
	})
}

// deliveryFilter reads the filter from a query that the contract has checked.
func deliveryFilter(query url.Values) (filter webhooks.Filter, err error) {
	if given := query.Get("subscription_id"); given != "" {
		var id webhooks.SubscriptionID
		if id.UnmarshalText([]byte(given)) != nil {
			return filter, fault.Invalid("subscription_id", "is not the id of a subscription")
		}
		filter.SubscriptionID = &id
	}
	if given := query.Get("status"); given != "" {
		filter.Status = new(webhooks.DeliveryStatus(given))
	}
	if given := query.Get("event_type"); given != "" {
		filter.EventType = new(events.Type(given))
	}
	if given := query.Get("event_id"); given != "" {
		filter.EventKey = &given
	}
	if filter.CreatedAfter, err = queryTime(query, "created_after"); err != nil {
		return filter, err
	}
	filter.CreatedBefore, err = queryTime(query, "created_before")
	return filter, err
}

// queryTime reads a time of the query; nil when the query has none.
func queryTime(query url.Values, name string) (*time.Time, error) {
	given := query.Get(name)
	if given == "" {
		return nil, nil //nolint:nilnil // not given
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil {
		return nil, fault.Invalid(name, "is not a time like 2026-11-14T10:40:00.000Z")
	}
	return &at, nil
}

func getDelivery(c *call) (reply, error) {
	id, err := pathID[webhooks.DeliveryID](c, "id", "webhook delivery")
	if err != nil {
		return reply{}, err
	}
	detail, err := c.cell.Webhooks.Delivery(c.ctx(), c.org(), id)
	return read(c, webhooks.Detail.Resource, detail, err)
}

func deliveryPath(delivery webhooks.Delivery) string {
	return "/webhook_deliveries/" + delivery.ID.String()
}

func replayDelivery(c *call) (reply, error) {
	id, err := pathID[webhooks.DeliveryID](c, "id", "webhook delivery")
	if err != nil {
		return reply{}, err
	}
	return writeNew(c, deliveryPath, webhooks.Delivery.Resource, func(ctx context.Context) (webhooks.Delivery, error) {
		return c.cell.Webhooks.Replay(ctx, c.org(), c.by(), id)
	})
}

func replayDeliveries(c *call) (reply, error) {
	draft, err := decode[webhooks.ReplayDraft](c)
	if err != nil {
		return reply{}, err
	}
	return write(c, http.StatusOK, webhooks.Replayed.Resource, func(ctx context.Context) (webhooks.Replayed, error) {
		return c.cell.Webhooks.ReplayDead(ctx, c.org(), c.by(), draft)
	})
}
