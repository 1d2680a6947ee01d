package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/receiver"
	"github.com/parley-chat/parley/internal/testkit/truth"
)

// TestWebhooks_SecretRotation_EverySignatureVerifies delivers while every subscription gets a second
// secret and then loses its first. Some attempts fail at first, some deliveries are replayed.
func TestWebhooks_SecretRotation_EverySignatureVerifies(t *testing.T) {
	t.Parallel()
	both := []string{"customer.created", "customer.updated"}
	f := newWebhookFixture(t, 5, [][]string{both, both, both, both, {"contact.created"}})
	deliveries := sized(1_008, 50_000)
	events := deliveries / 4
	f.receiver.Answer(func(one receiver.Request) (answer receiver.Answer) {
		if one.Attempt() == 1 && oneIn(50, one.DeliveryID()) {
			answer.Status = http.StatusInternalServerError
		}
		if strings.HasSuffix(one.Path, "/0") { // slow, so that its lane is never empty: the drainer must notice the rotation
			answer.Delay = sized(1500*time.Millisecond, 300*time.Millisecond)
		}
		return answer
	})
	began := time.Now()
	// In CI events come slowly, because within two seconds of a rotation either set of secrets is right.
	published := f.publish(t.Context(), events, sized(time.Tick(24*time.Second/time.Duration(events)), nil))
	f.awaitChanges(t, events/4, 10*time.Minute)
	f.awaitPhase(t, began, deliveries/15)
	minting := f.rotate(t, (*tenantClient).mint)
	replayed := f.replay(t, deliveries/500)
	minted := time.Now()
	f.awaitChanges(t, events/2+events/8, 10*time.Minute)
	f.awaitPhase(t, minted.Add(truth.Tolerance), deliveries/15)
	revoking := f.rotate(t, (*tenantClient).revoke)
	require.NoError(t, published())
	took := time.Since(began)
	replayed = append(replayed, f.replay(t, deliveries/200)...)
	rest := f.awaitDelivered(t, deliveredWithin)

	shown := f.requireShown(t, sized(100, 500))
	found := truth.Require(t, f.run())
	require.Equal(t, deliveries+len(replayed), found.Deliveries)
	require.Equal(t, found.Requests, found.Verified)
	requests := f.receiver.Requests()
	requireReplayed(t, requests, replayed)
	requireOrder(t, requests)
	n := f.phases(requests)
	least := sized(0, deliveries/20) // on a slow machine most requests are near a change of secrets
	require.Greater(t, n.first, least)
	require.Greater(t, n.both, least)
	require.Greater(t, n.second, least)
	t.Logf("%d deliveries in %.0f s and %.1f s more: all verified in Node, %d requests, %d of them again, %d replays, %d shown alike",
		found.Deliveries, took.Seconds(), rest.Seconds(), found.Requests, repeats(requests), len(replayed), shown)
	t.Logf("signed by the first secret %d, by both %d, by the second %d, within %s of a change %d; minting took up to %s, revoking %s",
		n.first, n.both, n.second, truth.Tolerance, n.near, minting.Round(time.Millisecond), revoking.Round(time.Millisecond))
}

// awaitPhase waits until that many requests have arrived since a time, and then for the tolerance of
// the checker, so that these requests are not close to the next rotation.
func (f *webhookFixture) awaitPhase(t *testing.T, since time.Time, wanted int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		arrived := 0
		for _, request := range f.receiver.Requests() {
			if request.At.After(since) {
				arrived++
			}
		}
		if arrived >= wanted {
			break
		}
		require.Less(t, time.Since(began), 10*time.Minute, "%d of %d requests", arrived, wanted)
	}
	time.Sleep(truth.Tolerance)
}

// rotate changes the secrets of every subscription, and returns how long the slowest took.
func (f *webhookFixture) rotate(t *testing.T, change func(*tenantClient, context.Context, int) (truth.Span, error)) (slowest time.Duration) {
	t.Helper()
	var mu sync.Mutex
	require.NoError(t, each(len(f.tenants), func(i int) error {
		for j := range f.tenants[i].subscriptions {
			took, err := change(f.clientOf(f.tenants[i]), t.Context(), j)
			if err != nil {
				return err
			}
			mu.Lock()
			slowest = max(slowest, took.End.Sub(took.Begin))
			mu.Unlock()
		}
		return nil
	}))
	return slowest
}

// mint creates a subscription's second secret.
func (c *tenantClient) mint(ctx context.Context, of int) (truth.Span, error) {
	one, span := c.of.subscriptions[of], truth.Span{Begin: time.Now()}
	path := "/webhook_subscriptions/" + one.ID + "/secrets"
	minted, err := c.ask(ctx, call{method: http.MethodPost, path: path, body: `{}`}, truth.Call{Key: "mint-" + one.ID})
	var body struct{ Data struct{ Secret string } }
	if err == nil {
		err = json.Unmarshal(minted.body, &body)
	}
	if err != nil || body.Data.Secret == "" {
		return span, fmt.Errorf("minting: %d: %w", minted.status, err)
	}
	span.End = time.Now()
	one.Secrets = append(one.Secrets, truth.Secret{Text: body.Data.Secret, Minted: span})
	return span, nil
}

