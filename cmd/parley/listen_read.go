package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/platform/clock"
	"github.com/parley-chat/parley/internal/platform/signature"
)

const (
	readEvery = time.Second
	// lateBy is how much later than a newer delivery an older one may appear in the list: the transactions that make
	// deliveries commit in another order.
	lateBy = time.Minute
)

// delivery is what the API answers of one.
type delivery struct {
	ID        string          `json:"id"`
	EventType string          `json:"event_type"`
	EventID   string          `json:"event_id"`
	EventUID  string          `json:"event_uid"`
	CreatedAt time.Time       `json:"created_at"`
	Payload   json.RawMessage `json:"payload"`
}

// read reads deliveries by the API until the context ends. Their subscription is paused, so that Parley keeps them and
// posts none.
func (l *listening) read(ctx context.Context, receiver *localReceiver) error {
	made, err := l.subscribe(ctx, neverCalled)
	if err != nil {
		return err
	}
	defer l.unsubscribe(ctx, made)
	err = l.api.call(ctx, http.MethodPatch, subscriptionsPath+"/"+made.ID, map[string]string{"status": "paused"}, nil)
	if err != nil {
		return err
	}
	receiver.secrets = []string{made.Secret}
	l.announce("Parley cannot reach this machine: its deliveries are read by the API, every second.", made)
	since, seen := made.CreatedAt.Add(-lateBy), map[string]time.Time{}
	for tick := time.NewTicker(readEvery); ; {
		fresh, err := l.fresh(ctx, made, since, seen)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(l.stderr, "cannot read deliveries, trying again: %v\n", err)
		}
		for _, one := range fresh {
			if err := l.pass(ctx, receiver, made, one); err != nil {
				if ctx.Err() == nil {
					fmt.Fprintf(l.stderr, "%s could not be read, trying again: %v\n", one.ID, err)
				}
				break
			}
			seen[one.ID] = one.CreatedAt
			if late := one.CreatedAt.Add(-lateBy); late.After(since) {
				since = late
			}
		}
		for id, at := range seen {
			if at.Before(since) {
				delete(seen, id)
			}
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// fresh returns the deliveries that were not passed on yet, oldest first.
func (l *listening) fresh(ctx context.Context, of subscription, since time.Time, seen map[string]time.Time) (fresh []delivery, err error) {
	query := url.Values{"subscription_id": {of.ID}, "limit": {"100"}, "created_after": {clock.Stamp(since).String()}}
	for more := true; more; {
		var page struct {
			Data       []delivery `json:"data"`
			HasMore    bool       `json:"has_more"`
			NextCursor string     `json:"next_cursor"`
		}
		if err := l.api.whole(ctx, http.MethodGet, "/webhook_deliveries?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for _, one := range page.Data {
			if _, passed := seen[one.ID]; !passed {
				fresh = append(fresh, one)
			}
		}
		more = page.HasMore
		query.Set("cursor", page.NextCursor)
	}
	slices.Reverse(fresh)
	return fresh, nil
}

// pass hands a delivery to the receiver as if Parley had posted it.
func (l *listening) pass(ctx context.Context, receiver *localReceiver, of subscription, one delivery) error {
	if err := l.api.call(ctx, http.MethodGet, "/webhook_deliveries/"+one.ID, nil, &one); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(one.Payload))
	if err != nil {
		return err
	}
	request.Header = http.Header{
		"Content-Type":      {"application/json"},
		"X-Svc-Source":      {events.Type(one.EventType).Source()},
		"X-Svc-Event":       {one.EventType},
		"X-Svc-Event-Id":    {one.EventID},
		"X-Svc-Event-Uid":   {one.EventUID},
		"X-Svc-Delivery-Id": {one.ID},
		"X-Svc-Attempt":     {"1"},
		signature.Header:    {signature.Sign(receiver.clock.Now(), one.Payload, of.Secret)},
	}
	receiver.ServeHTTP(&unread{header: http.Header{}}, request)
	return nil
}

// unread is the answer to a delivery that nobody waits for.
type unread struct{ header http.Header }

func (u *unread) Header() http.Header            { return u.header }
func (u *unread) Write(text []byte) (int, error) { return len(text), nil }
func (u *unread) WriteHeader(int)                {}
