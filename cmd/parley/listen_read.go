package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-chat/parley/internal/domain/events"
	"github.com/parley-chat/parley/internal/domain/webhooks"
	"github.com/parley-chat/parley/internal/platform/clock"
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
func (l *listening) read(ctx context.Context, receiver *localReceiver, why string) error {
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
	l.announce(why+" Deliveries are read by the API, every second.", made)
	read := &reading{since: made.CreatedAt.Add(-lateBy), seen: map[string]time.Time{}}
	for {
		wait := readEvery
		if err := l.readOnce(ctx, receiver, made, read); err != nil && ctx.Err() == nil {
			if refused, ok := errors.AsType[*apiError](err); ok {
				if refused.Status == http.StatusUnauthorized {
					return err
				}
				wait = max(wait, refused.RetryAfter)
			}
			fmt.Fprintf(l.stderr, "cannot read deliveries, trying again in %s: %v\n", wait, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// reading is how far deliveries were read: those since a time are looked at, except for those that were seen.
type reading struct {
	since time.Time
	seen  map[string]time.Time
}

// readOnce passes on what is new, oldest first. What it could not read is new the next time.
func (l *listening) readOnce(ctx context.Context, receiver *localReceiver, made subscription, read *reading) error {
	fresh, err := l.fresh(ctx, made, read)
	if err != nil {
		return err
	}
	for _, one := range fresh {
		if err := l.pass(ctx, receiver, made, one); err != nil {
			return err
		}
		read.seen[one.ID] = one.CreatedAt
		if late := one.CreatedAt.Add(-lateBy); late.After(read.since) {
			read.since = late
		}
	}
	maps.DeleteFunc(read.seen, func(_ string, at time.Time) bool { return at.Before(read.since) })
	return nil
}

// fresh returns the deliveries that were not passed on yet, oldest first. It reads up to the first page on which none is new.
func (l *listening) fresh(ctx context.Context, of subscription, read *reading) (fresh []delivery, err error) {
	query := url.Values{"subscription_id": {of.ID}, "limit": {"100"}, "created_after": {clock.Stamp(read.since).String()}}
	for more := true; more; {
		var page struct {
			Data       []delivery `json:"data"`
			HasMore    bool       `json:"has_more"`
			NextCursor string     `json:"next_cursor"`
		}
		if err := l.api.whole(ctx, http.MethodGet, "/webhook_deliveries?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		before := len(fresh)
		for _, one := range page.Data {
			if _, passed := read.seen[one.ID]; !passed {
				fresh = append(fresh, one)
			}
		}
		more = page.HasMore && (len(page.Data) == 0 || len(fresh) > before)
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
	request.Header = webhooks.Posted{
		Type: events.Type(one.EventType), EventID: one.EventID, EventUID: one.EventUID, DeliveryID: one.ID, Attempt: 1, Body: one.Payload,
	}.Header(receiver.clock.Now(), of.Secret)
	receiver.ServeHTTP(&noAnswer{header: http.Header{}}, request)
	return nil
}

// noAnswer discards the answer to a delivery, because Parley does not wait for it in this mode.
type noAnswer struct{ header http.Header }

func (a *noAnswer) Header() http.Header            { return a.header }
func (a *noAnswer) Write(text []byte) (int, error) { return len(text), nil }
func (a *noAnswer) WriteHeader(int)                {}