// revoke revokes a subscription's first secret.
func (c *tenantClient) revoke(ctx context.Context, of int) (truth.Span, error) {
	one, span := c.of.subscriptions[of], truth.Span{Begin: time.Now()}
	path := "/webhook_subscriptions/" + one.ID + "/secrets/" + c.of.secretIDs[of]
	revoked, err := c.ask(ctx, call{method: http.MethodDelete, path: path}, truth.Call{})
	if err != nil || revoked.status != http.StatusOK {
		return span, fmt.Errorf("revoking: %d %s: %w", revoked.status, revoked.body, err)
	}
	span.End = time.Now()
	one.Secrets[0].Revoked = span
	return span, nil
}

// phases counts the requests before, between and after the rotations of their subscription, and
// those near a rotation, when either set of secrets is right.
type phases struct{ first, both, second, near int }

func (f *webhookFixture) phases(requests []receiver.Request) (n phases) {
	around := func(at time.Time, change truth.Span) bool {
		return at.After(change.Begin.Add(-truth.Tolerance)) && at.Before(change.End.Add(truth.Tolerance))
	}
	for _, request := range requests {
		secrets := f.subscriptionOf(request).Secrets
		minted, revoked := secrets[1].Minted, secrets[0].Revoked
		switch at := request.At; {
		case around(at, minted) || around(at, revoked):
			n.near++
		case at.Before(minted.Begin):
			n.first++
		case at.After(revoked.End):
			n.second++
		case strings.Count(request.Header.Get("X-Svc-Signature"), ",v1=") == 2:
			n.both++
		}
	}
	return n
}

// replayedOnce has the ids of a delivery, of its replay, and of their event.
type replayedOnce struct{ original, made, event string }

// replay replays some of the deliveries that arrived.
func (f *webhookFixture) replay(t *testing.T, wanted int) (all []replayedOnce) {
	t.Helper()
	requests := f.receiver.Requests()
	for _, at := range rand.Perm(len(requests))[:min(wanted, len(requests))] {
		one := requests[at]
		asked := truth.Call{Key: "replay-" + truth.Mark()}
		path := "/webhook_deliveries/" + one.DeliveryID() + "/replay"
		made, err := f.clientOf(f.tenantOf(one)).ask(t.Context(), call{method: http.MethodPost, path: path}, asked)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
		data := made.data(t)
		require.Equal(t, one.DeliveryID(), data["replayed_from"])
		all = append(all, replayedOnce{one.DeliveryID(), data["id"].(string), one.EventUID()})
	}
	return all
}

func (f *webhookFixture) tenantOf(one receiver.Request) *tenant {
	var at, subscription int
	_, _ = fmt.Sscanf(one.Path, "/%d/%d", &at, &subscription)
	return f.tenants[at]
}

func (f *webhookFixture) subscriptionOf(one receiver.Request) *truth.Subscription {
	of := f.tenantOf(one).subscriptions
	return of[slices.IndexFunc(of, func(s *truth.Subscription) bool { return s.Path == one.Path })]
}

// requireReplayed checks that each replay arrived at the endpoint of the original, with the same event.
func requireReplayed(t *testing.T, requests []receiver.Request, replayed []replayedOnce) {
	t.Helper()
	first := map[string]receiver.Request{}
	for _, one := range requests {
		first[one.DeliveryID()] = one
	}
	for _, one := range replayed {
		original, made := first[one.original], first[one.made]
		require.Equal(t, one.event, made.EventUID(), "the replay %s of %s", one.made, one.original)
		require.Equal(t, original.Path, made.Path)
		require.Equal(t, string(original.Body), string(made.Body))
	}
}

// requireShown checks that the payload of a delivery in the API equals the bytes that arrived.
func (f *webhookFixture) requireShown(t *testing.T, wanted int) int {
	t.Helper()
	requests := f.receiver.Requests()
	arrived := map[string][]receiver.Request{}
	for _, one := range requests {
		arrived[one.DeliveryID()] = append(arrived[one.DeliveryID()], one)
	}
	for _, at := range rand.Perm(len(requests))[:min(wanted, len(requests))] {
		id := requests[at].DeliveryID()
		got, err := f.clientOf(f.tenantOf(requests[at])).ask(t.Context(), call{method: http.MethodGet, path: "/webhook_deliveries/" + id}, truth.Call{})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		var body struct {
			Data struct {
				ID, Status   string
				EventID      string `json:"event_id"`
				AttemptCount int    `json:"attempt_count"`
				Payload      json.RawMessage
				Attempts     []json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal(got.body, &body))
		require.Equal(t, "succeeded", body.Data.Status, "%s", got.body)
		require.Len(t, body.Data.Attempts, body.Data.AttemptCount, "%s", got.body)
		for _, one := range arrived[id] {
			require.Equal(t, body.Data.EventID, one.Header.Get("X-Svc-Event-Id"))
			require.True(t, bytes.Equal(body.Data.Payload, one.Body), "%s shows %s and sent %s", id, body.Data.Payload, one.Body)
		}
	}
	return min(wanted, len(requests))
}
